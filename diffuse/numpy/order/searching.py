"""`searchsorted`, `digitize` and `interp`: tables that are searched by compiled routines, on all threads.

Only sorted tables are searched here.  NumPy's results for others depend on the elements that it has searched
for before, so NumPy searches these.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse.numpy.order import memory, radix
from diffuse.numpy.order.calls import Array, at_hand, given, in_parts, own, table
from diffuse.numpy.order.cells import Cells, divided
from diffuse.numpy.order.team import on_parts

BLOCK = 1 << 14
"""The number of elements whose copies stay in cache."""
LONG = 8
"""The largest size of a table, relative to the number of elements that are searched for."""
REAL = (type(None), float, int, numpy.float64)


class Table:
    """The sorted keys of a table, and the routines that search it for elements of one type."""

    def __init__(self, array: Array, dtype: Any, keys: Array, search: Any, cells: Cells | None) -> None:
        self.array, self.dtype = array, dtype
        self._keys, self._search = keys, search
        self.cells = cells

    def find(self, elements: Array, out: Array) -> None:
        """Write the positions of a piece of a one-dimensional array."""
        for low in range(0, elements.size, BLOCK):
            part = numpy.ascontiguousarray(elements[low:low + BLOCK], self.dtype)
            if self.cells is not None:
                self.cells.find(part, out[low:low + BLOCK])
            else:
                self._search(self._keys, self._keys.size, part, part.size, out[low:low + BLOCK])


def searchable(array: Array, elements: Array, side: str, beyond: bool = False) -> Table | None:
    """A table in which such elements can be searched for; None if it is not sorted.  `beyond` appends the
    next larger number to the last element."""
    if array.ndim != 1 or not array.size or elements.size * LONG < array.size:
        return None
    if not (radix.sortable(array) and radix.sortable(elements)):
        return None
    dtype = numpy.promote_types(array.dtype, elements.dtype)
    array = array.astype(dtype, copy=False)
    known = radix.keys_of(array)
    found = radix.routines(elements.size, (f"search_{side}", dtype.name))
    if known is None or found is None or not ascending(known.keys):
        return None
    keys, whole = known.keys, array
    if beyond and int(keys[-1]) < numpy.iinfo(keys.dtype).max:
        keys = numpy.append(keys, keys[-1] + keys.dtype.type(1))
        whole = numpy.append(array, _following(array[-1:]))
    return Table(array, dtype, keys, found[0], divided(whole, side, elements.size))


def _following(last: Array) -> Array:
    """The next larger number of the element type, for each of these."""
    if last.dtype.kind == "f":
        with numpy.errstate(all="ignore"):
            following: Array = numpy.nextafter(last, last.dtype.type(numpy.inf))
    else:
        following = last + last.dtype.type(1)
    return following


def ascending(keys: Array) -> bool:
    return all(on_parts(keys.size - 1,
                        lambda low, high: bool((keys[low:high] <= keys[low + 1:high + 1]).all())))


def positions(found: Table, elements: Array) -> Array:
    """The positions of the elements of an array of any shape."""
    flat = elements.reshape(-1)
    out = memory.empty(flat.size, numpy.intp)
    on_parts(flat.size, lambda low, high: found.find(flat[low:high], out[low:high]))
    return out.reshape(elements.shape)


@own(numpy.searchsorted, 1, by_lines=in_parts("searchsorted"))
def searchsorted(a: Any, v: Any, side: Any, sorter: Any) -> Any:
    elements, array = at_hand(v), table(a)
    if elements is None or array is None or sorter is not None or side not in ("left", "right"):
        return None
    found = searchable(array, elements, side)
    return None if found is None else given(positions(found, elements))


@own(numpy.digitize, 0, by_lines=in_parts("digitize"))
def digitize(x: Any, bins: Any, right: Any) -> Any:
    elements, edges = at_hand(x), table(bins)
    if elements is None or edges is None or type(right) is not bool or edges.ndim != 1:
        return None
    if edges.dtype.kind == "f" and numpy.isnan(edges).any():
        return None
    side = "left" if right else "right"
    found = searchable(edges, elements, side)
    if found is not None:
        return given(positions(found, elements))
    found = searchable(edges[::-1], elements, side)
    if found is None:
        return None
    out = positions(found, elements)
    flat = out.reshape(-1)
    on_parts(flat.size, lambda low, high: numpy.subtract(edges.size, flat[low:high], out=flat[low:high]))
    return given(out)


def _points(x: Any) -> Array | None:
    """The points of a table as float64; None for anything except a vector of at least two real numbers."""
    found = table(x)
    if found is None or found.ndim != 1 or found.size < 2 or found.dtype.kind not in "biuf":
        return None
    return numpy.ascontiguousarray(found, numpy.float64) if found.dtype.itemsize <= 8 else None


@own(numpy.interp, 0, by_lines=in_parts("interp"))
def interp(x: Any, xp: Any, fp: Any, left: Any, right: Any, period: Any) -> Any:
    elements, points, values = at_hand(x), _points(xp), _points(fp)
    if elements is None or points is None or values is None or period is not None:
        return None
    if (points.size != values.size or elements.dtype.kind not in "biuf" or elements.dtype.itemsize > 8
            or type(left) not in REAL or type(right) not in REAL or points.size > LONG * elements.size):
        return None
    known = radix.keys_of(points)
    found = radix.routines(elements.size, ("interpolate", "float64"))
    if known is None or found is None or not ascending(known.keys) or numpy.isnan(points[-1]):
        return None
    interpolate, = found
    with numpy.errstate(all="ignore"):
        slopes = (values[1:] - values[:-1]) / (points[1:] - points[:-1])
    ends = [int(numpy.float64(values[k] if end is None else end).view(numpy.int64))
            for k, end in ((0, left), (-1, right))]
    flat = elements.reshape(-1)
    out = memory.empty(flat.size, numpy.float64)

    def one(low: int, high: int) -> None:
        for start in range(low, high, BLOCK):
            part = numpy.ascontiguousarray(flat[start:min(high, start + BLOCK)], numpy.float64)
            interpolate(known.keys, points.size, part, part.size, out[start:], points, values, slopes, *ends)

    on_parts(flat.size, one)
    return given(out.reshape(elements.shape))


