"""Views: the part of a store that an array shows, from NumPy's (offset, strides, shape) to an affine access
map.

A view is interned: equal requests give the same object, so that tasks compare and hash views in constant time
and strides are decomposed only once.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from math import prod
from typing import Any

from diffuse.bounded import Recurring
from diffuse.ir import ITEMSIZE, Access, AccessMap, Partition, Point, Split, Store, tiling

DERIVED = 256
"""The most views and partitions derived from one view that are cached, such as its broadcasts."""

_tokens = count()


class View(AccessMap):
    """An access map that also knows its frame and where its elements lie in memory."""

    __slots__ = ("frame", "dtype", "shape", "offset", "strides", "token", "form", "_hash", "_derived")

    frame: Point
    """The shape of the store's frame, whose coordinates the map gives."""
    dtype: str
    shape: Point
    """The extents of the iteration space on which the map is defined."""
    offset: int
    """Bytes from the start of the store to element (0, ..., 0)."""
    strides: Point
    """Bytes from one index to the next along each iteration dimension; 0 where the view does not move."""
    token: int
    """A number that identifies the view for good: a short key for tables."""
    form: Any
    """The view without its extents (kinds.py): False if it has no form, None until somebody asks."""
    _hash: int
    _derived: dict[Any, Any]

    def __init__(self, rows: tuple[tuple[int, tuple[tuple[int, int], ...]], ...], frame: Point, dtype: str,
                 shape: Point, offset: int, strides: Point, free: Point = (),
                 turned: tuple[tuple[int, int], ...] = ()) -> None:
        put = object.__setattr__
        put(self, "rows", rows)
        put(self, "free", free)
        put(self, "turned", turned)
        put(self, "frame", frame)
        put(self, "dtype", dtype)
        put(self, "shape", shape)
        put(self, "offset", offset)
        put(self, "strides", strides)
        put(self, "token", next(_tokens))
        put(self, "form", None)
        put(self, "_hash", hash((rows, free, turned)))
        put(self, "_derived", {})

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, AccessMap) and self.rows == other.rows
                                 and self.free == other.free and self.turned == other.turned)

    def __reduce__(self) -> tuple[object, ...]:
        return View, (self.rows, self.frame, self.dtype, self.shape, self.offset, self.strides, self.free,
                      self.turned)

    def broadcast(self, shape: Point) -> View:
        """This view repeated over a larger iteration space, by NumPy's broadcasting rule."""
        if shape == self.shape:
            return self
        found: View | None = self._derived.get(shape)
        if found is None:
            lead = len(shape) - len(self.shape)
            kept = {k: k + lead for k, n in enumerate(self.shape) if n == shape[k + lead]}
            found = self._keep(shape, self._renamed(shape, kept))
        return found

    def kept(self, shape: Point, axes: tuple[int, ...]) -> View:
        """This view as the output of a reduction over `shape`: its dimension k is the iteration's axes[k]."""
        found: View | None = self._derived.get((shape, axes))
        if found is None:
            found = self._keep((shape, axes), self._renamed(shape, dict(enumerate(axes))))
        return found

    def gathered(self, shape: Point) -> View:
        """This view with a data-dependent first index, in a task over `shape`; its other dimensions are the
        iteration's."""
        found: View | None = self._derived.get(("gathered", shape))
        if found is None:
            rows = tuple((offset, tuple(t for t in terms if t[0])) for offset, terms in self.rows)
            free = tuple(d for d, (_, terms) in enumerate(self.rows) if any(k == 0 for k, _ in terms))
            strides = (0, *self.strides[1:]) if len(self.shape) > 1 else (0,) * len(shape)
            found = self._keep(("gathered", shape),
                               View(rows, self.frame, self.dtype, shape, self.offset, strides, free))
        return found

    def picked(self, shape: Point, axes: tuple[int, ...]) -> View:
        """This view as read by a task over `shape` that indexes some of its dimensions by data.

        Dimension k follows the iteration's axes[k]; -1 if its coordinate is data-dependent, -2 if it is the
        first index.  ValueError if a coordinate of the store depends on dimensions of both other kinds.
        """
        found: View | None = self._derived.get(("picked", shape, axes))
        if found is None:
            data = {k for k, axis in enumerate(axes) if axis == -1}
            free = tuple([d for d, (_, terms) in enumerate(self.rows) if any(k in data for k, _ in terms)])
            kept = self._renamed(shape, {k: axis for k, axis in enumerate(axes) if axis >= 0})
            if any(kept.rows[d][1] for d in free):
                raise ValueError("a coordinate of the store depends on data only in part")
            found = self._keep(("picked", shape, axes), View(
                kept.rows, self.frame, self.dtype, shape, self.offset, kept.strides, free))
        return found

    def turned_along(self, axes: tuple[int, ...]) -> View:
        """This view as read by a task that shifts it cyclically along these dimensions."""
        found: View | None = self._derived.get(("turned", axes))
        if found is None:
            turned = tuple([(k, self.shape[k]) for k in axes])
            found = self._keep(("turned", axes), View(self.rows, self.frame, self.dtype, self.shape,
                                                      self.offset, self.strides, self.free, turned))
        return found

    def layer(self, index: int) -> View:
        """This view at one index of its first dimension, as NumPy's integer index gives it."""
        found: View | None = self._derived.get(("layer", index))
        if found is None:
            rows = []
            for offset, terms in self.rows:
                first = sum([step * index for k, step in terms if k == 0])
                rows.append((offset + first, tuple([(k - 1, step) for k, step in terms if k > 0])))
            found = self._keep(("layer", index),
                               View(tuple(rows), self.frame, self.dtype, self.shape[1:],
                                    self.offset + index * self.strides[0], self.strides[1:]))
        return found

    def partition(self, store: Store, splits: tuple[Split, ...]) -> Partition:
        """The canonical partition of this view when `splits` cut its iteration space."""
        found: Partition | None = self._derived.get(splits)
        if found is None:
            found = self._keep(splits, tiling(store, self, self.shape, splits))
        return found

    def _keep(self, key: Any, found: Any) -> Any:
        """Cache what was derived from this view."""
        if len(self._derived) >= DERIVED:
            self._derived.clear()
        self._derived[key] = found
        return found

    def _renamed(self, shape: Point, kept: dict[int, int]) -> View:
        rows = tuple([(offset, tuple(sorted([(kept[k], step) for k, step in terms if k in kept])))
                      for offset, terms in self.rows])
        strides = [0] * len(shape)
        for k, target in kept.items():
            strides[target] = self.strides[k]
        return View(rows, self.frame, self.dtype, shape, self.offset, tuple(strides))


def shown(access: Access) -> View:
    """The view of an access; every access of a task that runs has one."""
    assert isinstance(access.map, View)
    return access.map


def located(map: AccessMap, store: Store, shape: Point) -> View:
    """An access map over `shape` to a frame of a row-major store, as a view."""
    if isinstance(map, View):
        return map
    item = ITEMSIZE[store.dtype]
    offset, strides = 0, [0] * len(shape)
    for d, (start, terms) in enumerate(map.rows):
        pitch = item * prod(store.shape[d + 1:])
        offset += start * pitch
        for k, step in terms:
            strides[k] += step * pitch
    return View(map.rows, store.shape, store.dtype, shape, offset, tuple(strides), map.free, map.turned)


_views: dict[tuple[object, ...], View] = Recurring()
"""Interned views; those of live arrays outlive their entry."""


def of(storage_shape: Point, storage_dtype: str, dtype: str, itemsize: int, offset: int, strides: Point,
       shape: Point) -> View:
    """The view of a row-major store that NumPy would describe by `offset` and `strides`, in bytes.

    Uses the store's own coordinates where the view is affine in them, else those of a reshaped frame of the
    same memory.  Raises ValueError if elements do not lie at multiples of their size.
    """
    key = (storage_shape, storage_dtype, dtype, offset, strides, shape)
    found = _views.get(key)
    if found is None:
        found = _decompose(storage_shape, storage_dtype, dtype, itemsize, offset, strides, shape)
        _views[key] = found
    return found


def _decompose(storage_shape: Point, storage_dtype: str, dtype: str, itemsize: int, offset: int,
               strides: Point, shape: Point) -> View:
    if offset % itemsize or any([s % itemsize for s, n in zip(strides, shape, strict=True) if n > 1]):
        raise ValueError(f"offset {offset} and strides {strides} are no multiples of the element size "
                         f"{itemsize}: copy the array first")
    if 0 in shape:  # without elements any coordinates will do, and an empty store has none
        return View(((0, ()),) * len(storage_shape), storage_shape, dtype, shape, 0, (0,) * len(shape))
    start = offset // itemsize
    steps = tuple([s // itemsize if s % itemsize == 0 else 0 for s in strides])
    storage_item = ITEMSIZE[storage_dtype]
    frames: list[Point] = []
    if storage_dtype == dtype or storage_item == itemsize:
        frames.append(storage_shape)
    elif storage_item > itemsize:
        frames.append((*storage_shape, storage_item // itemsize))
    frames.append((prod(storage_shape) * storage_item // itemsize,))
    for frame in frames:
        rows = _rows(frame, start, steps, shape)
        if rows is not None:
            break
    else:
        raise ValueError(f"view of shape {shape} at offset {offset} with strides {strides} leaves its store "
                         f"of shape {storage_shape}: slice within the array")
    followed = {k for _, terms in rows for k, _ in terms}
    return View(rows, frame, dtype, shape, offset,
                tuple([s if k in followed else 0 for k, s in enumerate(strides)]))


def _rows(frame: Point, start: int, steps: Point, shape: Point
          ) -> tuple[tuple[int, tuple[tuple[int, int], ...]], ...] | None:
    """Write a flat position as coordinates of `frame`, digit by digit; None if a coordinate is out of
    bounds."""
    pitch = _pitch(frame)
    if shape == frame and start == 0 and steps == pitch:
        return tuple([(0, ((d, 1),)) for d in range(len(frame))])
    offsets, rest = [], start
    for d, p in enumerate(pitch):
        offsets.append(rest // p if frame[d] > 1 else 0)
        rest -= offsets[-1] * p
    terms: list[list[tuple[int, int]]] = [[] for _ in frame]
    free = {d for d, n in enumerate(frame) if n == 1}
    for k, (step, n) in enumerate(zip(steps, shape, strict=True)):
        # Along one index any coordinate will do: one of extent 1 first, else the one of this pitch.  The step
        # has the stride's sign, because kernels read strides at run time and were emitted for the steps.
        if n == 1:
            place = next((d for d in sorted(free) if pitch[d] == abs(step)),
                         next((d for d, p in enumerate(pitch) if p == abs(step) and frame[d] > 1), None))
            if place is not None:
                terms[place].append((k, 1 if step > 0 else -1))
                free.discard(place)
            continue
        sign, rest_step = (1, step) if step >= 0 else (-1, -step)
        for d, p in enumerate(pitch):
            if frame[d] > 1 and rest_step >= p:
                terms[d].append((k, sign * (rest_step // p)))
                rest_step %= p
        if rest_step:
            return None
    for offset, along, size in zip(offsets, terms, frame, strict=True):
        low = high = offset
        for k, step in along:
            if step < 0:
                low += step * (shape[k] - 1)
            else:
                high += step * (shape[k] - 1)
        if low < 0 or high >= size:
            return None
    return None if rest else tuple([(o, tuple(t)) for o, t in zip(offsets, terms, strict=True)])


@lru_cache(maxsize=1 << 10)
def _pitch(frame: Point) -> Point:
    """The elements from one index of each dimension of a row-major array to the next."""
    return tuple([prod(frame[d + 1:]) for d in range(len(frame))])
