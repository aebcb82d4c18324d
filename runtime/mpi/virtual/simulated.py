"""Simulated ranks: this process plays all of them, each with memory of its own and messages between them.

The program runs once, as it does on every real rank.  What it submits is given to each virtual rank, which
is the runtime mpi as it is, but for the line to the others (lockstep.py): a rank computes its own points on
its own parts and gets the rest by messages, and both are counted as real ranks count them.  What the program
gives to the runtime is the same on all real ranks; here they share that memory until somebody writes it.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from diffuse.bounded import Bounded
from diffuse.ir import Frame, Privilege, Store
from diffuse.memory import address
from diffuse.movement.boxes import Layout as Boxes
from diffuse.runtime import machine
from diffuse.runtime.base import Instance, Launch, Layout
from diffuse.runtime.mpi import prepare, traffic
from diffuse.runtime.mpi.answers import Answers
from diffuse.runtime.mpi.derived import MOST_STEPS, Counts, Prepared
from diffuse.runtime.mpi.foresight import Foresight
from diffuse.runtime.mpi.inspector import Inspector
from diffuse.runtime.mpi.instances import MpiInstance
from diffuse.runtime.mpi.runtime import Mpi
from diffuse.runtime.mpi.shares import Share
from diffuse.runtime.mpi.steps import LaunchStep
from diffuse.runtime.mpi.validity import Validity
from diffuse.runtime.mpi.virtual.lockstep import Line, Lockstep, Post
from diffuse.runtime.ranks.agreement import Agreement
from diffuse.runtime.ranks.peers import Run
from diffuse.settings import config

T = TypeVar("T")
MOST = 1 << 10
"""Steps and exchanges that all ranks share and that are kept."""
POISON = 0xFF
"""With the setting `check`, memory that a rank neither wrote nor received has these bytes, which are NaN."""


class Rank(Mpi):
    """One of the ranks: the runtime mpi over a line to the others."""

    def __init__(self, rank: int, threads: int, post: Post, steps: dict[Any, Any]) -> None:
        self.ranks, self.rank = post.lockstep.ranks, rank
        self.network = self.agreement = None
        self.threads = threads
        if self.ranks > 1:
            self.network = Line(rank, post)
            self.agreement = Agreement(rank, self.network.gather, False)
            atexit.unregister(self.agreement.meet)  # nobody else is there to diverge from
        memory = prepare.memory()
        self._begin(1, memory if config.mpi_memory is not None else memory // self.ranks)
        if self.network is not None:
            self.network.raised = self._raised
        if self._traffic is not None:
            self._traffic = traffic.Traffic()
        self._key = self.name, self.ranks, rank
        self._steps = steps

    def _step(self, layout: Layout, shared: Share, states: Sequence[Validity]) -> tuple[LaunchStep, int]:
        """Return the step, which the first rank computes for all."""
        key = shared, tuple(states), layout.domain
        found: tuple[LaunchStep, int] | None = self._steps.get(key)
        if found is None:
            found = self._steps[key] = super()._step(layout, shared, states)
        return found

    def _prepared(self, layout: Layout, shared: Share) -> Prepared:
        """Return the data derived from a layout, which the ranks share but for the steps."""
        key = layout.title, shared
        found: Prepared | None = self._steps.get(key)
        if found is None:
            found = self._steps[key] = super()._prepared(layout, shared)
        return found._replace(steps=Bounded(MOST_STEPS))

    def _fetched(self, state: Validity, want: Boxes) -> tuple[Any, Validity]:
        found: tuple[Any, Validity] | None = self._steps.get((state, want))
        if found is None:
            found = self._steps[state, want] = super()._fetched(state, want)
        return found

    def create(self, nbytes: int, store: Store | None = None) -> MpiInstance:
        made = super().create(nbytes, store)
        if config.check:
            self._pool.wait(made.used)
            made.array[:] = POISON
        return made

    def settle(self, instance: MpiInstance) -> None:
        """Wait for the launches that use an instance."""
        self._pool.wait(instance.used)

    @property
    def inspector(self) -> Inspector:
        """The inspector of this rank's gathers."""
        return self._inspector

    @property
    def counts(self) -> Counts:
        """The traffic and the peak of memory that this rank counted."""
        network = self.network
        if network is None:
            return Counts(0, 0, 0, self._peak)
        return Counts(network.sent, network.messages, network.received, self._peak)


class StoreOnRanks:
    """The memory of one store on every rank."""

    __slots__ = ("ranks", "common", "hosted", "_lockstep")

    shared = scattered = private = False

    def __init__(self, ranks: Sequence[MpiInstance], common: bool, lockstep: Lockstep) -> None:
        self.ranks = tuple(ranks)
        self.common = common
        """Do the ranks share one piece of memory, which the host gave?"""
        self.hosted = common
        """Does the host's memory, which is rank 0's, hold newer elements than the other ranks' memory?"""
        self._lockstep = lockstep

    @property
    def array(self) -> NDArray[np.uint8]:
        """The memory on the rank that runs; the program's is that of rank 0."""
        return self.ranks[self._lockstep.turn].array

    @property
    def address(self) -> int:
        return self.ranks[self._lockstep.turn].address

    @property
    def nbytes(self) -> int:
        return self.ranks[0].nbytes

    @property
    def state(self) -> Validity:
        """The validity map of the store, which is the same on all ranks."""
        return self.ranks[0].state


class Simulated(Answers):
    """The runtime over virtual ranks.

    Each has one thread, or as many as the setting names; their number determines the points of a rank, which
    this process computes one by one.
    """

    network = None
    rank = 0

    def __init__(self, ranks: int, points: int | None = None) -> None:
        self.ranks = ranks
        threads = 1 if config.threads == "auto" else machine.threads()
        self.threads = threads if points is None else max(1, points // ranks)
        self.points, self.blocks = ranks * self.threads, self.threads
        self._lockstep = Lockstep(ranks)
        post, steps = Post(self._lockstep), Bounded[Any, Any](MOST)
        self._each = [Rank(rank, self.threads, post, steps) for rank in range(ranks)]
        self._process = os.getpid()
        if traffic.kept is not None:
            traffic.kept.parts = [each._traffic for each in self._each if each._traffic is not None]

    @property
    def room(self) -> int:
        """The bytes that arrays may take on each rank."""
        return self._each[0].room

    def _together(self, function: Callable[[Rank, int], T]) -> list[T]:
        """Run a function on every rank; ranks may wait for each other in it."""
        if os.getpid() != self._process:
            raise RuntimeError("this is a forked child of a process that simulates ranks, without their "
                               "threads: start children with the method spawn")
        traffic.reader = traffic.read_by() if traffic.kept is not None else None
        try:
            return self._lockstep.run(lambda rank: function(self._each[rank], rank))
        finally:
            traffic.reader = None

    # -- stores --------------------------------------------------------------------------------------------

    def create(self, nbytes: int, store: Store | None = None) -> StoreOnRanks:
        return StoreOnRanks([each.create(nbytes, store) for each in self._each], False, self._lockstep)

    def attach(self, array: NDArray[Any], store: Store | None = None) -> StoreOnRanks:
        return StoreOnRanks([each.attach(array, store) for each in self._each], True, self._lockstep)

    def release(self, instance: Instance) -> None:
        if isinstance(instance, StoreOnRanks):
            for each, part in zip(self._each, instance.ranks, strict=True):
                each.release(part)

    def _ready(self, instances: Sequence[Any], layout: Layout) -> None:
        """Copy what the host wrote to all ranks before they read it; writing ranks get their own memory."""
        writes = {id(instance) for instance, argument in zip(instances, layout.arguments, strict=True)
                  if argument.privilege is not Privilege.READ}
        for instance in instances:
            if instance.hosted and (not instance.common or id(instance) in writes):
                self._copied(instance)
                instance.common, instance.hosted = False, id(instance) not in writes

    def _copied(self, instance: StoreOnRanks) -> None:
        """Copy the host's memory to every rank's own memory."""
        for each, part in zip(self._each, instance.ranks, strict=True):
            each.settle(part)
        first, *rest = instance.ranks
        for part in rest:
            if instance.common:
                part._array = first.array.copy()
                part.address = address(part._array)
            else:
                part.array[:] = first.array

    # -- the host ------------------------------------------------------------------------------------------

    def host(self, instance: Instance, write: bool) -> NDArray[np.uint8]:
        if not isinstance(instance, StoreOnRanks):
            raise TypeError(f"{instance!r} is no instance of this runtime")
        found = self._together(lambda each, rank: each.host(instance.ranks[rank], write))
        instance.hosted = instance.hosted or write
        return found[0]

    def known(self, instance: Instance) -> NDArray[np.uint8] | None:
        return self._each[0].known(instance.ranks[0]) if isinstance(instance, StoreOnRanks) else None

    def piece(self, instance: Instance, offset: int, nbytes: int) -> NDArray[np.uint8]:
        assert isinstance(instance, StoreOnRanks)
        return self._together(lambda each, rank: each.piece(instance.ranks[rank], offset, nbytes))[0]

    # -- launches ------------------------------------------------------------------------------------------

    def launch(self, launch: Launch) -> None:
        layout = launch.layout
        assert layout is not None
        instances: Any = launch.instances
        watched: Any = launch.watched
        self._ready(instances, layout)
        self._together(lambda each, rank: each.launch(launch._replace(
            instances=tuple([instance.ranks[rank] for instance in instances]),
            watched=tuple([instance.ranks[rank] for instance in watched]))))

    def call_parts(self, layouts: Sequence[Layout], instances: Sequence[Any],
                   run: Callable[[int, int, int], int]) -> None:
        """Run a host function on the points of each rank, on that rank's memory."""
        self._ready(instances, layouts[0])
        self._together(lambda each, rank: each.call_parts(
            layouts, [instance.ranks[rank] for instance in instances], run))

    def call_together(self, layout: Layout, instances: Sequence[Any], run: Run) -> None:
        """Run a host function on all ranks at once, each on its own memory."""
        self._ready(instances, layout)
        self._together(lambda each, rank: each.call_together(
            layout, [instance.ranks[rank] for instance in instances], run))

    def foresight(self, instances: Mapping[int, Any], frames: Mapping[int, Frame],
                  watched: Collection[int]) -> Foresight:
        """Return the foresight for launches on these instances, and on stores of these frames, while outside
        code sees the memory of some."""
        return Foresight(self.ranks, tuple([
            (each.inspector, {store: instance.ranks[rank] for store, instance in instances.items()})
            for rank, each in enumerate(self._each)]), int, frames, watched)

    # -- waiting -------------------------------------------------------------------------------------------

    def over_ranks(self, number: int) -> int:
        """The sum of a number over all ranks, which have the same."""
        return number * self.ranks

    def counted(self) -> list[Counts]:
        """Return the counts of each rank."""
        return [each.counts for each in self._each]

    def call(self, function: Callable[[], None]) -> None:
        for each in self._each:
            each.call(lambda: None)
        function()

    def fence(self) -> None:
        self._together(lambda each, _: each.fence())

    def flags(self) -> int:
        found = 0
        for each in self._each:
            found |= each.flags()
        return found
