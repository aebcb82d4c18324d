"""Cuts a pass over two fused tasks into Legate points: a stencil and its write-back, for instance.

Each point of such a pass reads some rows beside those that it overwrites, and other points overwrite these.
A region requirement for them would make points interfere.  Therefore points exchange the rows at the borders
of their tiles beforehand, in a small store: each point writes them to a *cell* of it.  A point then requires
its tile and all cells.  It runs the first and the last rows of its tile on copies of them, with the other
points' rows beside them (pass.h), and writes its new border rows to the cells of another store, for the next
pass.

Where the second task reads rows of the first one beside its own, each point runs more rows of the first task
than of the second.  The rows of a store that it reads there overlap those of other points, and Legate has no
such partitions; so these stores have cells, too, if the pass only reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from diffuse.ir import ITEMSIZE, Privilege, Tiling
from diffuse.runtime.base import LaunchArgument, Layout
from diffuse.runtime.legate.joining import WHOLE, Box, Tiles, read
from diffuse.runtime.legate.requirements import (
    Cut,
    Need,
    all_of,
    box_of,
    groups,
    in_own_coordinates,
    need_of,
    spread_of,
)

POINTS = 16
"""The most Legate points of a pass: each gets the cells of all."""
RANK = 2
"""The largest rank of a store whose border rows are exchanged."""


class Edge(NamedTuple):
    """A store that a pass overwrites, and of which points read rows of each other."""

    need: int
    """The index of its need: the rows that a point overwrites."""
    low: Need | None
    """The rows before those of the first point that are read; None if there are none."""
    high: Need | None
    """The rows after those of the last point that are read; None if there are none."""
    words: tuple[int, ...]
    """The words of the block with the addresses of the store's arguments."""
    pitch: int
    """Bytes of a row of the need."""
    writes: bool = True
    """Does the pass overwrite the store, or only read it?"""


class Border(NamedTuple):
    """The rows at the borders of tiles, in iterations: a point reads rows of others in its first `before`
    iterations and in its last `after` ones."""

    before: int = 0
    after: int = 0
    edges: tuple[Edge, ...] = ()

    def cell(self, edge: Edge) -> int:
        """Bytes of a point's cell: its first rows and its last rows, then those before the first point and
        after the last one, which these two points keep."""
        return 2 * (self.before + self.after) * edge.pitch


class Own(NamedTuple):
    """A point's own part of a store, and how many rows beside it points read."""

    box: Box
    before: int
    after: int
    members: tuple[LaunchArgument, ...]

    @property
    def writes(self) -> bool:
        """Is the store overwritten?"""
        return any(a.privilege is not Privilege.READ for a in self.members)


class AccessedRows(NamedTuple):
    """The rows of a store that points access through one argument: point p those from `tile * p + low` to
    `tile * (p + 1) + high`."""

    low: int
    high: int
    tiles: Tiles
    bounds: tuple[tuple[int, int], ...]
    """The box of all rows."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        low, high = self.bounds[0]
        return high - low


def passed(layout: Layout, span: int) -> tuple[Cut, Border] | None:
    """Cut a pass into Legate points of `span` points each; None if points would have to exchange more than
    rows at the borders of their tiles."""
    launch = spread_of(layout, span)
    if len(layout.domain) != 1 or not 1 < launch.spread[0] <= POINTS or layout.scratch:
        return None
    of = [-1] * len(layout.arguments)
    index = {id(a): k for k, a in enumerate(layout.arguments)}
    needs: list[Need] = []
    owned: dict[int, Own] = {}
    written: Box | None = None
    for group in sorted(groups(layout.arguments), key=_reads_only):
        parts: dict[Box, list[LaunchArgument]] = {}
        if any(a.late or a.privilege is Privilege.REDUCE for a in group):
            return None
        if not _reads_only(group) or any(_beside(a) for a in group):
            own = _own(group, launch, written)
            if own is None:
                return None
            written = written or own.box
            owned[len(needs)] = own
            parts = {own.box: group}
        else:
            for a in group:
                parts.setdefault(box_of(a, launch) or (*all_of(group), WHOLE), []).append(a)
            parts = read(parts, launch.distinguished)
        for box, same in parts.items():
            for a in same:
                of[index[id(a)]] = len(needs)
            needs.append(need_of(same, box))
    border = _border(owned, launch.spread[0])
    if border is None:
        return None
    return launch._replace(needs=tuple(_kept(needs, border)), of=tuple(of)), border


def _reads_only(group: Sequence[LaunchArgument]) -> bool:
    return all(a.privilege is Privilege.READ for a in group)


def _beside(argument: LaunchArgument) -> bool:
    """Do points access rows that Legate has no partition for: rows that overlap, or whose first tile does not
    begin at the first row of all?"""
    partition = argument.access.partition
    return isinstance(partition, Tiling) and any([
        c.weight > 0 and (extent > tile or begin != low) for c, tile, extent, begin, (low, _) in zip(
            partition.projection.coordinates, partition.tile, partition.extent, partition.offset,
            partition.bounds, strict=True)])


def _seen(argument: LaunchArgument, launch: Cut) -> AccessedRows | None:
    """The rows that points access through an argument; None if these are no rows of tiles."""
    partition, (shape, _) = argument.access.partition, argument.storage
    if not isinstance(partition, Tiling) or not in_own_coordinates(argument) or not 0 < len(shape) <= RANK:
        return None
    first, *others = partition.projection.coordinates
    if (first.dim, first.weight, first.offset) != (0, 1, 0) or any(c.weight for c in others):
        return None
    low = partition.offset[0]
    tiles = launch.tiles(((0, 0, partition.tile[0]),))
    return AccessedRows(low, low + partition.extent[0] - partition.tile[0], tiles, partition.bounds)


def _own(group: Sequence[LaunchArgument], launch: Cut, written: Box | None) -> Own | None:
    """The rows of a store that each point overwrites or, if the store is only read, as many rows as it
    overwrites of another one, whose rows of all points are in the box `written`; None unless all arguments of
    the store are rows of equal tiles, and those that write begin at the same row."""
    found = [seen for a in group if (seen := _seen(a, launch)) is not None]
    tiles = found[0].tiles if written is None and found else written and written[2]
    if len(found) < len(group) or any([seen.tiles != tiles for seen in found]):
        return None
    own = {(seen.low, seen.rows) for seen, a in zip(found, group, strict=True)
           if a.privilege is not Privilege.READ}
    least, most = min([seen.low for seen in found]), max([seen.high for seen in found])
    if not own and written is not None:
        low, count = written[0][0], written[1][0] - written[0][0]
        if not least <= low <= most or low + count > group[0].storage[0][0]:
            low = max(0, min((least + most) // 2, group[0].storage[0][0] - count))
        own = {(low, count)}
    if len(own) != 1 or any([seen.low != seen.high for seen, a in zip(found, group, strict=True)
                             if a.privilege is not Privilege.READ]):
        return None
    (low, count), = own
    across = [(min(each)[0], max(each, key=itemgetter(1))[1]) for each in zip(
        *[seen.bounds[1:] for seen in found], strict=True)]
    box = (low, *[a for a, _ in across]), (low + count, *[b for _, b in across]), found[0].tiles
    return Own(box, max(0, low - least), max(0, most - low), tuple(group))


def _border(owned: dict[int, Own], points: int) -> Border | None:
    """Return the rows that points exchange of the stores that a pass overwrites; None if a point owns fewer
    rows than its two neighbours read of it."""
    before = max([own.before for own in owned.values()], default=0)
    after = max([own.after for own in owned.values()], default=0)
    edges = []
    for k, own in owned.items():
        (low, *_), (high, *_), ((_, _, tile),) = own.box
        if min(tile, high - low - tile * (points - 1)) < before + after:
            return None
        if not (own.before or own.after):
            continue  # what its points read is their own
        left, right = own.box[0][1:], own.box[1][1:]
        shape, dtype = own.members[0].storage
        slot, rest = own.members[0].slot, (True, False)
        above, below = max(0, low - before), min(shape[0], high + after)
        edges.append(Edge(
            k, Need(slot, (above, *left), (low, *right), WHOLE, *rest) if above < low and before else None,
            Need(slot, (high, *left), (below, *right), WHOLE, *rest) if high < below and after else None,
            tuple([a.word for a in own.members]),
            ITEMSIZE[dtype] * (right[0] - left[0] if left else 1), own.writes))
    return Border(before, after, tuple(edges))


def _kept(needs: Sequence[Need], border: Border) -> list[Need]:
    """The needs of a pass: what it overwrites in part, or reads beside its border, keeps its elements."""
    edges = {edge.need for edge in border.edges}
    return [need._replace(reads=True) if k in edges else need for k, need in enumerate(needs)]
