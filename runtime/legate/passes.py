"""Cuts a pass over two fused tasks into Legate points: a stencil and its write-back, for instance.

Each point of such a pass reads some rows beside those that it overwrites, and other points overwrite these.
A region requirement for them would make points interfere.  Therefore points exchange the rows at the borders
of their tiles beforehand, in a small store: each point writes them to a *cell* of it.  A point then requires
its tile and all cells.  It runs the first and the last rows of its tile on copies of them, with the other
points' rows beside them (pass.h), and writes its new border rows to the cells of another store, for the next
pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from diffuse.ir import ITEMSIZE, Privilege, Tiling
from diffuse.runtime.base import LaunchArgument, Layout
from diffuse.runtime.legate.joining import WHOLE, Box, around, read
from diffuse.runtime.legate.requirements import Cut, Need, all_of, box_of, groups, need_of, spread_of

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
    """The part of a store that a point overwrites, and how far beside it points read."""

    box: Box
    before: int
    after: int
    members: tuple[LaunchArgument, ...]


def passed(layout: Layout, span: int) -> tuple[Cut, Border] | None:
    """Cut a pass into Legate points of `span` points each; None if points would have to exchange more than
    rows at the borders of their tiles."""
    launch = spread_of(layout, span)
    if len(layout.domain) != 1 or not 1 < launch.spread[0] <= POINTS or layout.scratch:
        return None
    needs: list[Need] = []
    of = [-1] * len(layout.arguments)
    index = {id(a): k for k, a in enumerate(layout.arguments)}
    owned: dict[int, Own] = {}
    for group in groups(layout.arguments):
        parts: dict[Box, list[LaunchArgument]] = {}
        if any(a.late or a.privilege is Privilege.REDUCE or _overlaps(a) for a in group):
            return None
        if any(a.privilege is not Privilege.READ for a in group):
            own = _own(group, launch)
            if own is None:
                return None
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


def _overlaps(argument: LaunchArgument) -> bool:
    """Do points read rows of each other through one argument?"""
    partition = argument.access.partition
    return isinstance(partition, Tiling) and any([c.weight and extent > tile for c, tile, extent in zip(
        partition.projection.coordinates, partition.tile, partition.extent, strict=True)])


def _own(group: Sequence[LaunchArgument], launch: Cut) -> Own | None:
    """The rows of a store that each point overwrites; None unless all arguments of the store are rows of
    equal tiles, and those that write begin at the same row."""
    boxes = [box_of(a, launch) for a in group]
    found = [box for box in boxes if box is not None and launch.distinguished(box[2])]
    if len(found) < len(group) or len(group[0].storage[0]) > RANK:
        return None
    written = [box for box, a in zip(found, group, strict=True) if a.privilege is not Privilege.READ]
    (low, *_), (high, *_), tiles = written[0]
    if tiles != ((0, 0, tiles[0][2]),) or any(
            box[2] != tiles or box[1][0] - box[0][0] != high - low for box in found):
        return None
    if any(box[0][0] != low for box in written):
        return None
    first, last = around(*found)
    shifts = [box[0][0] - low for box in found]
    box = (low, *first[1:]), (high, *last[1:]), tiles
    return Own(box, max(0, -min(shifts)), max(0, *shifts), tuple(group))


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
            ITEMSIZE[dtype] * (right[0] - left[0] if left else 1)))
    return Border(before, after, tuple(edges))


def _kept(needs: Sequence[Need], border: Border) -> list[Need]:
    """The needs of a pass: what it overwrites in part, or reads beside its border, keeps its elements."""
    edges = {edge.need for edge in border.edges}
    return [need._replace(reads=True) if k in edges else need for k, need in enumerate(needs)]
