"""Aligns the cuts of a task with those of the earlier tasks in its group that share its stores.

An operation on all rows of an array and one on its interior rows, each divided evenly, are cut at different
rows of the array, and points would communicate about the rows between the cuts.  An elementwise task over
nearly as many rows may be cut anywhere, however: it is cut where the group cuts the stores that both use, so
that it fuses.

That saves launches, so it is done to tasks that take no longer than a few launches.  Between larger tasks a
pass over memory costs more, and a group that accepts any task often ends where its last tasks cannot share a
pass with those that follow (pairs.py).  Only vectors and matrices can share one: tasks over more dimensions
are aligned whatever their size, as their groups have no other way to save passes.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffuse.ir import Access, Decomposition, IndexTask, Point, Privilege, Split, Tiling, disjoint
from diffuse.ir.kinds import kind
from diffuse.ir.template import Template
from diffuse.kernels.body import operations
from diffuse.stream.decompose import LONG

BORDER = 4
"""The most rows that the first or the last point gets beyond the length of a tile."""


MOST = 1 << 18
"""The most iterations of a task over a vector or a matrix whose cuts are aligned."""

PASSING = 2
"""The most dimensions of what the second of two tasks in one pass stores (pairs.py)."""


class Cuts:
    """The cuts of the stores that the tasks of a group over several points use."""

    __slots__ = ("split", "domain", "_begins", "_written", "_read")

    def __init__(self) -> None:
        self.split: Split | None = None
        """The split of the first task; the others have tiles of the same length, or are ignored."""
        self.domain: Point = ()
        self._begins: dict[int, int] = {}
        """The last begin of a task over so many rows."""
        self._written: dict[int, tuple[int, int]] = {}
        self._read: dict[int, tuple[int, int]] = {}
        """For each store, the dimension that is cut, and the offset of the first tile."""

    def add(self, task: IndexTask) -> None:
        """Record the cuts of one more task of the group."""
        domain = task.domain
        if len(domain) != 1 or domain[0] <= 1 or task.splits[0].axis < 0:
            return
        split = task.splits[0]
        if self.split is None:
            self.split, self.domain = split, domain
        if split.tile != self.split.tile or domain != self.domain:
            return
        if split.begin is not None:
            self._begins[task.shape[split.axis]] = split.begin
        for access in task.accesses:
            known = self._written if access.privilege.writes else self._read
            if access.store.id not in known:
                place = _place(access, split.tile)
                if place is not None:
                    known[access.store.id] = place

    def aligned(self, template: Template, stores: Sequence[int]) -> Template | None:
        """Cut the template like the stores that it shares with the group, else like an earlier task over as
        many rows.  None if it is no elementwise task over nearly as many rows."""
        if self.split is None or not movable(template):
            return None
        for use, store in zip(template.uses, stores, strict=True):
            place = self._written.get(store)
            if place is None and use.privilege.writes:
                place = self._read.get(store)
            if place is None or place[0] >= len(use.map.rows):
                continue
            offset, terms = use.map.rows[place[0]]
            if len(terms) == 1 and terms[0][1] == 1:
                return self._cut(template, terms[0][0], offset - place[1])
        axis = self.split.axis
        if axis >= len(template.shape):
            return None
        rows = template.shape[axis]
        return self._cut(template, axis, self._begins.get(rows, max(_rows(template, axis) - rows, 0) // 2))

    def _cut(self, template: Template, axis: int, begin: int) -> Template | None:
        assert self.split is not None
        split = fitting(template.shape, axis, self.split.tile, self.domain[0], begin)
        return _under(template, self.domain, split)


def _under(template: Template, domain: Point, split: Split | None) -> Template | None:
    if split is None:
        return None
    made = template.under(Decomposition(domain, (split,)))
    apart = all([disjoint(use.partition, domain) for use in made.uses if use.privilege is not Privilege.READ])
    return made if apart else None


def like_all_rows(template: Template, alone: Decomposition) -> Template | None:
    """Cut the first task of a group, over the interior of its stores, like a task over all of their rows: as
    many rows are taken to lie before the interior as behind it.  None if the task is not elementwise, or if
    its stores have no more rows.  `alone` is its decomposition by itself."""
    if not movable(template):
        return None
    axis, tile, _ = alone.splits[0]
    points = alone.domain[0]
    if len(alone.domain) != 1 or points <= 1 or axis < 0:
        return None
    extent, rows = template.shape[axis], _rows(template, axis)
    if rows <= extent or (tile >= LONG and points * tile < rows):
        return None
    tile = max(tile, -(-rows // points))
    return _under(template, alone.domain, fitting(template.shape, axis, tile, points, (rows - extent) // 2))


def _rows(template: Template, axis: int) -> int:
    """The most rows of a store of which a task uses nearly all along a dimension; 0 if there is none."""
    extent = template.shape[axis]
    found = [size for use in template.uses for size, (_, terms) in zip(use.frame, use.map.rows, strict=True)
             if terms == ((axis, 1),) and size <= extent + 2 * BORDER]
    return max(found, default=0)


def movable(template: Template) -> bool:
    """Is it an elementwise task without gathers or shifts, which the stream decomposes, and a small one
    unless its group cannot share a pass?"""
    if template.decomposition is not None or template.elements > MOST and len(template.shape) <= PASSING:
        return False
    known = kind(template)
    if known is None:
        return _elementwise(template)
    if known.movable is None:
        known.movable = _elementwise(template)
    return known.movable


def _elementwise(template: Template) -> bool:
    return (operations.known(template.operation) and operations.find(template.operation).elementwise
            and not any([use.map.turned or use.map.free for use in template.uses]))


def fitting(shape: Point, axis: int, tile: int, points: int, begin: int) -> Split | None:
    """The split into so many points by tiles of this length, from this begin on; None if the first or last
    point would get many more or fewer rows than a tile."""
    first, last = tile - begin, shape[axis] - (points - 1) * tile + begin
    if not (tile <= 2 * min(first, last) and max(first, last) <= tile + BORDER):
        return None
    return Split(axis, tile, None if begin == 0 and last <= tile else begin)


def alike(template: Template, beside: Decomposition | None) -> bool:
    """Is the number of the task's rows close enough to be cut like the tasks beside it?"""
    if beside is None or len(beside.domain) != 1 or beside.domain[0] <= 1 or not movable(template):
        return False
    axis, tile, _ = beside.splits[0]
    return (0 <= axis < len(template.shape)
            and fitting(template.shape, axis, tile, beside.domain[0], 0) is not None)


def _place(access: Access, tile: int) -> tuple[int, int] | None:
    """The dimension of the store that tiles of this length cut, and the offset of the first one."""
    partition = access.partition
    if not isinstance(partition, Tiling):
        return None
    moving = [d for d, c in enumerate(partition.projection.coordinates) if c.weight]
    if len(moving) != 1 or partition.projection.coordinates[moving[0]].weight != 1:
        return None
    d, = moving
    return (d, partition.offset[d]) if partition.tile[d] == partition.extent[d] == tile else None
