"""Searches, counts and sets of distinct elements of distributed arrays.

A small table is whole on each rank, and each element of a large array is looked up on the rank that holds it.
Each rank counts the elements of its part, and the counts are added up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from diffuse.numpy.arrays import base, core, far, gather, masks, views
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.forms import row_major
from diffuse.numpy.bridge.ranks import parts
from diffuse.numpy.ops.operands import adopt
from diffuse.numpy.order import ranked
from diffuse.numpy.order.calls import Array, given

REAL = "biuf"


def table(x: Any) -> Array | None:
    """Return the elements of a small array, list or number as a NumPy array; None for anything else."""
    if type(x) is core.array_class:
        found = host(x) if x.form.size * x.form.itemsize <= far.TABLE else None
    elif type(x) in (numpy.ndarray, list, tuple, *core.NUMBERS):
        found = numpy.asarray(x)
    else:
        found = None
    return found if found is not None and found.dtype.kind in REAL and found.nbytes <= far.TABLE else None


def ascending(array: Array) -> bool:
    """Is an array one-dimensional and in order, without NaN?"""
    return array.ndim == 1 and array.size > 0 and bool((array[1:] >= array[:-1]).all()) and not bool(
        (array != array).any())


def counted(name: str, function: Callable[[Array], Array], x: Any, length: int) -> Any:
    """Count the elements of each part and add up the counts of all ranks; None if NumPy has to count."""
    x = adopt(views.ravel(x))
    if not far.wanted(x) or not far.located(x):
        return None
    out = core.recorded(row_major((length,), far.INDEX))

    def run(peers: Any, part: Array, target: Array) -> None:
        total = peers.gather(function(part)).sum(axis=0)
        target[...] = total[slice(*peers.ends[1][peers.rank:peers.rank + 2])]

    far.together(name, run, (x,), (out,))
    return out


# -- tables ------------------------------------------------------------------------------------------------


def searchsorted(a: Any, v: Any, side: Any, sorter: Any) -> Any:
    if sorter is not None or side not in ("left", "right"):
        return None
    if parts.wanted(v) and v.dtype.kind in REAL and (line := table(a)) is not None:
        line = line.copy()
        return parts.each("searchsorted", lambda part: line.searchsorted(part, side), v,
                          numpy.intp) if ascending(line) else None
    if parts.wanted(a) and a.ndim == 1 and a.dtype.kind in REAL and (few := table(v)) is not None:
        few = few.copy()
        if few.size and bool(base.UFUNCS["less_equal"](a[:-1], a[1:]).all()):
            found = counted("searchsorted", lambda part: part.searchsorted(few.reshape(-1), side), a,
                            few.size)
            found = None if found is None else numpy.array(host(found)).reshape(few.shape)
            return found if found is None or found.ndim and found.size < core.TINY else (
                given(found) if found.ndim else found[()])
    return None


def digitize(x: Any, bins: Any, right: Any) -> Any:
    edges = table(bins) if parts.wanted(x) and x.dtype.kind in REAL else None
    if edges is None or type(right) is not bool or not (ascending(edges) or ascending(edges[::-1])):
        return None
    edges = edges.copy()
    return parts.each("digitize", lambda part: numpy.digitize(part, edges, right), x, numpy.intp)


def interp(x: Any, xp: Any, fp: Any, left: Any, right: Any, period: Any) -> Any:
    if not parts.wanted(x) or x.dtype.kind not in REAL or period is not None:
        return None
    points, values = table(xp), table(fp)
    if (points is None or values is None or points.shape != values.shape or not ascending(points)
            or not {type(None), float, int, numpy.float64}.issuperset((type(left), type(right)))):
        return None
    points, values = points.copy(), values.copy()
    return parts.each("interp", lambda part: numpy.interp(part, points, values, left, right), x, float)


def isin(element: Any, test_elements: Any, assume_unique: Any, invert: Any, kind: Any) -> Any:
    tested = table(test_elements) if parts.wanted(element) else None
    if tested is None or kind not in (None, "sort") or type(invert) is not bool:
        return None
    tested = tested.copy()
    return parts.each("isin", lambda part: numpy.isin(part, tested, invert=invert, kind=kind), element, bool)


# -- counts ------------------------------------------------------------------------------------------------


def bincount(x: Any, weights: Any, minlength: Any) -> Any:
    if not parts.wanted(x) or x.ndim != 1 or x.dtype.kind not in "iu" or x.dtype.name == "uint64":
        return None
    if weights is not None or type(minlength) is not int or minlength < 0 or int(x.min()) < 0:
        return None
    length = max(int(x.max()) + 1, minlength)
    if length * 8 > far.TABLE:
        return None
    found = counted("bincount", lambda part: numpy.bincount(part, minlength=length), x, length)
    return None if found is None else given(numpy.array(host(found)))


def histogram(a: Any, bins: Any, range: Any, density: Any, weights: Any) -> Any:
    if not parts.wanted(a) or a.dtype.kind not in "iuf" or weights is not None or type(bins) is str:
        return None
    edges: Any = bins if numpy.ndim(bins) == 0 else table(bins)
    if edges is None or numpy.ndim(edges) == 0 and type(edges) is not int:
        return None
    edges = edges if type(edges) is int else edges.copy()
    ends = (a.min(), a.max()) if range is None and type(edges) is int else range
    ends = None if ends is None else tuple([numpy.asarray(host(end) if type(end) in core.ARRAYS else end)[()]
                                            for end in ends])
    if ends is not None and not all(map(numpy.isfinite, ends)):
        return None
    found = numpy.histogram(numpy.zeros(1, a.dtype), edges, ends)[1]
    counts = counted("histogram", lambda part: numpy.histogram(part, edges, ends)[0], a, len(found) - 1)
    if counts is None:
        return None
    counts = numpy.array(host(counts))
    if density:
        counts = counts / numpy.array(numpy.diff(found), float) / counts.sum()
    return given(counts), given(found)


# -- different elements ------------------------------------------------------------------------------------


def unique(ar: Any, index: Any, inverse: Any, counts: Any, axis: Any, equal_nan: Any, sorted: Any = True
           ) -> Any:
    """Return the distinct elements in order and, if asked, the position of the first of each, the number of
    each element among them, and their counts."""
    if not parts.wanted(ar) or axis is not None or not sorted or not ranked.same(ar):
        return None
    x = adopt(views.ravel(ar))
    order: Any = ranked.argsort(x, "stable") if index or inverse else None
    line: Any = ranked.sort(x, "stable") if order is None else gather.along(x, order, 0)
    if line is None:
        return None
    size = x.form.size
    first = core.recorded(row_major((size,), numpy.dtype(bool)))
    first[:1] = True
    base.UFUNCS["not_equal"](line[1:], line[:-1], out=first[1:])
    starts = masks.positions(first)
    results = [gather.along(line, starts, 0)]
    if index:
        results.append(gather.along(order, starts, 0))
    if inverse:
        ranks = core.recorded(row_major((size,), far.INDEX))
        ranks[order] = base.UFUNCS["subtract"](first.astype(far.INDEX).cumsum(), 1)
        results.append(views.reshape(ranks, ar.shape))
    if counts:
        lengths = core.recorded(row_major((starts.size,), far.INDEX))
        base.UFUNCS["subtract"](starts[1:], starts[:-1], out=lengths[:-1])
        lengths[-1:] = size - starts[-1:]
        results.append(lengths)
    if any(found is None for found in results):
        return None
    results = [small(found) for found in results]
    return tuple(results) if len(results) > 1 else results[0]


def lexsort(keys: Any, axis: Any) -> Any:
    """Return the order of the elements by the last key, and among equal ones by the keys before it."""
    if type(keys) not in (tuple, list) or not keys or axis not in (0, -1):
        return None
    if not all([ranked.wanted(key) and key.size == keys[0].size for key in keys]):
        return None
    order = ranked.argsort(keys[0], "stable")
    for key in keys[1:]:
        more = ranked.argsort(gather.along(key, order, 0), "stable")
        order = gather.along(order, more, 0)
    return order


def small(x: Any) -> Any:
    """Return the array, or a NumPy array if it has few elements."""
    return numpy.array(host(x)) if x.size < core.TINY else x


def union1d(ar1: Any, ar2: Any) -> Any:
    from diffuse.numpy.ops.joining import concatenate

    if not (parts.wanted(ar1) and parts.wanted(ar2)) or ar1.dtype != ar2.dtype:
        return None
    return unique(concatenate((ar1, ar2), axis=None), False, False, False, None, True)
