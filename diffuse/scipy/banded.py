"""`scipy.linalg.solve_banded` for a tridiagonal matrix and many right-hand sides, on all threads.

The extension has LAPACK's own operations in an order that keeps to the cache (numpy/small/tridiagonal.c); the
solutions have SciPy's bits and layout.  As a compiler may contract a product and a sum to one operation, in
LAPACK or here, both solve a system before the first use.  All other calls, and all errors, are SciPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
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
            _, bands, b = args
            found = solved(bands, b) if _fits(bands, b) and has_same_bits(solve) else None
            if found is not None:
                return found
        return solve(*args, **kwargs)

    return solve_banded


def _fits(bands: Any, b: Any) -> bool:
    """Are these arrays that the extension reads, and is the system worth it?"""
    for x in (bands, b):
        if type(x) is not numpy.ndarray or x.ndim != 2 or x.dtype != numpy.float64 or not x.flags.aligned:
            return False
    if b.size < FEWEST or b.shape[1] < SIDES or b.shape[0] < 2 or bands.shape != (3, b.shape[0]):
        return False
    return bool(b.dtype.isnative and bands.dtype.isnative and numpy.isfinite(bands).all())


@cache
def has_same_bits(solve: Callable[..., Any]) -> bool:
    """Has what the extension finds the bits of this function of SciPy's, where rows are exchanged, too?"""
    numbers = numpy.sin(numpy.arange(1.0, 1.0 + 3 * SIDES**2)) * 43758.5453
    bands, b = (2.0 * (numbers - numpy.floor(numbers)) - 1.0).reshape(3, -1), numpy.empty((SIDES**2, SIDES))
    b[:] = bands[0, :, None] - bands[2, :SIDES]
    expected, found = solve((1, 1), bands, b), solved(bands, b)
    return found is not None and bool(found.tobytes() == expected.tobytes())


def solved(bands: Any, b: Any) -> Any:
    """Solve for all right-hand sides, in Fortran's order; None where a solution is not finite."""
    bands, found = numpy.ascontiguousarray(bands), numpy.empty(b.shape, order="F")
    share = max(1, team.SHARE // b.shape[0])

    def part(low: int, high: int) -> bool:
        right: bool = native.tridiagonal(bands, b, found, low, high)
        return right

    return found if all(team.on_parts(b.shape[1], part, share, SIDES)) else None
