"""Predicted ranks: one process runs all launches whole and simulates the validity map of several ranks.

The stream makes the decisions that it would make on that many ranks; layouts are divided among them, states
advance, and the traffic is added up.  But nothing is sent: this process has the memory of every store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from diffuse.bounded import Bounded
from diffuse.movement.boxes import Layout as Boxes
from diffuse.runtime import machine
from diffuse.runtime.base import Launch, Layout
from diffuse.runtime.independent import Alone
from diffuse.runtime.kernel import MachineCode
from diffuse.runtime.mpi import prepare, traffic
from diffuse.runtime.mpi.collected import replicated
from diffuse.runtime.mpi.derived import MOST_STEPS, Counts, addressed
from diffuse.runtime.mpi.instances import MpiInstance
from diffuse.runtime.mpi.parts import cheapest
from diffuse.runtime.mpi.runtime import Mpi
from diffuse.runtime.mpi.shares import Share, share, together
from diffuse.runtime.mpi.steps import arriving_in_rounds, fetched, step
from diffuse.runtime.mpi.validity import Validity
from diffuse.runtime.mpi.virtual.played import played
from diffuse.runtime.ranks.peers import Run
from diffuse.settings import config

MOST_PLAYED = 64
"""Calls whose messages depend on data are played rank by rank on at most this many ranks; on more, their
messages are not counted."""


class Foreseen(NamedTuple):
    """A step that is counted but not taken."""

    bytes: int
    messages: int
    least: int
    after: tuple[Validity, ...]


class Predicted(Mpi):
    """The runtime that predicts the traffic of several ranks.

    Each has as many threads as the setting names, or one if it is `auto`; launches run on all threads of this
    process.
    """

    def __init__(self, ranks: int, points: int | None = None) -> None:
        self.ranks, self.rank = ranks, 0
        self.network = self.agreement = None
        threads = 1 if config.threads == "auto" else machine.threads()
        self.threads = threads if points is None else max(1, points // ranks)
        self._begin(machine.threads(), prepare.memory())

    def _compiled(self, launch: Launch, layout: Layout, native: MachineCode, instances: Any) -> None:
        shared, found = self._foresee(layout, instances, launch.watched)
        words, scratch = addressed(launch.kernel.pack(launch.values), shared, layout, instances)
        finish = native.finish if shared.total > 1 else 0
        number = self._pool.submit(native.address, finish, shared.total, words,
                                   (native, launch.keep, scratch))
        self._passed(shared, found.after, instances, number)

    def call_parts(self, layouts: Sequence[Layout], instances: Sequence[Any],
                   run: Callable[[int, int, int], int]) -> None:
        number = cheapest(layouts, [instance.state for instance in instances], self.ranks)
        shared, found = self._foresee(layouts[number], instances)
        self._pool.wait(max([instance.used for instance in instances]))
        self._own |= run(number, 0, shared.total)
        self._passed(shared, found.after, instances, self._pool.submitted)

    def call_together(self, layout: Layout, instances: Sequence[Any], run: Run) -> None:
        shared, found = self._foresee(layout, instances, shares=partial(together, layout.domain))
        if self._traffic is not None:
            self._traffic.depends()
        self._pool.wait(max([instance.used for instance in instances]))
        if shared.divided and self.ranks <= MOST_PLAYED:
            firsts = [*[first for first, _ in shared.points], shared.total]
            flags, nbytes, messages = played(run, firsts)
            self.asked(nbytes, messages)
            self._own |= flags
        else:
            self._own |= run(Alone, (0, shared.total), 0)
        self._passed(shared, found.after, instances, self._pool.submitted)

    def _foresee(self, layout: Layout, instances: Sequence[MpiInstance], watched: Sequence[Any] = (),
                 shares: Callable[[Share], Share] = lambda shared: shared) -> tuple[Share, Foreseen]:
        """Count the step that ranks would take on these instances, and how they would divide it."""
        key = "predicted", self.ranks
        known = layout.derived.get(key)
        if known is None:
            fresh: dict[tuple[Validity, ...], Foreseen] = Bounded(MOST_STEPS)
            known = layout.derived[key] = shares(share(layout, self.ranks)), fresh
        known, ghosts = self._inspected(layout, known[0], instances, watched, lambda shared: (
            shared, Bounded(MOST_STEPS))) or (known, [])
        shared, steps = known
        states = tuple([instances[use.place].state for use in shared.uses])
        found = steps.get(states)
        if found is None:
            made = step(shared, states, self.ranks, self.measure)
            found = steps[states] = Foreseen(*traffic.moved(made, states, shared),
                                             traffic.least(layout, shared, states, self.ranks), made.after)
        if self._traffic is not None:
            self._traffic.begin(layout.title, found.least + sum([each.nbytes for each, _ in ghosts]))
            self._traffic.sent(found.bytes, found.messages)
        for each, instance in ghosts:
            self.asked(each.nbytes, each.messages)
            instance.ghosts.add(each)
        return shared, found

    def _get(self, instance: MpiInstance, want: Boxes) -> None:
        """Count the traffic that gives each rank the boxes that it wants of a store."""
        state = instance.state
        whole = replicated(0, state, want)
        if whole is None:
            volume, instance.state = fetched(state, want, self.measure)
            volumes = [volume or (0, 0)]
        else:
            volumes, instance.state = [*arriving_in_rounds(whole, self.measure)], state.received(want)
        for elements, messages in volumes:
            self.asked(elements * state.itemsize, messages)

    def _borrow(self, instance: MpiInstance, want: Boxes, what: str) -> None:
        """Count the traffic of a temporary copy, as `_get`, with no change of state."""
        state = instance.state
        volume, _ = fetched(state, want, self.measure)
        elements, messages = volume or (0, 0)
        if self._traffic is not None:
            self._traffic.begin(traffic.read_by(), elements * state.itemsize)
            self._traffic.sent(elements * state.itemsize, messages)

    def counted(self) -> list[Counts]:
        """Return nothing: traffic is counted for all ranks together."""
        return []

    def _charge(self, nbytes: Sequence[int], sign: int) -> None:
        """Do nothing: no rank has memory of its own here."""

    def _trim(self, instance: MpiInstance, number: int) -> None:
        """Do nothing: stores are whole here."""
