"""Traffic: the bytes and messages of each launch and read, summed over all ranks, and the lower bound.

Counted are elements and partial results that go from one rank to another, but not the words by which ranks
compare their digests and floating-point errors.  Real ranks count what they send; for predicted ranks
(predicted.py) steps are counted without being taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from diffuse.ir import ITEMSIZE, Privilege
from diffuse.movement.boxes import Holding, Layout, remove, size, volume
from diffuse.movement.direct import volumes
from diffuse.observe import provenance, trace
from diffuse.runtime.base import Layout as Launched
from diffuse.runtime.mpi.shares import Share, boxes, groups
from diffuse.runtime.mpi.steps import Arrivals, LaunchStep
from diffuse.runtime.mpi.validity import Validity, tidy


@dataclass
class Row:
    """The sums over all launches, or reads, with one title."""

    times: int = 0
    bytes: int = 0
    messages: int = 0
    least: int | None = 0
    """The fewest bytes possible; None if unknown."""


class Total(NamedTuple):
    """The sums over several rows."""

    bytes: int
    messages: int


@dataclass
class Traffic:
    """Traffic by the operations and source lines that caused it."""

    rows: dict[str, Row] = field(default_factory=dict)
    parts: list[Traffic] = field(default_factory=list)
    """The traffic of each rank that this process simulates; nothing is counted here then."""
    _now: Row = field(default_factory=Row)

    def begin(self, title: str, least: int | None) -> None:
        """Begin counting a launch or read."""
        row = self._now = self.rows.setdefault(title, Row())
        row.times += 1
        row.least = None if least is None or row.least is None else row.least + least

    def clear(self) -> None:
        """Forget what was counted so far."""
        for each in (self, *self.parts):
            each.rows.clear()

    def depends(self) -> None:
        """Record that the traffic of the current row depends on its data, so that the least is unknown."""
        self._now.least = None

    def sent(self, nbytes: int, messages: int) -> None:
        """Count messages of the launch or read that `begin` named last."""
        self._now.bytes += nbytes
        self._now.messages += messages

    def summed(self, over_ranks: Callable[[int], int]) -> dict[str, Row]:
        """The rows summed over all ranks by `over_ranks`, which adds up a number over the ranks."""
        if self.parts:
            return {title: Row(row.times, sum([part.rows[title].bytes for part in self.parts]),
                               sum([part.rows[title].messages for part in self.parts]), row.least)
                    for title, row in self.parts[0].rows.items()}
        return {title: Row(row.times, over_ranks(row.bytes), over_ranks(row.messages), row.least)
                for title, row in self.rows.items()}

    def total(self, over_ranks: Callable[[int], int]) -> Total:
        """The sums over all rows and ranks."""
        rows = [row for each in (self, *self.parts) for row in each.rows.values()]
        if self.parts:
            return Total(sum([row.bytes for row in rows]), sum([row.messages for row in rows]))
        return Total(over_ranks(sum([row.bytes for row in rows])),
                     over_ranks(sum([row.messages for row in rows])))


kept: Traffic | None = None
"""The runtime's counter; None if traffic is not counted."""
virtual: int | None = None
"""The number of ranks to predict or simulate in this process; None to run on the actual ranks."""
simulated = False
"""Has each of those ranks its own memory, and receives messages?  Otherwise their traffic is predicted."""
reader: str | None = None
"""The title of a read that another thread requested and simulated ranks take part in."""


def count(ranks: int | None = None, simulate: bool = False) -> Traffic:
    """Have the runtime count traffic; call before it is made.  With `ranks`, predict or simulate that many
    in this process."""
    global kept, virtual, simulated
    kept, virtual, simulated = Traffic(), ranks, simulate
    return kept


def read_by() -> str:
    """The title of the current read: the host function that reads, or the user's line."""
    if reader is not None:
        return reader
    if trace.hosting is not None:
        operation, where = trace.hosting
        return f"{operation} [{where}]"
    return f"read [{provenance.where()}]"


def received(arrivals: Arrivals, state: Validity) -> int:
    """Bytes that arrive."""
    return sum([volume(box) for boxes in arrivals for _, box in boxes]) * state.itemsize


def moved(found: LaunchStep, states: Sequence[Validity], shared: Share) -> tuple[int, int]:
    """The bytes and messages of a step made with `volumes`."""
    sizes = {use.place: state.itemsize for use, state in zip(shared.uses, states, strict=True)}
    parts: list[tuple[int, Any]] = [(sizes[place], both) for place, both in (*found.before, *found.late)]
    parts += [(whole.itemsize, both) for whole, some in found.early for both in some]
    parts += [(1, both) for some in (found.partials, *found.rounds) for _, both in some]
    return sum([item * elements for item, (elements, _) in parts]), sum([n for _, (_, n) in parts])


def least(layout: Launched, shared: Share, states: Sequence[Validity], ranks: int) -> int:
    """A lower bound on the bytes that a launch moves, given which points each rank runs and what it holds.

    An element that a rank's points read has to arrive there once, unless the rank wrote it or received it
    since it was last written.  Of an element of a reduction's result that the points of k ranks contribute
    to, k - 1 contributions have to travel, in one element each.  What the epilogue reads has to reach one
    rank.  Points that cannot be divided are run by one rank, the one that lacks least.  The bound does not
    consider other ways to divide the points, nor which rank needs a result later.
    """
    def alone(reads: Sequence[Holding]) -> int:
        """The bytes lacking on the rank that lacks the least."""
        known: dict[tuple[Holding, ...], int] = {}
        for rank in range(ranks):
            held = tuple([state.have[rank] for state in after])
            if held not in known:
                known[held] = sum([size(tuple(remove(want, own))) * state.itemsize
                                   for want, own, state in zip(reads, held, after, strict=True)])
        return min(known.values(), default=0)

    after = list(states)
    if not shared.divided:
        return alone([tuple([*use.every_read, *remove(use.late_reads, use.every_read)])
                      for use in shared.uses])
    points = sum([arriving(state, use.reads) for use, state in zip(shared.uses, states, strict=True)])
    after = [state.written(use.writes) for use, state in zip(shared.uses, states, strict=True)]
    return points + alone([use.late_reads for use in shared.uses]) + _folded(layout, shared, ranks)


def arriving(state: Validity, want: Layout) -> int:
    """Bytes that arrive so that each rank has what it wants."""
    return 0 if state.whole or not any(want) else volumes(state.have, want)[0] * state.itemsize


def _folded(layout: Launched, shared: Share, ranks: int) -> int:
    """The fewest bytes that the launch's reductions move."""
    total = 0
    folds = [any([partial.writes[rank] for partial in shared.partials]) for rank in range(ranks)]
    for argument in layout.arguments:
        if argument.privilege is Privilege.REDUCE and not argument.late:
            each = [tidy([box for point in mine for box in boxes(argument, point)])
                    for mine, some in zip(groups(layout.domain, ranks), folds, strict=True) if some]
            every = tidy([box for some in each for box in some])
            total += (sum(map(size, each)) - size(every)) * ITEMSIZE[argument.storage[1]]
    return total
