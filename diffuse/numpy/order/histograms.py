"""`histogram`, `histogram2d` and `histogramdd`: each thread counts the elements of its part.

NumPy's own function, called with only the smallest and the largest element, checks the arguments and makes
the edges.  Counts do not depend on the order of the elements.  Sums of weights do: NumPy adds up blocks of
BLOCK elements and then their sums, one after another; here blocks are divided among threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from diffuse.numpy.bridge import fallback
from diffuse.numpy.order import radix, searching
from diffuse.numpy.order.calls import Array, at_hand, given, in_parts, own, table
from diffuse.numpy.order.team import extremes, on_parts

BLOCK = 65536
"""The number of elements in NumPy's blocks."""
TIMES = 5
"""For bins of equal width NumPy is faster up to this many times the usual threshold of elements."""
EXACT = 1 << 53
"""The largest integer up to which every integer is exact as a float64."""
COUNTED = "float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
"""Element types whose bins a compiled routine computes, in float64 as NumPy does."""


@own(numpy.histogram, 0, by_lines=in_parts("histogram"))
def histogram(a: Any, bins: Any, range: Any, density: Any, weights: Any) -> Any:
    array = at_hand(a)
    if array is None or not radix.sortable(array) or array.dtype.kind == "b":
        return None
    if numpy.ndim(bins) == 0 and array.size < TIMES * radix.FEWEST:
        return None
    flat = array.reshape(-1)
    needed = range is None or array.dtype.itemsize == 8 and array.dtype.kind in "iu"
    lowest = extremes(flat) if needed and numpy.ndim(bins) == 0 else None
    ends = lowest if range is None else range
    if type(bins) is str:
        if weights is not None:
            return None
        edges: Any = given(numpy.histogram_bin_edges(flat, bins, range))
        bins = edges.size - 1
    else:
        tiny = numpy.array(flat[:1] if lowest is None or range is not None else lowest, array.dtype)
        edges = fallback.call(numpy.histogram, (tiny, bins, range), {}, silent="order")[1]
    plain = table(edges)
    if plain is None or plain.size < 2:
        return None
    addends = None if weights is None else _addends(weights, array.shape)
    if weights is not None and (addends is None or numpy.ndim(bins)):
        return None
    counts = _between(flat, plain) if numpy.ndim(bins) else _even(flat, plain, ends, lowest, addends)
    if counts is None:
        return None
    if density:
        return given(counts / numpy.array(numpy.diff(plain), float) / counts.sum()), edges
    return given(counts), edges


def _even(flat: Array, edges: Array, ends: Any, lowest: Any, weights: Array | None) -> Array | None:
    """Counts, or sums of weights, in bins of equal width; `lowest` has the smallest and the largest element,
    if it was needed."""
    bins, width = edges.size - 1, _width(flat, edges, ends, lowest)
    if width is None or weights is not None and weights.dtype.kind == "c":
        whole = flat.dtype.name in COUNTED or flat.dtype == edges.dtype
        return _by_numpy(flat, bins, ends, weights) if whole or weights is not None else None
    name = "histogram" if weights is None else "histogram_weighted"
    routine = radix.routines(flat.size, (name, flat.dtype.name))
    if routine is None or not numpy.isfinite(width):
        return None
    words = [int(numpy.float64(value).view(numpy.int64))
             for value in (edges[0], edges[-1], width, bins, *_certain(edges, width))]

    def one(part: slice) -> Array:
        some = numpy.ascontiguousarray(flat[part])
        found = numpy.zeros(bins + 1, numpy.intp if weights is None else numpy.float64)
        more = () if weights is None else (numpy.ascontiguousarray(weights[part], numpy.float64),)
        routine[0](some, some.size, edges, bins, found, *words, *more)
        return found[:bins]

    return _added(flat.size, one, weights)


def _certain(edges: Array, width: Any) -> tuple[float, float]:
    """Two places within a bin, between which an element is on the computed side of each edge.

    The place in all bins is computed by operations whose rounded results never decrease as the element
    grows. So what is computed for an element beyond what is computed for an edge is beyond this edge."""
    bins = edges.size - 1
    with numpy.errstate(all="ignore"):
        off = (edges - edges[0]) / width * float(bins) - numpy.arange(bins + 1.0)
    if not numpy.isfinite(off).all():
        return 1.0, 0.0
    return max(0.0, float(off.max())), 1.0 + min(0.0, float(off.min())) - 2.0**-50


def _width(flat: Array, edges: Array, ends: Any, lowest: Any) -> Any:
    """The difference of the last and the first edge as NumPy computes it; None for elements whose bins no
    routine computes."""
    if flat.dtype.name not in COUNTED or edges.dtype != numpy.float64:
        return None
    if flat.dtype.itemsize == 8 and flat.dtype.kind in "iu":
        low, high = map(int, lowest)
        if max(-low, high) > EXACT:  # NumPy subtracts integers, and converts the elements to floats
            return float(high - low) if ends is lowest and low < high else None
    return edges[-1] - edges[0]


def _by_numpy(flat: Array, bins: Any, ends: tuple[Any, Any], weights: Array | None) -> Array | None:
    """Counts or sums of weights in bins of equal width, by NumPy in several threads."""
    if flat.dtype == numpy.float16 or not numpy.isfinite(numpy.subtract(ends[1], ends[0], dtype=float)):
        return None

    def one(part: slice) -> Array:
        return numpy.histogram(flat[part], bins, ends, weights=None if weights is None else weights[part])[0]

    return _added(flat.size, one, weights)


def _added(size: int, one: Callable[[slice], Array], weights: Array | None) -> Array:
    """Add up what `one` finds in parts of the elements.  Sums of weights are found for NumPy's blocks, and
    added up in their order and in the type of the weights."""
    def several(low: int, high: int) -> list[Array]:
        step = high - low if weights is None else 1
        return [one(slice(k * BLOCK, (k + step) * BLOCK)) for k in range(low, high, step)]

    found = [sums for part in on_parts(-(-size // BLOCK), several, 1) for sums in part]
    total: Array = numpy.zeros(found[0].size, found[0].dtype if weights is None else weights.dtype)
    for sums in found:
        total += sums.astype(total.dtype, copy=False)
    return total


def _addends(weights: Any, shape: tuple[int, ...]) -> Array | None:
    """The weights in one dimension; None if NumPy has to add them up: of another shape, of a type that is no
    number or wider than double, and infinite or NaN ones, whose sums may warn."""
    values = at_hand(weights)
    if values is None or values.shape != shape or values.dtype.kind not in "iufc":
        return None
    if not numpy.can_cast(values.dtype, numpy.complex128):
        return None
    flat = values.reshape(-1)
    if values.dtype.kind in "iu":
        return flat
    finite = on_parts(flat.size, lambda low, high: bool(numpy.isfinite(flat[low:high]).all()))
    return flat if all(finite) else None


def _between(flat: Array, edges: Array) -> Array | None:
    """Counts between given edges.  A search finds how many edges are not greater than an element; one more
    edge, just above the last, separates elements on the last edge from those beyond."""
    found = searching.searchable(edges, flat, "right", beyond=True)
    if found is None or edges.dtype.kind == "f" and numpy.isnan(edges).any():
        return None
    cells, dtype = found.cells, found.dtype
    if cells is not None:

        def one(low: int, high: int) -> Array:
            counts = numpy.zeros(edges.size + 2, numpy.intp)
            cells.count(numpy.ascontiguousarray(flat[low:high], dtype), counts)
            return counts

        counts = numpy.add.reduce(on_parts(flat.size, one))
    else:
        counts = _positions(flat.size, edges.size + 2,
                            lambda low, high, out: found.find(flat[low:high], out))
    if counts is None:
        return None
    inside: Array = counts[1:edges.size].copy()
    inside[-1] += counts[edges.size]
    return inside


def _positions(size: int, most: int, find: Any) -> Array | None:
    """Count the positions, below `most`, that `find(low, high, out)` writes for ranges of elements; None if
    the routine has not arrived."""
    routine = radix.routines(size, ("tally", "int64"))
    if routine is None:
        return None

    def one(low: int, high: int) -> Array:
        counts = numpy.zeros(most, numpy.intp)
        out = numpy.empty(searching.BLOCK, numpy.intp)
        for start in range(low, high, out.size):
            end = min(high, start + out.size)
            find(start, end, out[:end - start])
            routine[0](out, end - start, counts)
        return counts

    found: Array = numpy.add.reduce(on_parts(size, one))
    return found


@own(numpy.histogramdd)
def histogramdd(sample: Any, bins: Any, range: Any, density: Any, weights: Any) -> Any:
    if weights is not None:
        return None
    columns = _columns(sample)
    return None if columns is None else _in_cells(columns, bins, range, density)


@own(numpy.histogram2d, 0, 1)
def histogram2d(x: Any, y: Any, bins: Any, range: Any, density: Any, weights: Any) -> Any:
    columns = _columns([x, y]) if weights is None else None
    if columns is None:
        return None
    if not hasattr(bins, "__len__") or len(bins) not in (1, 2):
        bins = bins if not hasattr(bins, "__len__") else [bins, bins]
    found = _in_cells(columns, bins, range, density)
    return None if found is None else (found[0], *found[1])


def _columns(sample: Any) -> list[Array] | None:
    """The coordinates of a sample, if they are of one type."""
    if type(sample) in (list, tuple):
        found = [at_hand(x) for x in sample]
    else:
        array = at_hand(sample)
        found = [None] if array is None or array.ndim != 2 else [*array.T]
    columns = [x for x in found
               if x is not None and x.ndim == 1 and radix.sortable(x) and x.dtype.kind != "b"]
    alike = {(x.shape, x.dtype) for x in columns}
    return columns if columns and len(columns) == len(found) and len(alike) == 1 else None


def _in_cells(columns: list[Array], bins: Any, limits: Any, density: Any) -> Any:
    """Counts in the cells between the edges of each dimension, and the edges."""
    tiny = numpy.array([extremes(x) for x in columns], columns[0].dtype).T
    edges = fallback.call(numpy.histogramdd, (tiny, bins, limits), {}, silent="order")[1]
    plain: list[Any] = [table(x) for x in edges]
    tables: list[Any] = [None if x is None else searching.searchable(x, columns[0], "right") for x in plain]
    if any(x is None or numpy.isnan(x.array).any() for x in tables):
        return None
    shape = [x.size + 1 for x in plain]
    total = 1
    for n in shape:
        total *= n
    if total > columns[0].size:
        return None

    def find(low: int, high: int, out: Array) -> None:
        each = numpy.empty(high - low, numpy.intp)
        out[:] = 0
        for column, searched, n in zip(columns, tables, shape, strict=True):
            searched.find(column[low:high], each)
            out *= n
            out += each
            out -= column[low:high] == searched.array[-1]

    counts = _positions(columns[0].size, total, find)
    if counts is None:
        return None
    found = counts.reshape(shape).astype(float)[(slice(1, -1),) * len(columns)]
    if density:
        whole = found.sum()
        for d, x in enumerate(plain):
            found = found / numpy.diff(x).reshape([-1 if k == d else 1 for k in range(len(columns))])
        found /= whole
    return given(found), edges
