"""`sort`, `argsort` and `lexsort` on all threads, and lines of arrays sorted or partitioned side by side.

One-dimensional arrays of real numbers are sorted by digits (radix.py), or, where NumPy has a vectorized sort,
in runs that are merged (merging.py); both have NumPy's bits.  `argsort` and `lexsort` find the stable order
(numbering.py).  A stable `argsort` has one result.  Any other kind may order equal elements in any way, and
NumPy's order depends on the processor: the result is determined only if all elements differ, so if two are
equal NumPy sorts.  The same holds for `partition` and `argpartition` of one dimension.
"""

from __future__ import annotations

from operator import index
from types import NoneType
from typing import Any

import numpy

from diffuse.numpy.arrays import base, core
from diffuse.numpy.bridge import fallback
from diffuse.numpy.bridge.ranks import parts
from diffuse.numpy.order import memory, merging, numbering, radix
from diffuse.numpy.order.calls import Array, at_hand, given, in_parts, own
from diffuse.numpy.order.team import on_parts, slabs, threads

KINDS = "quicksort", "heapsort", "stable", "mergesort"
STABLE = KINDS[2:]
MOST = 1 << 32
"""The most elements of an array, as positions are 32-bit integers."""
SAMPLE = 1 << 12
"""The number of elements that are sampled to find out whether elements are equal, or in order."""


NARROW = 1 << 21
"""NumPy sorts integers of one or two bytes by digits if the sort has to be stable: up to so many elements, it
does that in one thread in less time than several threads take here."""
SOONER = 4
"""NumPy's vectorized `argsort` is faster up to so many times the usual threshold of elements."""


def _kind(kind: Any, order: Any, stable: Any) -> str | None:
    """The kind of sort that is requested; None for arguments that NumPy has to handle."""
    if order is not None or type(stable) not in (bool, NoneType) or stable is not None and kind is not None:
        return None
    if kind is None:
        return "stable" if stable else "quicksort"
    return str(kind) if type(kind) is str and kind in KINDS else None


def _axis(axis: Any, array: Array) -> int | None:
    """The axis, counted from the first; None if NumPy has to judge it."""
    if isinstance(axis, (bool, numpy.bool_)):
        return None
    try:
        found = index(axis)
    except TypeError:
        return None
    return found % array.ndim if -array.ndim <= found < array.ndim else None


def _asked(a: Any, axis: Any, kind: Any, order: Any, stable: Any) -> tuple[Array, int, str] | None:
    """The array for `sort` or `argsort`, flattened if there is no axis, the axis counted from the first, and
    the kind of sort; None for arguments that NumPy has to handle."""
    array, wanted = at_hand(a), _kind(kind, order, stable)
    if array is None or wanted is None:
        return None
    if axis is None:
        array, axis = array.ravel(), 0
    along = _axis(axis, array)
    return None if along is None else (array, along, wanted)


def _line(array: Array) -> bool:
    """Should an array be sorted by digits?  One thread is no faster than NumPy's vectorized sorts."""
    return (array.ndim == 1 and radix.FEWEST <= array.size <= MOST and radix.sortable(array)
            and (threads() > 1 or not radix.vectorized(array.dtype)))


def _runs(array: Array) -> bool:
    """Does a sample of the array suggest long ascending or descending runs?  NumPy's stable sort merges
    existing runs."""
    step = max(1, array.size // SAMPLE)
    pairs = array[:-1:step] <= array[1::step][:array[:-1:step].size]
    up = int(numpy.count_nonzero(pairs))
    return min(up, pairs.size - up) * 50 < pairs.size


def _stably(array: Array) -> bool:
    """Is NumPy's stable sort faster?"""
    if array.dtype.itemsize <= 2 and array.dtype.kind != "f":
        return array.size < NARROW
    return _runs(array)


def few(array: Array) -> bool:
    """Is NumPy's `argsort` that is not stable faster, as there are few elements?"""
    return (array.size < SOONER * radix.FEWEST and array.dtype.itemsize >= 4
            and radix.vectorized(array.dtype))


def ordered(array: Array, kind: str = "quicksort") -> Array | None:
    """A sorted copy of a one-dimensional array."""
    stable = kind in STABLE
    if not _line(array) or stable and (array.dtype.itemsize == 1 or _stably(array)):
        return None
    if kind != "heapsort" and radix.vectorized(array.dtype):
        found = merging.ordered(array) if merging.many(array.nbytes) > 1 else None
        if not stable or found is not None and found[-1] == found[-1]:
            return found  # a stable sort gives equal bits one order, too, but may keep other bits of a NaN
    known = radix.keys_of(array)
    if known is None:
        return None
    if known.plain:
        return radix.sorted_values(known, kind)
    order = numbering.ordered(known.keys, known.varying) if stable else None
    return None if order is None else radix.taken(array, order.positions)


def settled(array: Array) -> Array | None:
    """A sorted copy of a one-dimensional array whose equal elements have equal bits; None for others, or if a
    routine has not arrived."""
    if radix.vectorized(array.dtype):
        return merging.ordered(array)
    known = radix.keys_of(array)
    return None if known is None or not known.plain else radix.sorted_values(known)


def _sorted(array: Array, axis: int, kind: str) -> Array | None:
    """A sorted copy of an array of any dimensions."""
    if array.ndim == 1:
        return ordered(array, kind)
    out = memory.like(array)

    def one(part: Any) -> None:
        numpy.copyto(out[part], array[part])
        out[part].sort(axis=axis, kind=kind)

    slabs(one, array.shape, axis)
    return out


def _by_lines(real: Any) -> Any:
    """`sort` or `argsort` of distributed arrays, each part with whole lines."""

    def run(a: Any, axis: Any, kind: Any, order: Any, stable: Any) -> Any:
        wanted = _kind(kind, order, stable)
        if wanted is None or not parts.wanted(a):
            return None
        if axis is None:
            a, axis = a.ravel(), 0
        if a.ndim == 1 and axis in (0, -1):
            from diffuse.numpy.order import ranked

            found = getattr(ranked, real.__name__)(a, wanted)
            return _oversize(real, a) if found is None else found
        return parts.along(real.__name__, lambda array: real(array, axis=axis, kind=wanted), a, axis)

    return run


def _oversize(real: Any, *args: Any) -> Any:
    """The result of a function of one line if no rank has memory for the line and that; else None."""
    from diffuse.numpy.bridge.ranks import oversize

    found = oversize.beforehand(f"numpy.{real.__name__}", args, {})
    return None if found is None else found[0]


def _partition_by_lines(real: Any) -> Any:
    """`partition` or `argpartition` of such arrays."""

    def run(a: Any, kth: Any, axis: Any, kind: Any, order: Any) -> Any:
        if kind != "introselect" or order is not None:
            return None
        found = None
        if type(kth) in (int, tuple, list):
            found = parts.along(real.__name__, lambda array: real(array, kth, axis=axis), a, axis)
        return _oversize(real, a, kth, axis) if found is None else found

    return run


@own(numpy.sort, 0, by_lines=_by_lines(numpy.sort))
def sort(a: Any, axis: Any, kind: Any, order: Any, stable: Any) -> Any:
    asked = _asked(a, axis, kind, order, stable)
    found = None if asked is None else _sorted(*asked)
    return None if found is None else given(found)


def sort_in_place(x: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The method `sort` of arrays."""
    if x.meta.size >= radix.FEWEST and core.ENGINE.host_sees and _replaced(x, args, kwargs):
        return
    if not core.ENGINE.host_sees and _in_parts(x, args, kwargs):
        return
    silent = "order" if core.ENGINE.host_sees else None
    fallback.call(numpy.ndarray.sort, (x, *args), kwargs, "numpy.ndarray.sort", silent)


def _replaced(x: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Sort the elements of an array if that is supported here; returns whether it was done."""
    flags = x.meta.flags
    if not flags.writeable or not (flags.forc or x.meta.ndim == 1 and x.meta.strides[0]):
        return False
    asked = _method(args, kwargs)
    if asked is None:
        return False
    elements = base.writable(x)
    along = _axis(asked[0], elements)
    found = None if along is None else _sorted(elements, along, asked[1])
    if found is not None:
        numpy.copyto(elements, found)
        base.wrote(x)
    return found is not None


def _in_parts(x: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Sort the lines of a distributed array, if that is possible on its parts."""
    asked = _method(args, kwargs)
    if asked is None:
        return False
    axis, kind = asked
    if x.ndim == 1 and axis in (0, -1):
        from diffuse.numpy.order import ranked

        return x.flags.writeable and parts.wanted(x) and ranked.sort(x, kind, x) is not None
    return parts.in_place("sort", lambda array: array.sort(axis, kind), x, axis)


def _method(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    """The axis and the kind that the method `sort` is asked for; None for arguments that NumPy shall see."""

    def bound(axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> tuple[Any, Any]:
        return axis, _kind(kind, order, stable)

    try:
        axis, kind = bound(*args, **kwargs)
    except TypeError:
        return None
    return None if kind is None else (axis, kind)


@own(numpy.argsort, 0, by_lines=_by_lines(numpy.argsort))
def argsort(a: Any, axis: Any, kind: Any, order: Any, stable: Any) -> Any:
    asked = _asked(a, axis, kind, order, stable)
    if asked is None:
        return None
    array, along, wanted = asked
    if array.ndim > 1:
        return given(_argsorted(array, along, wanted))
    stably = wanted in STABLE
    if not _line(array) or (_stably(array) if stably else few(array) or _tied(array)):
        return None
    known = radix.keys_of(array)
    found = None if known is None else numbering.ordered(known.keys, known.varying, marked=not stably)
    if found is None or found.first is not None and not found.first.all():
        return None
    return given(radix.long(found.positions))


def _argsorted(array: Array, axis: int, kind: Any) -> Array:
    out = memory.empty(array.size, numpy.intp).reshape(array.shape)

    def one(part: Any) -> None:
        out[part] = array[part].argsort(axis=axis, kind=kind)

    slabs(one, array.shape, axis)
    return out


def _tied(array: Array) -> bool:
    """Are elements equal, as far as a sample shows?"""
    sample = numpy.sort(array[::max(1, array.size // SAMPLE)])
    return bool((sample[1:] == sample[:-1]).any())


@own(numpy.lexsort, by_lines=in_parts("lexsort"))
def lexsort(keys: Any, axis: Any) -> Any:
    if type(keys) not in (tuple, list) or not keys:
        return None
    arrays = [at_hand(key) for key in keys]
    first = arrays[0]
    if first is None or _axis(axis, first) is None:
        return None
    numbers: Array | None = None
    for array in arrays:
        if array is None or array.shape != first.shape or not _line(array):
            return None
        known = radix.keys_of(array)
        if known is None:
            return None
        order = known.keys if numbers is None else radix.taken(known.keys, numbers)
        found = numbering.ordered(order, known.varying)
        if found is None:
            return None
        numbers = found.positions if numbers is None else radix.taken(numbers, found.positions)
    return None if numbers is None else given(radix.long(numbers))


def _lines(a: Any, kth: Any, axis: Any, kind: Any, order: Any, fewest: int = 2) -> tuple[Array, int] | None:
    """The array, of so many dimensions at least, and the axis of a partition for the threads."""
    array = at_hand(a)
    if array is None or array.ndim < fewest or kind != "introselect" or order is not None:
        return None
    along = None if axis is None else _axis(axis, array)
    numbers = (kth,) if type(kth) is int else kth if type(kth) in (tuple, list) else ()
    if along is None or not numbers or any(type(k) is not int for k in numbers):
        return None
    length = array.shape[along]
    return (array, along) if all(-length <= k < length for k in numbers) else None


@own(numpy.partition, 0, by_lines=_partition_by_lines(numpy.partition))
def partition(a: Any, kth: Any, axis: Any, kind: Any, order: Any) -> Any:
    found = _lines(a, kth, axis, kind, order, 1)
    return None if found is None else given(partitioned(*found, kth))


def partitioned(array: Array, axis: int, kth: Any) -> Array:
    """A partitioned copy of an array, whose lines are divided among the threads; a single line is copied by
    all of them."""
    out = memory.like(array)
    if array.ndim == 1:
        on_parts(array.size, lambda low, high: numpy.copyto(out[low:high], array[low:high]))
        out.partition(kth)
        return out

    def one(part: Any) -> None:
        numpy.copyto(out[part], array[part])
        out[part].partition(kth, axis=axis)

    slabs(one, array.shape, axis)
    return out


@own(numpy.argpartition, 0, by_lines=_partition_by_lines(numpy.argpartition))
def argpartition(a: Any, kth: Any, axis: Any, kind: Any, order: Any) -> Any:
    found = _lines(a, kth, axis, kind, order)
    if found is None:
        return None
    array, along = found
    out = memory.empty(array.size, numpy.intp).reshape(array.shape)

    def one(part: Any) -> None:
        out[part] = array[part].argpartition(kth, axis=along)

    slabs(one, array.shape, along)
    return given(out)
