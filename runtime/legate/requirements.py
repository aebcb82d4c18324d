"""Region requirements: from a layout to the part of each store that every Legate point reads or writes.

Legate's launch domain is that of Diffuse, but for the last dimension, along which each Legate point runs
`span` consecutive points of Diffuse.  For Legate to move the right data, every access has to be a partition
that it can express: a box of the store, tiled from the box's start, each launch dimension along a dimension
of the store.  An access that is none (reversed, overlapping or in other coordinates) is replicated if it only
reads; otherwise the launch runs on one Legate point, which is always correct.

These are pure functions over plain data, independent of Legate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import NamedTuple

from diffuse.ir import ITEMSIZE, Access, Point, Privilege, Replicated, Tiling, covers
from diffuse.runtime.base import LaunchArgument, Layout
from diffuse.runtime.legate.instances import DIMENSIONS
from diffuse.runtime.legate.joining import (
    WHOLE,
    Box,
    Tiles,
    apart,
    around,
    pieces,
    read,
    replicated,
    volume,
    written,
)

MOST_BOXES = 8
"""The most boxes of one store that a task of one Legate point requires, at 10 to 20 us each; more are
replaced by their bounding box."""

LEAST, SAVES = 1 << 20, 4
"""A task of one Legate point assembles a store of pieces if it would otherwise require at least so many bytes
of it, and at least so many times as many as the pieces have."""


class Need(NamedTuple):
    """One argument of a Legate task: a box of a store, replicated or tiled."""

    slot: int
    low: Point
    high: Point
    """The bounds of the box, in the coordinates of the store."""
    tiles: Tiles
    """How Legate points tile the box; WHOLE: it is replicated."""
    reads: bool
    writes: bool

    @property
    def whole(self) -> int:
        """The number of elements that each point gets or writes whole."""
        if self.tiles != WHOLE:
            return 0
        return prod([high - low for low, high in zip(self.low, self.high, strict=True)])


def shared(shape: Point, tiles: Tiles) -> Need:
    """A whole store, of which each point of a launch domain writes a tile."""
    return Need(-1, (0,) * len(shape), shape, tiles, False, True)


class Cut(NamedTuple):
    """A launch as Legate points with their region requirements."""

    spread: Point
    """Legate's launch domain."""
    span: int
    """Points of Diffuse that each Legate point runs, consecutive along the last launch dimension."""
    points: int
    """The extent of that dimension in points of Diffuse; if there is one Legate point, all of them."""
    needs: tuple[Need, ...]
    of: tuple[int, ...]
    """For each argument of the layout, the index of its need; -1 if only `finish` accesses it.  Behind the
    needs count the stores that are assembled."""
    results: tuple[Need, ...]
    """The needs of `finish`, a launch of its own; empty if there is one Legate point, which runs it."""
    assembled: tuple[tuple[int, int], ...] = ()
    """For each store of which the task copies pieces to memory as large as the store, and back: the first of
    consecutive needs, which are the pieces, and their number."""

    @property
    def several(self) -> bool:
        """Is there more than one Legate point?"""
        return prod(self.spread) > 1

    def replicated(self, of: Mapping[int, int]) -> int:
        """The bytes that each point, or `finish`, gets or writes whole, given the size of an element of each
        slot's store."""
        return sum([of[need.slot] * need.whole for need in (*self.needs, *self.results)])

    def tiles(self, tiles: Tiles) -> Tiles:
        """Convert the tiles of points to those of Legate points, in launch dimensions with several Legate
        points."""
        last = len(self.spread) - 1
        return tuple([(d, launch, tile * (self.span if launch == last else 1))
                      for d, launch, tile in tiles if self.spread[launch] > 1])

    def distinguished(self, tiles: Tiles) -> bool:
        """Does each Legate point have a tile of its own?"""
        return {launch for launch, n in enumerate(self.spread) if n > 1} <= {launch for _, launch, _ in tiles}


def cut(layout: Layout, span: int, whole: bool = False, assembles: bool = False) -> Cut:
    """Cut a launch into Legate points of `span` points each.

    `whole`: a single Legate point requires whole stores (which costs nothing there) instead of boxes.
    `assembles`: it may assemble a store of pieces.
    """
    launch = spread_of(layout, span)
    planes = [plane for piece in layout.scratch for plane in piece.planes]
    if launch.several and not whole and all(
            launch.distinguished(plane.tiles) and len(plane.shape) <= DIMENSIONS for plane in planes):
        found = _spread(layout.arguments, launch)
        if found is not None:
            return found
    return _one(layout.arguments, prod(layout.domain), whole, assembles)


def spread_of(layout: Layout, span: int) -> Cut:
    """The Legate points of a launch, of `span` points each, without needs."""
    *outer, last = layout.domain
    return Cut((*outer, -(-last // span)), span, last, (), (), ())


def _one(arguments: Sequence[LaunchArgument], points: int, whole: bool, assembles: bool) -> Cut:
    """The cut into one Legate point, with an argument for each separate box of a store.

    The bounding box could be the whole store, where a task reads its first and last row, for instance.
    """
    needs: list[Need] = []
    of = [-1] * len(arguments)
    assembled: list[tuple[int, int]] = []
    index = {id(a): k for k, a in enumerate(arguments)}
    for group in groups(arguments):
        parts: dict[Box, list[LaunchArgument]] = {}
        for a in group:
            box = None if whole else box_of(a)
            parts.setdefault(box or (*all_of(group), WHOLE), []).append(a)
        parts = replicated(parts, lambda tiles: False)
        if len(parts) > MOST_BOXES:
            parts = {(*around(*parts), WHOLE): group}
        if assembles and (found := _pieces(group, tuple(parts))):
            for a in group:
                of[index[id(a)]] = -2 - len(assembled)
            assembled.append((len(needs), len(found)))
            writes = any(a.privilege is not Privilege.READ for a in group)
            needs += [Need(group[0].slot, low, high, WHOLE, True, writes) for low, high, _ in found]
            continue
        for box, same in parts.items():
            for a in same:
                of[index[id(a)]] = len(needs)
            needs.append(need_of(same, box))
    places = tuple([k if k > -2 else len(needs) - 2 - k for k in of])
    return Cut((1,), points, points, tuple(needs), places, (), tuple(assembled))


def _pieces(group: Sequence[LaunchArgument], boxes: Sequence[Box]) -> list[Box]:
    """The pieces of a store that a task of one Legate point assembles instead of requiring these boxes; none
    if that would not save much.

    Borders of an array on all sides overlap in its corners, and what they have in common with other ranks' is
    little, while the box around them is the whole array.
    """
    shape, dtype = group[0].storage
    found = [box for a in group if (box := box_of(a)) is not None]
    if len(found) < len(group) or volume(*boxes) * ITEMSIZE[dtype] < LEAST:
        return []
    parts = pieces(dict.fromkeys(found))
    return parts if SAVES * volume(*parts) <= volume(*boxes) and len(parts) <= MOST_BOXES else []


def _spread(arguments: Sequence[LaunchArgument], launch: Cut) -> Cut | None:
    """The cut into several Legate points; None if one of them might write what another one accesses."""
    needs: list[Need] = []
    results: list[Need] = []
    of = [-1] * len(arguments)
    index = {id(a): k for k, a in enumerate(arguments)}
    for members in groups(arguments):
        last = [a for a in members if a.late or a.privilege is Privilege.REDUCE]
        group = [a for a in members if not (a.late or a.privilege is Privilege.REDUCE)]
        if last:
            if group and any(a.privilege is Privilege.REDUCE for a in last):
                return None
            results.append(need_of(last, (*_bounds(last), WHOLE)))
        if not group:
            continue
        parts: dict[Box, list[LaunchArgument]] = {}
        writes = any(a.privilege is not Privilege.READ for a in group)
        for a in group:
            box = box_of(a, launch)
            if writes and (box is None or a.privilege is not Privilege.READ
                           and not launch.distinguished(box[2])):
                return None
            parts.setdefault(box or (*all_of(group), WHOLE), []).append(a)
        merged = written(parts) if writes else read(parts, launch.distinguished)
        if merged is None:
            return None
        for found, same in merged.items():
            for a in same:
                of[index[id(a)]] = len(needs)
            needs.append(need_of(same, found))
    return launch._replace(needs=tuple(needs), of=tuple(of), results=tuple(results))


def all_of(group: Sequence[LaunchArgument]) -> tuple[Point, Point]:
    shape = group[0].storage[0]
    return (0,) * len(shape), shape


def _bounds(group: Sequence[LaunchArgument]) -> tuple[Point, Point]:
    """The bounding box of the elements of a store that these arguments access."""
    boxes = [box_of(a) for a in group]
    if None in boxes:
        return all_of(group)
    low = tuple(min(box[0][d] for box in boxes if box) for d in range(len(group[0].storage[0])))
    return low, tuple(max(box[1][d] for box in boxes if box) for d in range(len(low)))


def in_own_coordinates(argument: LaunchArgument) -> bool:
    """Does an argument view a store in the store's own coordinates, maybe its bytes as another type of the
    same size?"""
    store, (shape, dtype) = argument.access.store, argument.storage
    return store.shape == shape and ITEMSIZE[store.dtype] == ITEMSIZE[dtype]


def box_of(argument: LaunchArgument, launch: Cut | None = None) -> Box | None:
    """The partition of an argument as a box and its tiles (no tiles without a launch); None if Legate cannot
    express it."""
    access = argument.access
    if not in_own_coordinates(argument):
        return None
    match access.partition:
        case Replicated():
            return (0,) * len(access.store.shape), access.store.shape, WHOLE
        case Tiling(tile=tile, projection=projection, extent=extent, bounds=bounds, offset=offset):
            low, high = tuple(b[0] for b in bounds), tuple(b[1] for b in bounds)
            if launch is None:
                return low, high, WHOLE
            moving = launch.tiles(tuple([(d, c.dim, tile[d]) for d, c in enumerate(projection.coordinates)
                                         if c.weight]))
            for d, _, _ in moving:
                c = projection.coordinates[d]
                if c.weight != 1 or c.offset or extent[d] > tile[d] or offset[d] != low[d]:
                    return None
            return None if len({axis for _, axis, _ in moving}) < len(moving) else (low, high, moving)
    raise TypeError(f"{access.partition!r} is no partition")


def need_of(members: Sequence[LaunchArgument], box: Box) -> Need:
    """The argument of a Legate task for these arguments of a kernel.  A box that may be written in part only
    is read as well: Legate could otherwise provide memory without the store's elements."""
    low, high, tiles = box
    writes = any(a.privilege is not Privilege.READ for a in members)
    reads = any(a.privilege.reads for a in members)
    if writes and not reads:
        reads = not (any(_fills(a.access, low, high, a.storage) for a in members)
                     or _filled(members, low, high))
    return Need(members[0].slot, low, high, tiles, reads, writes)


def _fills(access: Access, low: Point, high: Point, storage: tuple[Point, str]) -> bool:
    """Does the access cover every element of the box?"""
    if (access.store.shape, ITEMSIZE[access.store.dtype]) != (storage[0], ITEMSIZE[storage[1]]):
        # other coordinates for the same elements: they cover the whole store
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


def _filled(members: Sequence[LaunchArgument], low: Point, high: Point) -> bool:
    """Do accesses that only write, each all of a box of its own, cover the whole box between them?"""
    boxes = {box: a for a in members if (box := box_of(a)) is not None}
    return (all(_fills(a.access, *box[:2], a.storage) for box, a in boxes.items())
            and all(apart(a, b) for a, b in combinations(boxes, 2))
            and volume(*boxes) == volume((low, high, WHOLE)))


def groups(arguments: Iterable[LaunchArgument]) -> list[list[LaunchArgument]]:
    """The arguments grouped by store, in order of first use."""
    groups: dict[int, list[LaunchArgument]] = {}
    for a in arguments:
        groups.setdefault(a.slot, []).append(a)
    return list(groups.values())
