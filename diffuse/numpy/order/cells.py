"""Sorted tables that are divided into cells of equal width, for searches (kernels/llvm/sorting/cells.py)."""

from __future__ import annotations

from typing import Any

import numpy

from diffuse.numpy.order import radix

Array = numpy.ndarray[Any, Any]

TYPES = "float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
"""Element types of tables; a routine converts elements to float64 to find their cells."""
CELLS = 8
"""The number of cells for each element of a table."""
LARGEST = 1 << 15
"""The largest table that is divided: it and its cells stay in cache."""
SHARED = 16
"""The least number of elements that are searched for, for each element of a table."""


class Cells:
    """A sorted table with the number of elements before each of its cells, and the compiled routines that
    search it."""

    def __init__(self, array: Array, before: Array, steps: int, real: tuple[float, float, float],
                 routines: Any) -> None:
        self._length, (self._search, self._count) = array.size, routines
        self._table = numpy.concatenate([array, numpy.repeat(array[-1:], steps)])
        self._words = before, steps, *[int(numpy.float64(value).view(numpy.int64)) for value in real]

    def find(self, elements: Array, out: Array) -> None:
        """Write the positions of contiguous elements of the table's type."""
        self._search(self._table, self._length, elements, elements.size, out, *self._words)

    def count(self, elements: Array, counts: Array) -> None:
        """Count the contiguous elements at each position, to the right of equal ones."""
        self._count(self._table, self._length, elements, elements.size, counts, *self._words)


def divided(array: Array, side: str, count: int) -> Cells | None:
    """Divide a sorted table for a search of so many elements; None where halving it takes fewer steps, or
    where the routine has not arrived."""
    if array.dtype.name not in TYPES or array.size > LARGEST or count < SHARED * array.size:
        return None
    real = array.astype(numpy.float64)
    low, many = real[0], CELLS * array.size
    with numpy.errstate(all="ignore"):
        scale = many / (real[-1] - low)
        shares = (real - low) * scale
    if not (numpy.isfinite(shares).all() and scale > 0):
        return None
    counts = numpy.bincount(numpy.clip(shares, 0.0, many - 1.0).astype(numpy.intp), minlength=many)
    steps = int(counts.max())
    if 2 * steps > array.size.bit_length():
        return None
    found = radix.routines(count, *[(f"cells_{name}", array.dtype.name) for name in (side, "counts")])
    if found is None:
        return None
    before = (numpy.cumsum(counts) - counts).astype(numpy.uint32)
    return Cells(array, before, steps, (low, scale, many - 1.0), found)
