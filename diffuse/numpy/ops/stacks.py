"""Stacks of small matrices: the extension multiplies and inverts them in a fraction of OpenBLAS's time.

The bits are NumPy's (numpy/small/stacks.c).  As OpenBLAS chooses its routines by the processor, those of some
matrices are compared before the first use of each shape; where they differ, and wherever a matrix is singular
or a floating-point exception occurs, NumPy computes the stack.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy

from diffuse.numpy.order import team
from diffuse.numpy.small import native

Stack = numpy.ndarray[Any, Any]

LARGEST, ORDER = 8, 4
"""The most rows and columns of matrices that are multiplied, and of those that are inverted; products of real
matrices have no more columns than the latter."""
TYPES = "dD"
"""The element types of matrices that are multiplied."""
FEWEST = 1 << 14
"""The fewest elements of a stack that is computed here, so that small arrays are NumPy's own."""
TRIED = 256
"""The matrices whose bits are compared."""


def product(x: Stack, y: Stack, out: Stack | None = None) -> Stack | None:
    """The product of two arrays of NumPy's, in `out` if it is given; None if NumPy has to compute it."""
    if native is None or x.ndim + y.ndim < 5 or x.ndim > 3 or y.ndim > 3:
        return None
    (m, k), n = x.shape[-2:], y.shape[-1]
    most = ORDER if x.dtype.char == "d" else LARGEST
    if not (m > 1 < k and n > 1 and m <= LARGEST >= k and n <= most) or y.shape[-2] != k:
        return None
    counts = [a.shape[0] for a in (x, y) if a.ndim == 3]
    count = max(counts)
    if max(count * m * n, x.size, y.size) < FEWEST or any(c not in (1, count) for c in counts):
        return None
    if not _usual(x) or not _usual(y) or _same_memory(x, y):
        return None
    types = x.dtype.char + y.dtype.char
    if types == "dD" or (types == "Dd" and not y.flags.c_contiguous):  # NumPy copies the real ones
        return None
    if out is None:
        out = numpy.empty((count, m, n), x.dtype)
    elif not (_usual(out) and out.dtype == x.dtype and out.shape == (count, m, n)
              and out.flags.c_contiguous and out.flags.writeable):
        return None
    if not _multiplies(types, m, k, n, _sides(x), _sides(y)):
        return None
    found = out
    return out if _whole(count, lambda low, high: native.products(x, y, found, low, high), m * n) else None


def inverse(x: Any) -> Stack | None:
    """The inverses of a stack of matrices of NumPy's; None if NumPy has to compute them."""
    if native is None or type(x) is not numpy.ndarray or x.ndim != 3 or x.size < FEWEST or not _usual(x):
        return None
    count, n, columns = x.shape
    if x.dtype.char != "d" or n != columns or not 2 <= n <= ORDER or not _inverts(n):
        return None
    out = numpy.empty(x.shape)
    return out if _whole(count, lambda low, high: native.inverses(x, out, low, high), n * n * n) else None


def _usual(x: Stack) -> bool:
    return x.dtype.char in TYPES and x.dtype.isnative and x.flags.aligned


def _same_memory(x: Stack, y: Stack) -> bool:
    """May this be the product of a matrix with its own transpose, which has a routine of its own?"""
    return bool(x.__array_interface__["data"][0] == y.__array_interface__["data"][0])


def _sides(x: Stack) -> tuple[bool, bool, bool]:
    """What NumPy's choice of a routine depends on: is it a stack, and may BLAS read its matrices as they lie,
    row by row or column by column?"""
    size, (rows, columns), (down, across) = x.itemsize, x.shape[-2:], x.strides[-2:]
    return (x.ndim == 3, across == size and down % size == 0 and down >= columns * size,
            down == size and across % size == 0 and across >= rows * size)


def _whole(count: int, part: Callable[[int, int], bool], work: int) -> bool:
    """Compute all matrices of a stack, on all threads; false if NumPy has to compute one of them."""
    return all(team.on_parts(count, part, share=max(1, team.SHARE // work)))


@cache
def _inverts(n: int) -> bool:
    """Does the extension invert matrices of `n` rows with NumPy's bits?"""
    x = _matrices(n, n, n)
    x[: TRIED // 4] += n * numpy.eye(n)
    x[TRIED // 4: TRIED // 2] *= numpy.eye(n)
    try:
        expected = numpy.linalg.inv(x)
    except numpy.linalg.LinAlgError:  # never of these matrices, unless LAPACK is another one
        return False
    found = numpy.empty_like(x)
    return bool(native.inverses(x, found, 0, TRIED)) and found.tobytes() == expected.tobytes()


def agrees(types: str, m: int, k: int, n: int, one: int, other: int) -> bool:
    """Does the extension multiply matrices of such types, shapes and layouts with NumPy's bits?  It asks this
    for products of few elements, and keeps the answer.  The bits of a layout are those of `_sides`."""
    x, y = [(bool(bits & 1), bool(bits & 2), bool(bits & 4)) for bits in (one, other)]
    return _multiplies(types, m, k, n, x, y)


@cache
def _multiplies(types: str, m: int, k: int, n: int, *sides: tuple[bool, bool, bool]) -> bool:
    """Does the extension multiply matrices of these types and shapes, that lie so in memory, with NumPy's
    bits?"""
    zeros = types != "dd" and n % 4 == 0  # those of other columns are NumPy's (complexes.c)
    given = [_laid_out(_matrices(seed, *shape, char, zeros), *side)
             for seed, shape, char, side in zip((m, n), ((m, k), (k, n)), types, sides, strict=True)]
    found = numpy.empty((TRIED, m, n), types[0])
    if not native.products(*given, found, 0, TRIED):
        return False
    return found.tobytes() == numpy.matmul(*given).tobytes()


def _matrices(seed: int, rows: int, columns: int, char: str = "d", zeros: bool = False) -> Stack:
    """Matrices of numbers from -1 to 1 without an order, some of them with zeros if that is asked for.

    NumPy's generators may not have been imported, and importing them would change error modes in the block in
    which `inv` calls this."""
    size = TRIED * rows * columns * numpy.dtype(char).itemsize // 8
    found: Stack = numpy.sin(numpy.arange(1.0 + seed, 1.0 + seed + size)) * 43758.5453
    found = 2.0 * (found - numpy.floor(found)) - 1.0
    if zeros:
        found[:size // 8] = numpy.where(found[:size // 8] < -0.5, 0.0, found[:size // 8])
    return found.view(char).reshape(TRIED, rows, columns)


def _laid_out(x: Stack, stack: bool, rows: bool, columns: bool) -> Stack:
    """Lay matrices out with packed rows, packed columns, or neither; return the first if not a `stack`."""
    if columns and not rows:
        x = numpy.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1)
    elif not rows:
        x = numpy.repeat(x, 2, axis=2)[:, :, ::2]
    return x if stack else x[0]
