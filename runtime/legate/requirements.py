"""Region requirements: from a layout to the part of each store that every Legate point reads or writes.

Legate cuts a launch into `spread` points of its own; each runs `span` consecutive points of Diffuse.  For
Legate to move the right data, every access has to be a partition that it can express: a box of the store,
tiled along one dimension from the box's start.  An access that is none (reversed, overlapping or in other
coordinates) is replicated if it only reads; otherwise the launch runs on one Legate point, which is always
correct.

These are pure functions over plain data, which know nothing of Legate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

from diffuse.ir import Access, Point, Privilege, Replicated, Tiling, covers
from diffuse.runtime.base import LaunchArgument, Layout

WHOLE = -1
MOST_BOXES = 8
"""The most boxes of one store that a task of one Legate point requires, at 10 to 20 us each; more are
replaced by their bounding box."""


class Need(NamedTuple):
    """One argument of a Legate task: a box of a store, replicated or tiled."""

    slot: int
    low: Point
    high: Point
    """The bounds of the box, in the coordinates of the store."""
    axis: int
    """The dimension along which the box is tiled; WHOLE: it is replicated."""
    tile: int
    """The extent of a Legate point's tile in that dimension."""
    reads: bool
    writes: bool


@lru_cache(1024)
def tiles(shape: Point, axis: int, tile: int) -> Need:
    """A whole store, which Legate points write by tiles along one dimension."""
    return Need(-1, (0,) * len(shape), shape, axis, tile, False, True)


class Cut(NamedTuple):
    """A launch as Legate points with their region requirements."""

    spread: int
    """Legate points."""
    span: int
    """Points of the launch domain that each Legate point runs."""
    points: int
    """Points of the launch domain."""
    needs: tuple[Need, ...]
    of: tuple[int, ...]
    """For each argument of the layout, the index of its need; -1 if only `finish` accesses it."""
    results: tuple[Need, ...]
    """The needs of `finish`, a launch of its own; empty if there is one Legate point, which runs it."""


def cut(layout: Layout, points: int, span: int, whole: bool = False) -> Cut:
    """Cut a launch of `points` points into Legate points of `span` each.

    `whole`: a single Legate point requires whole stores (which costs nothing there) instead of boxes.
    """
    spread = -(-points // span)
    if spread > 1:
        found = _spread(layout.arguments, points, spread, span)
        if found is not None:
            return found
    return _one(layout.arguments, points, whole)


def _one(arguments: Sequence[LaunchArgument], points: int, whole: bool) -> Cut:
    """One Legate point, with an argument for each separate box of a store.

    The bounding box could be the whole store, where a task reads its first and last row, for instance.
    """
    needs: list[Need] = []
    of = [-1] * len(arguments)
    index = {id(a): k for k, a in enumerate(arguments)}
    for group in _groups(arguments):
        parts: dict[Box, list[LaunchArgument]] = {}
        for a in group:
            box = None if whole else _box(a, 1, tiled=False)
            parts.setdefault(box or (*_all(group), WHOLE, 0), []).append(a)
        parts = _replicated(parts)
        if len(parts) > MOST_BOXES:
            parts = {(*_around(*parts), WHOLE, 0): group}
        for (low, high, axis, tile), same in parts.items():
            for a in same:
                of[index[id(a)]] = len(needs)
            needs.append(_need(same, low, high, axis, tile))
    return Cut(1, points, points, tuple(needs), tuple(of), ())


def _spread(arguments: Sequence[LaunchArgument], points: int, spread: int, span: int) -> Cut | None:
    """Several Legate points; None if one of them might write what another one accesses."""
    needs: list[Need] = []
    results: list[Need] = []
    of = [-1] * len(arguments)
    index = {id(a): k for k, a in enumerate(arguments)}
    for members in _groups(arguments):
        last = [a for a in members if a.late or a.privilege is Privilege.REDUCE]
        group = [a for a in members if not (a.late or a.privilege is Privilege.REDUCE)]
        if last:
            if group and any(a.privilege is Privilege.REDUCE for a in last):
                return None
            results.append(_need(last, *_bounds(last), WHOLE, 0))
        if not group:
            continue
        parts: dict[tuple[Point, Point, int, int], list[LaunchArgument]] = {}
        writes = any(a.privilege is not Privilege.READ for a in group)
        for a in group:
            box = _box(a, span)
            if writes and (box is None or box[2] == WHOLE and a.privilege is not Privilege.READ):
                return None
            if box is None:
                shape = a.storage[0]
                box = (0,) * len(shape), shape, WHOLE, 0
            parts.setdefault(box, []).append(a)
        merged = _merged(parts) if writes else _replicated(parts)
        if merged is None:
            return None
        parts = merged
        for (low, high, axis, tile), same in parts.items():
            for a in same:
                of[index[id(a)]] = len(needs)
            needs.append(_need(same, low, high, axis, tile))
    return Cut(spread, span, points, tuple(needs), tuple(of), tuple(results))


def _all(group: Sequence[LaunchArgument]) -> tuple[Point, Point]:
    shape = group[0].storage[0]
    return (0,) * len(shape), shape


def _bounds(group: Sequence[LaunchArgument]) -> tuple[Point, Point]:
    """The bounding box of what these arguments access of their store."""
    boxes = [_box(a, 1, tiled=False) for a in group]
    if None in boxes:
        return _all(group)
    low = tuple(min(box[0][d] for box in boxes if box) for d in range(len(group[0].storage[0])))
    return low, tuple(max(box[1][d] for box in boxes if box) for d in range(len(low)))


Box = tuple[Point, Point, int, int]


def _box(argument: LaunchArgument, span: int, tiled: bool = True) -> Box | None:
    """The partition of an argument as a box and a tiling; None if Legate cannot express it."""
    access = argument.access
    if (access.store.shape, access.store.dtype) != argument.storage:
        return None
    match access.partition:
        case Replicated():
            return (0,) * len(access.store.shape), access.store.shape, WHOLE, 0
        case Tiling(tile=tile, projection=projection, extent=extent, bounds=bounds, offset=offset):
            low, high = tuple(b[0] for b in bounds), tuple(b[1] for b in bounds)
            moving = [d for d, c in enumerate(projection.coordinates) if c.weight]
            if not moving or not tiled:
                return low, high, WHOLE, 0
            d = moving[0]
            c = projection.coordinates[d]
            if len(moving) > 1 or c.weight != 1 or c.offset or extent[d] > tile[d] or offset[d] != low[d]:
                return None
            return low, high, d, tile[d] * span
    raise TypeError(f"{access.partition!r} is no partition")


def _merged(parts: dict[Box, list[LaunchArgument]]) -> dict[Box, list[LaunchArgument]] | None:
    """Merge the boxes of a store that is written: equal tilings join, disjoint boxes stay; else None."""
    boxes = list(parts)
    if len(boxes) == 1:
        return parts
    if all(_apart(a, b) for k, a in enumerate(boxes) for b in boxes[:k]):
        return parts
    _, _, axis, tile = boxes[0]
    if axis == WHOLE or any((b[2], b[3]) != (axis, tile) or b[0][axis] != boxes[0][0][axis] for b in boxes):
        return None
    return {(*_around(*boxes), axis, tile): [a for members in parts.values() for a in members]}


def _replicated(parts: dict[Box, list[LaunchArgument]]) -> dict[Box, list[LaunchArgument]]:
    """Merge the boxes of a store that is only read: a replicated box absorbs the boxes it overlaps.

    Legate 26.1 sometimes runs a point before its copy of a replicated box is complete, if the point also
    requires some of the elements as a tile: `p[::-1] - p` then sees an older `p`.
    """
    for a, b in permutations(parts, 2):
        if a[2] == WHOLE and not _apart(a, b):
            joined: dict[Box, list[LaunchArgument]] = {}
            for box, same in parts.items():
                joined.setdefault((*_around(a, b), WHOLE, 0) if box in (a, b) else box, []).extend(same)
            return _replicated(joined)
    return parts


def _around(*boxes: Box) -> tuple[Point, Point]:
    """The bounding box of these boxes."""
    return (tuple(map(min, zip(*(low for low, *_ in boxes), strict=True))),
            tuple(map(max, zip(*(high for _, high, *_ in boxes), strict=True))))


def _apart(a: Box, b: Box) -> bool:
    return any(ahigh <= blow or bhigh <= alow
               for alow, ahigh, blow, bhigh in zip(a[0], a[1], b[0], b[1], strict=True))


def _need(members: Sequence[LaunchArgument], low: Point, high: Point, axis: int, tile: int) -> Need:
    """One argument of a Legate task for these arguments of a kernel.  A box that may be written in part only
    is read as well: Legate could otherwise provide memory without the store's elements."""
    writes = any(a.privilege is not Privilege.READ for a in members)
    reads = any(a.privilege.reads for a in members)
    if writes and not reads:
        reads = not any(_fills(a.access, low, high, a.storage) for a in members)
    return Need(members[0].slot, low, high, axis, tile, reads, writes)


def _fills(access: Access, low: Point, high: Point, storage: tuple[Point, str]) -> bool:
    """Does the access cover every element of the box?"""
    if (access.store.shape, access.store.dtype) != storage:
        # other coordinates for the same elements: all of them are all of the store
        return low == (0,) * len(low) and high == storage[0] and covers(access)
    if low == (0,) * len(low) and high == access.store.shape:
        return covers(access)
    if isinstance(access.partition, Replicated):
        return True
    used = [k for _, terms in access.map.rows for k, _ in terms]
    if len(used) != len(set(used)) or any(len(terms) > 1 for _, terms in access.map.rows):
        return False
    return (all(s == 1 for s in access.partition.stride)
            and all(b == (x, y) for b, x, y in zip(access.partition.bounds, low, high, strict=True)))


def _groups(arguments: Iterable[LaunchArgument]) -> list[list[LaunchArgument]]:
    """The arguments grouped by store, in order of first use."""
    groups: dict[int, list[LaunchArgument]] = {}
    for a in arguments:
        groups.setdefault(a.slot, []).append(a)
    return list(groups.values())
