"""Exchanges the rows at the borders of tiles that the points of a pass read of each other (see passes.py).

A pass leaves the new border rows of what it overwrites in the cells that the next pass reads.  Only if
anything else has written the store since, a task of its own copies them there first.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from diffuse.ir import ITEMSIZE, Store
from diffuse.observe import trace
from diffuse.runtime.legate import message
from diffuse.runtime.legate.instances import LegateInstance
from diffuse.runtime.legate.joining import WHOLE
from diffuse.runtime.legate.passes import Border, Edge
from diffuse.runtime.legate.placement import Placement
from diffuse.runtime.legate.requirements import Cut, Need, shared

MOST = 4
"""The most exchanges kept for one store."""


class Cells:
    """The cells of all points for one store and one border: those to be read, and those to be written."""

    def __init__(self, place: Placement, shape: tuple[int, int]) -> None:
        self.now, self.next = (LegateInstance(Store(-1, shape, "uint8")) for _ in range(2))
        self.sent = shared(shape, ((0, 0, 1),))
        self.received = Need(-1, (0, 0), shape, WHOLE, True, False)
        self.version = -1
        """The version of the store whose rows are in `now`."""
        for store in (self.now, self.next):
            weakref.finalize(self, place.drop, store).atexit = False


class Borders:
    """Finds and fills the cells of a runtime's passes."""

    def __init__(self, place: Placement) -> None:
        self._place = place

    def bring(self, border: Border, cut: Cut, owners: Sequence[LegateInstance], title: str) -> list[Cells]:
        """The cells of each edge of a pass, with the rows of the stores as they are."""
        return [self._cells(border, edge, cut, owners[edge.need], title) for edge in border.edges]

    def passed(self, border: Border, owners: Sequence[LegateInstance], cells: Sequence[Cells]) -> None:
        """Note that a pass was submitted, which left its border rows in the next cells."""
        for edge, each in zip(border.edges, cells, strict=True):
            if edge.writes:
                each.now, each.next, each.version = each.next, each.now, owners[edge.need].version

    def _cells(self, border: Border, edge: Edge, cut: Cut, owner: LegateInstance, title: str) -> Cells:
        name = border.before, border.after, edge, cut.needs[edge.need], cut.spread
        found: Cells | None = owner.cells.get(name)
        if found is None:
            if len(owner.cells) >= MOST:
                owner.cells.clear()
            found = owner.cells[name] = Cells(self._place, (cut.spread[0], border.cell(edge)))
        private = owner.filled and not (owner.shared or owner.foreign)
        if not private or found.version != owner.version:
            self._collect(border, edge, cut, owner, found, title)
            found.version = owner.version
        self._place.store(found.now)
        if edge.writes:
            self._place.store(found.next)
        return found

    def _collect(self, border: Border, edge: Edge, cut: Cut, owner: LegateInstance, cells: Cells, title: str
                 ) -> None:
        """Submit the task that copies the border rows of each point's tile to its cell."""
        trace.count("exchanged")
        place, need = self._place, cut.needs[edge.need]
        if place.agreement is not None:
            place.agreement.event(f"exchanging border rows for {title}")
        place.ready(owner, need)
        place.store(cells.now)
        task = place.task(cut.spread)
        for part in (need, edge.low, edge.high):
            if part is not None:
                task.add_input(*place.part(owner, part, cut.spread))
        task.add_output(*place.part(cells.now, cells.sent, cut.spread))
        place.send(task, message.edges(edge, border, owner.shape, ITEMSIZE[owner.dtype], cut.spread[0]))
