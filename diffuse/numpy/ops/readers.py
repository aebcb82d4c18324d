"""Functions of NumPy that only read their arguments, and whose results share no memory with them.

If a store's memory is in another place, a fallback gets a copy of it.  Arguments that a function may write to
have to be copied back; the copy for a function listed here is read-only, and the store stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Signature, signature
from typing import Any

import numpy

_NAMES = """
    allclose argpartition argsort argwhere array2string array_equal array_equiv array_repr array_str average
    bincount convolve corrcoef correlate count_nonzero cov digitize flatnonzero histogram histogram2d
    histogram_bin_edges histogramdd inner interp intersect1d isin kron lexsort median nanargmax nanargmin
    nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanquantile nanstd nanvar nonzero
    packbits partition percentile poly polydiv polyfit quantile save savetxt savez savez_compressed
    searchsorted setdiff1d setxor1d sort take tensordot trapezoid union1d unique unique_all unique_counts
    unique_inverse unique_values unpackbits vdot
    fft.fft fft.fft2 fft.fftn fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.irfft fft.irfft2 fft.irfftn
    fft.rfft fft.rfft2 fft.rfftn
    linalg.cholesky linalg.cond linalg.det linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.inv
    linalg.lstsq linalg.matrix_rank linalg.norm linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.svd
    linalg.svdvals
    testing.assert_allclose testing.assert_almost_equal testing.assert_array_almost_equal
    testing.assert_array_equal testing.assert_array_less testing.assert_equal
"""
WRITING = "out", "overwrite_input"
"""Options that let a function write to an argument."""


READERS = frozenset(_NAMES.split())
"""The names of these functions in NumPy's namespace."""

SCIPYS = frozenset(f"scipy.linalg.{name}" for name in """solve solve_banded solveh_banded solve_triangular
    solve_circulant solve_toeplitz inv det lstsq pinv pinvh cholesky cholesky_banded cho_factor cho_solve
    cho_solve_banded lu lu_factor lu_solve qr rq eig eigvals eigh eigvalsh eig_banded eigvals_banded
    eigh_tridiagonal eigvalsh_tridiagonal svd svdvals schur hessenberg expm norm toeplitz""".split())
"""Functions of SciPy that only read their arguments unless an option lets them overwrite one."""


def reads(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Is it certain that a call writes to none of its arguments?"""
    try:
        if getattr(function, "__name__", "") == "reduce" and isinstance(
                getattr(function, "__self__", None), numpy.ufunc):
            return len(args) < 5 and (args[3] if len(args) == 4 else kwargs.get("out")) is None
        if not _reader(function):
            return False
        form = _signature(function)
        if form is None:
            return not any(name in kwargs for name in WRITING) and len(args) < 2
        given = form.bind(*args, **kwargs).arguments
    except TypeError:  # no hash, or a call that NumPy will refuse
        return False
    return all(given.get(name) is None or given[name] is False for name in WRITING)


@cache
def _reader(function: Callable[..., Any]) -> bool:
    """Is this one of the functions above?  Identified by its own name, as importing NumPy's `testing` and
    `fft` takes long for a program that uses neither."""
    module, name = getattr(function, "__module__", None) or "", getattr(function, "__name__", "")
    path = f"{module}.{name}".removeprefix("numpy.").replace("testing._private.utils", "testing")
    if path not in READERS:
        return False
    found: Any = numpy
    for part in path.split("."):
        found = getattr(found, part)
    return found is function or found is getattr(function, "stands_for", None)


@cache
def _signature(function: Callable[..., Any]) -> Signature | None:
    try:
        return signature(function)
    except ValueError:
        return None
