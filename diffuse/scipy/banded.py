"""`scipy.linalg.solve_banded` for a tridiagonal matrix and many right-hand sides, on all threads.

The extension has LAPACK's own operations in an order that keeps to the cache (numpy/small/tridiagonal.c); the
solutions have SciPy's bits and layout.  All other calls, and all errors, are SciPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy

from diffuse.numpy.order import team
from diffuse.numpy.small import native

FEWEST = 1 << 14
"""The fewest elements of right-hand sides that are worth it."""
SIDES = 16
"""The fewest right-hand sides: so many are solved at a time."""


def tridiagonal(solve: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap SciPy's `solve_banded`."""
    if native is None:
        return solve

    @wraps(solve)
    def solve_banded(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 3 and not kwargs and type(args[0]) is tuple and args[0] == (1, 1):
            found = _solved(args[1], args[2])
            if found is not None:
                return found
        return solve(*args, **kwargs)

    return solve_banded


def _solved(bands: Any, b: Any) -> Any:
    """The solutions, as an array in Fortran's order, or None where SciPy has to solve."""
    for x in (bands, b):
        if type(x) is not numpy.ndarray or x.ndim != 2 or x.dtype != numpy.float64 or not x.flags.aligned:
            return None
    if b.size < FEWEST or b.shape[1] < SIDES or b.shape[0] < 2 or bands.shape != (3, b.shape[0]):
        return None
    if not (b.dtype.isnative and bands.dtype.isnative and numpy.isfinite(bands).all()):
        return None
    bands, found = numpy.ascontiguousarray(bands), numpy.empty(b.shape, order="F")
    share = max(1, team.SHARE // b.shape[0])

    def part(low: int, high: int) -> bool:
        right: bool = native.tridiagonal(bands, b, found, low, high)
        return right

    return found if all(team.on_parts(b.shape[1], part, share, SIDES)) else None
