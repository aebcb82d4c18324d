"""Traffic: the bytes and messages of each launch and read, of all ranks together, and the least possible.

Bytes are those of elements and of partial results that go from one rank to another; the words by which ranks
compare their digests and floating-point errors are not among them.  Real ranks count what they send, and add
up; where ranks are predicted (predicted.py) steps are counted that nobody takes.
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
from diffuse.runtime.mpi.steps import Arrivals, Step
from diffuse.runtime.mpi.validity import State, tidy


@dataclass
class Row:
    """All launches, or reads, of one title."""

    times: int = 0
    bytes: int = 0
    messages: int = 0
    least: int | None = 0
    """The fewest bytes; None where nobody knows."""


class Total(NamedTuple):
    """The sums of several rows."""

    bytes: int
    messages: int


@dataclass
class Traffic:
    """What was counted, by the operations and lines that it was for."""

    rows: dict[str, Row] = field(default_factory=dict)
    _now: Row = field(default_factory=Row)

    def begin(self, title: str, least: int | None) -> None:
        """Begin to count a launch or read."""
        row = self._now = self.rows.setdefault(title, Row())
        row.times += 1
        row.least = None if least is None or row.least is None else row.least + least

    def sent(self, nbytes: int, messages: int) -> None:
        """Count messages of what was begun last."""
        self._now.bytes += nbytes
        self._now.messages += messages

    def summed(self, over_ranks: Callable[[int], int]) -> dict[str, Row]:
        """The rows of all ranks together: the function adds up a number over the ranks."""
        return {title: Row(row.times, over_ranks(row.bytes), over_ranks(row.messages), row.least)
                for title, row in self.rows.items()}

    def total(self, over_ranks: Callable[[int], int]) -> Total:
        """The sums over all rows and ranks."""
        rows = self.rows.values()
        return Total(over_ranks(sum([row.bytes for row in rows])),
                     over_ranks(sum([row.messages for row in rows])))


kept: Traffic | None = None
"""Where the runtime counts; None if nobody asked."""
virtual: int | None = None
"""The number of ranks to predict; None where launches run on the ranks that there are."""


def count(ranks: int | None = None) -> Traffic:
    """Ask the runtime, before it is made, to count; with `ranks`, to predict so many in this process."""
    global kept, virtual
    kept, virtual = Traffic(), ranks
    return kept


def read_by() -> str:
    """The title of a read that is under way: the host function that reads, or the user's line."""
    if trace.hosting is not None:
        operation, where = trace.hosting
        return f"{operation} [{where}]"
    return f"read [{provenance.where()}]"


def received(arrivals: Arrivals, state: State) -> int:
    """The bytes that arrive."""
    return sum([volume(box) for boxes in arrivals for _, box in boxes]) * state.itemsize


def moved(found: Step, states: Sequence[State], shared: Share) -> tuple[int, int]:
    """The bytes and messages of a step that was made by `volumes`."""
    sizes = {use.place: state.itemsize for use, state in zip(shared.uses, states, strict=True)}
    parts: list[tuple[int, Any]] = [(sizes[place], both) for place, both in (*found.before, *found.late)]
    parts += [(1, both) for _, both in found.partials]
    return sum([item * elements for item, (elements, _) in parts]), sum([n for _, (_, n) in parts])


def least(layout: Launched, shared: Share, states: Sequence[State], ranks: int) -> int:
    """The fewest bytes that a launch can move, given which points each rank runs and what it holds.

    An element that a rank's points read has to arrive there once, unless the rank wrote it or received it
    since it was last written.  Of an element of a reduction's result that the points of k ranks contribute
    to, k - 1 contributions have to travel, in one element each.  What the epilogue reads has to reach one
    rank.  Points that cannot be divided are run by one rank, the one that lacks least.  The bound says
    nothing of other ways to divide the points, nor of who needs a result later.
    """
    def alone(reads: Sequence[Holding]) -> int:
        """The bytes that the rank with most of these elements lacks."""
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


def arriving(state: State, want: Layout) -> int:
    """The bytes that arrive so that each rank has what it wants."""
    return 0 if state.whole or not any(want) else volumes(state.have, want)[0] * state.itemsize


def _folded(layout: Launched, shared: Share, ranks: int) -> int:
    """The bytes that reductions move at least."""
    total = 0
    folds = [any([partial.writes[rank] for partial in shared.partials]) for rank in range(ranks)]
    for argument in layout.arguments:
        if argument.privilege is Privilege.REDUCE and not argument.late:
            each = [tidy([box for point in mine for box in boxes(argument, point)])
                    for mine, some in zip(groups(layout.domain, ranks), folds, strict=True) if some]
            every = tidy([box for some in each for box in some])
            total += (sum(map(size, each)) - size(every)) * ITEMSIZE[argument.storage[1]]
    return total
