"""Analyses indices that contain arrays: which dimensions they index, the layout of the result, and whether
all of them are within the array.

NumPy's rules: integers beside arrays count as arrays; the broadcast dimensions of the arrays take the place
of the first one if all are adjacent, else they come first.  A mask stands for the indices of its true
elements.  Indices that are wrong, or of a kind that only NumPy supports, are not analysed here, and NumPy's
own call handles them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy

from diffuse import library
from diffuse.library import Bounded, Recurring, operations
from diffuse.numpy.arrays import access, base, core
from diffuse.numpy.arrays.core import ARRAYS, Array
from diffuse.numpy.arrays.forms import Form, Mirror, model, outermost_first, packed
from diffuse.numpy.ops.operands import adopt, lowered

NUMBERS: frozenset[type] = frozenset([int, *[numpy.dtype(name).type for name in (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")]])
"""Types of integers; bools index by themselves."""


class Chosen(NamedTuple):
    """The selection of an index with arrays."""

    meta: Mirror
    """The part that integers and slices select; dimensions indexed by arrays are whole."""
    axes: tuple[int, ...]
    """The dimensions that arrays index."""
    arrays: tuple[Any, ...]
    """The arrays of integers, one for each of these dimensions."""
    place: int
    """The position of the arrays' dimensions among those of the result."""
    spread: tuple[int, ...]
    """The broadcast shape of the arrays."""
    mixed: bool
    """Are there integers beside the arrays?"""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        rest = [n for k, n in enumerate(self.meta.shape) if k not in self.axes]
        return (*rest[:self.place], *self.spread, *rest[self.place:])

    @property
    def results(self) -> tuple[int, ...]:
        """For each dimension of the part, the dimension of the result; -1 if an array indexes it."""
        rest = [k for k in range(self.meta.ndim) if k not in self.axes]
        behind = len(self.spread)
        return tuple([-1 if k in self.axes else rest.index(k) + (behind if rest.index(k) >= self.place else 0)
                      for k in range(self.meta.ndim)])


def integers(part: Any) -> Any:
    """An array of integers or bools, as tasks read it; an integer as a number; None for anything else."""
    kind = type(part)
    if kind in NUMBERS:
        return part
    if kind is list:
        part = numpy.asarray(lowered(part))
        if part.size == 0:
            return None
    elif kind not in ARRAYS and kind is not numpy.ndarray:
        return None
    letter, ndim = part.dtype.kind, part.ndim
    if letter not in "biu" or not ndim:
        return int(lowered(part)) if letter in "iu" else None
    found = adopt(part)
    return found if isinstance(found, Array) else None


def take_apart(meta: Mirror, index: Any, positions: Callable[[Any], Sequence[Any]]) -> Chosen | None:
    """Analyse an index of an array; None if it contains no array, or NumPy has to handle it.

    `positions` finds the indices of a mask's true elements, one array for each of its dimensions.
    """
    parts = _expanded(meta.ndim, index if type(index) is tuple else (index,))
    if parts is None:
        return None
    plain: list[Any] = []
    axes: list[int] = []
    arrays: list[Any] = []
    chosen: list[tuple[int, int]] = []
    axis = dimension = 0
    mixed = False
    for number, part in enumerate(parts):
        if part is Ellipsis:
            continue
        if isinstance(part, Array):
            chosen.append((number, axis))
            count = part.form.ndim if part.form.name == "bool" else 1
            if part.form.name == "bool" and part.form.shape != meta.shape[dimension:dimension + count]:
                return None
            arrays += positions(part) if part.form.name == "bool" else [part]
            axes += range(axis, axis + count)
            plain += [slice(None)] * count
            axis, dimension = axis + count, dimension + count
            continue
        if type(part) in NUMBERS:
            chosen.append((number, axis))
            mixed = True
        else:
            axis += 1
        plain.append(part)
        dimension += part is not None
    if not arrays or len(arrays) > operations.GATHERED:
        return None
    try:
        spread = (arrays[0].form.shape if len(arrays) == 1
                  else numpy.broadcast_shapes(*[a.form.shape for a in arrays]))
        part = meta[tuple(plain)]
    except (ValueError, IndexError):
        return None
    numbers = [number for number, _ in chosen]
    beside = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return Chosen(part, tuple(axes), tuple(arrays), chosen[0][1] if beside else 0, spread, mixed)


def _expanded(rank: int, index: tuple[Any, ...]) -> list[Any] | None:
    """The parts of an index of an array of this rank, with an ellipsis replaced by the slices that it stands
    for; an ellipsis for no dimension also separates arrays.  None if NumPy has to handle it."""
    parts: list[Any] = []
    used = dots = 0
    for part in index:
        kind = type(part)
        if kind is slice or part is None:
            used += kind is slice
        elif part is Ellipsis:
            dots += 1
        else:
            part = integers(part)
            if part is None:
                return None
            used += part.form.ndim if isinstance(part, Array) and part.form.name == "bool" else 1
        parts.append(part)
    if used > rank or dots > 1:
        return None
    if not dots:
        parts.append(Ellipsis)
    at = next(k for k, part in enumerate(parts) if part is Ellipsis)
    return [*parts[:at + 1], *[slice(None)] * (rank - used), *parts[at + 1:]]


_layouts: dict[Any, Form] = Recurring(1 << 12)


def layout(chosen: Chosen, dtype: numpy.dtype[Any]) -> Form:
    """The form that NumPy gives the result, determined by indexing a small model of the same layout."""
    metas = [a.meta for a in chosen.arrays]
    key = (chosen.meta.shape, chosen.meta.strides, chosen.axes, chosen.place, chosen.mixed, dtype,
           *[(m.shape, m.strides, m.dtype) for m in metas])
    found = _layouts.get(key)
    if found is None:
        parts: list[Any] = [slice(None)] * chosen.meta.ndim
        for axis, meta in zip(chosen.axes, metas, strict=True):
            parts[axis] = numpy.zeros_like(meta[tuple([slice(0, 2)] * meta.ndim)])
        small = model(chosen.meta)
        if chosen.mixed:
            small = small[(*[slice(None)] * chosen.axes[0], None)]
            parts.insert(chosen.axes[0], 0)
        read = small[tuple(parts)]
        axes, rank = chosen.axes, len(chosen.spread)
        there = axes[0] if axes == tuple(range(axes[0], axes[0] + len(axes))) else 0
        moved = numpy.moveaxis(read, range(there, there + rank),
                               range(chosen.place, chosen.place + rank))
        found = _layouts[key] = packed(chosen.shape, outermost_first(moved), dtype)
    return found


_extremes: dict[Any, tuple[int, int]] = Bounded(1 << 10)
"""The minimum and maximum of index arrays, by store, version and view."""
SOONER = 8
"""NumPy is faster than a task on arrays at hand with up to so many times the elements of a small array; the
extension has the same number."""


def extremes(a: Any) -> tuple[int, int]:
    """The minimum and maximum of an array of integers; waits for it, unless they are cached."""
    memory = access.at_hand(a)
    if memory is not None and memory.size < SOONER * core.SMALL:
        return int(memory.min()), int(memory.max())
    key = name(a)
    found = None if a.storage.exported else _extremes.get(key)
    if found is None:
        low, high = a.min(), a.max()
        found = _extremes[key] = int(low), int(high)
    return found


def name(a: Any) -> tuple[Any, ...]:
    """The key of an array's elements, which stays valid unless other code sees its memory."""
    storage = access.storage_of(a)
    return storage.id, storage.version, a.form, access.offset_of(a, a.meta)


_bounds: dict[Any, tuple[int, int]] = Bounded(1 << 10)
"""Known bounds on the elements of some arrays, by the same key."""


def know(a: Any, low: int, high: int) -> None:
    """Note bounds on the elements of an array, so that they need not be computed."""
    _bounds[name(a)] = low, high


def known(a: Any) -> tuple[int, int] | None:
    """Noted bounds on the elements of an array, if it is unchanged; else None."""
    return None if a.storage is None or a.storage.exported else _bounds.get(name(a))


_ascending: dict[Any, bool] = Bounded(1 << 10)
"""Whether the indices of some arrays are known to ascend, by the same key."""
SAMPLE = 64
"""The number of indices that are compared with their successors before all are."""


def know_ascending(a: Any) -> None:
    """Note that the indices in an array are nonnegative and in order."""
    _ascending[name(a)] = True


def ascending(a: Any) -> bool:
    """Are the indices in an array, which are at hand, nonnegative and in order?  All are compared if a sample
    is; the answer for a large array is cached."""
    if a.form.ndim != 1 or access.storage_of(a).exported:
        return False
    key = name(a)
    found = _ascending.get(key)
    if found is None:
        memory = access.at_hand(a)
        if memory is None:
            return False
        step = max(1, memory.size // SAMPLE)
        sample = numpy.stack((memory[:-1:step], memory[1::step]), 1).ravel()
        found = bool((sample[1:] >= sample[:-1]).all()) and not negative(a) and bool(
            base.UFUNCS["less_equal"](a[:-1], a[1:]).all())
        _ascending[key] = found
    return found


@cache
def bounds(dtype: numpy.dtype[Any]) -> tuple[int, int]:
    """The range of an integer type: no byte is outside a table of 256."""
    of = numpy.iinfo(dtype)
    return of.min, of.max


def within(a: Any, extent: int) -> bool:
    """Are all elements of an array valid indices of a dimension of this extent?"""
    low, high = known(a) or bounds(a.form.dtype)
    if not (-extent <= low and high < extent):
        low, high = extremes(a)
    return -extent <= low and high < extent


def negative(a: Any) -> bool:
    """May an element of an array be negative?"""
    return a.form.dtype.kind != "u" and (known(a) or extremes(a))[0] < 0


def sooner(size: int, *arrays: Any) -> bool:
    """Is NumPy faster than a task that reads or writes so many elements: few ones, of arrays at hand?"""
    return size < SOONER * core.SMALL and all([access.at_hand(a) is not None for a in arrays])


def small(x: Array, index: Any) -> bool:
    """Are the array, and each array in an index, small and at hand, so that NumPy is faster?"""
    if x.meta.size >= core.SMALL or not access.ready(x):
        return False
    parts = index if type(index) is tuple else (index,)
    return not [p for p in parts if type(p) in ARRAYS and (p.meta.size >= core.SMALL or not access.ready(p))
                or type(p) is numpy.ndarray and p.size >= core.SMALL]


def distant(*arrays: Any) -> bool:
    """Are these distributed arrays, which ranks read and write together (far.py)?"""
    if library.current().runtime.ranks == 1:
        return False
    from diffuse.numpy.arrays import far

    return far.wanted(*arrays)
