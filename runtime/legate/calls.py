"""Host functions on Legate: on the parts of each rank alone, or by all ranks together.

Legate knows nothing of such functions.  A task on each processor copies a tile of what the function reads to
memory of the rank, where the function finds elements at the same offsets as in the whole store; another one
copies a tile of what it wrote to Legate's store.  That memory is reserved for the whole store, but only what
is touched takes any.  As long as memory is not short functions run on whole arrays on every rank instead.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import ITEMSIZE, Privilege
from diffuse.memory import address
from diffuse.runtime.base import Layout
from diffuse.runtime.independent import Alone
from diffuse.runtime.legate import message, orders, prepare
from diffuse.runtime.legate.instances import LegateInstance
from diffuse.runtime.legate.joining import WHOLE
from diffuse.runtime.legate.orders import Prepared
from diffuse.runtime.legate.placement import Placement
from diffuse.runtime.legate.requirements import Need
from diffuse.runtime.ranks.peers import Run, Together

NORESERVE = 0x4000
"""MAP_NORESERVE: the system promises no memory for the mapping, which may be larger than all there is."""


COPIES = 3
"""Whole copies of all arrays, an operand, a result and a temporary, for which a rank needs room."""


class Divided(NamedTuple):
    """A call of a host function, divided among the ranks."""

    prepared: Prepared
    firsts: tuple[int, ...]
    """The first point of each rank, and the end of the last one's."""


class Calls(ABC):
    """The part of the runtime that calls host functions on parts."""

    placement: Placement
    rank: int
    ranks: int
    processors: int
    splits: bool
    _owed: list[LegateInstance]

    @abstractmethod
    def host(self, instance: Any, write: bool) -> NDArray[np.uint8]: ...

    @abstractmethod
    def fence(self) -> None: ...

    def call(self, function: Callable[[], None]) -> None:
        """Run a host function on whole arrays."""
        try:
            function()
        finally:
            self._pay()

    def _pay(self) -> None:
        """Copy what the host wrote to copies of shared instances to Legate's stores."""
        while self._owed:
            self.placement.move(message.PUT, self._owed.pop())

    @property
    def room(self) -> int:
        """The bytes that arrays may take on each rank."""
        return prepare.memory_given()

    def over_ranks(self, number: int) -> int:
        """Sum a number over all ranks; every rank has to call this."""
        place = self.placement
        if place.network is None or place.agreement is None:
            return number
        place.agreement.meet("adding up a number of each rank")
        return sum(place.network.gather(number))

    @property
    def crowded(self) -> bool:
        """Do arrays take so much memory that a rank may have no room for whole copies of them?  Else host
        functions run on whole arrays on every rank, which takes fewer tasks and no messages."""
        return self.ranks > 1 and COPIES * self.placement.used > self.room

    @property
    def call_parts(self) -> Callable[..., None]:
        """`_call_parts`, where memory is short; else there is no such attribute."""
        return self._where_crowded(self._call_parts)

    @property
    def call_together(self) -> Callable[..., None]:
        """`_call_together`, where memory is short; else there is no such attribute."""
        return self._where_crowded(self._call_together)

    def _where_crowded(self, method: Callable[..., None]) -> Callable[..., None]:
        """Return a method that exists only where memory is short.  Raises AttributeError elsewhere, by which
        callers learn that functions run on whole arrays."""
        if not self.crowded:
            raise AttributeError("host functions run on whole arrays")
        return method

    def _call_parts(self, layouts: Sequence[Layout], instances: Sequence[LegateInstance],
                    run: Callable[[int, int, int], int]) -> None:
        """Run a host function on the points of this rank under the first layout that divides it:
        `run(number of the layout, first, points)`, which returns floating-point exceptions."""
        self.placement.check_thread()
        for number, layout in enumerate(layouts):
            divided = self._divide(layout, instances)
            if divided is not None:
                first, after = divided.firsts[self.rank:self.rank + 2]
                self._on_parts(divided, instances,
                               partial(run, number, first, after - first) if after > first else lambda: 0)
                return
        layout = layouts[0]
        self._on_wholes(layout, instances, lambda: run(0, 0, _points(layout)))

    def _call_together(self, layout: Layout, instances: Sequence[LegateInstance], run: Run) -> None:
        """Run a host function on all ranks at once, each on its parts: `run(peers, firsts, rank)`, where
        `firsts` are the first points of the ranks, and the end of the last one's."""
        self.placement.check_thread()
        divided = self._divide(layout, instances)
        network, agreement = self.placement.network, self.placement.agreement
        if divided is None or network is None or agreement is None:
            self._on_wholes(layout, instances, lambda: run(Alone, (0, _points(layout)), 0))
            return
        self._on_parts(divided, instances, lambda: run(
            lambda ends: Together(network, agreement.tag, ends, None), divided.firsts, self.rank))

    def _divide(self, layout: Layout, instances: Sequence[LegateInstance]) -> Divided | None:
        """Divide a call among ranks; None if Legate cannot express its parts, or there is one."""
        if not self.splits or len(layout.domain) > 1 or layout.domain[0] == 1 or any(
                [instance.shared or instance.scattered for instance in instances]):
            return None
        if Calls not in layout.derived:
            layout.derived[Calls] = _divided(layout, self.processors, self.ranks)
        found: Divided | None = layout.derived[Calls]
        return found

    def _on_parts(self, divided: Divided, instances: Sequence[LegateInstance], run: Callable[[], int]
                  ) -> None:
        """Run a function on this rank's parts: bring what it reads, and put what it wrote in its place."""
        place, (prepared, _) = self.placement, divided
        needs = [(instances[k], need) for k, need in zip(prepared.slots, prepared.cut.needs, strict=True)]
        if place.agreement is not None:
            place.agreement.launch(prepared.form, prepared.layout.title, instances, b"")
        written = {id(owner) for owner, need in needs if need.writes}
        try:
            for owner, need in needs:
                self._bring(owner, need, prepared.cut.spread, id(owner) in written)
            self.fence()
            if place.agreement is not None:
                place.agreement.meet(prepared.layout.title)
            place.noted |= run()
            for owner, need in needs:
                if need.writes:
                    self._copy(message.PUT, owner, need, prepared.cut.spread)
                    owner.wrote()
        finally:
            for owner in instances:
                if owner.array is not None and owner.array is not owner.memory:
                    place.lent.append(owner.array)
                owner.array = None
        self.fence()  # returns the memory of the parts

    def _bring(self, owner: LegateInstance, need: Need, spread: tuple[int, ...], written: bool) -> None:
        """Let the function find this rank's part of a store that it reads, and room for what it writes."""
        if not written and (owner.home or owner.fresh):
            owner.array = owner.memory
        elif not written and need.tiles == WHOLE and need.high == owner.shape and not any(need.low):
            owner.array = self.host(owner, False)
        else:
            if owner.array is None or owner.array is owner.memory:
                owner.array = np.frombuffer(mmap.mmap(
                    -1, max(owner.nbytes, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE), np.uint8)
            self.placement.ready(owner, need)
            if need.reads:
                self._copy(message.GET, owner, need, spread)

    def _copy(self, order: int, owner: LegateInstance, need: Need, spread: tuple[int, ...]) -> None:
        """Submit a copy of each point's tile between Legate's store and the memory of its rank."""
        place = self.placement
        assert owner.array is not None
        words = message.moving(order, 0, owner.shape, ITEMSIZE[owner.dtype], need.low, address(owner.array))
        task = place.task(spread)
        part, projection, _ = place.part(owner, need, spread)
        (task.add_input if order == message.GET else task.add_output)(part, projection)
        place.send(task, words)

    def _on_wholes(self, layout: Layout, instances: Sequence[LegateInstance], run: Callable[[], int]) -> None:
        """Run a function on whole arrays, on every rank."""
        for argument, owner in zip(layout.arguments, instances, strict=True):
            owner.array = self.host(owner, argument.privilege is not Privilege.READ)
        try:
            self.placement.noted |= run()
        finally:
            for owner in instances:
                owner.array = None
            self._pay()


def _points(layout: Layout) -> int:
    return int(np.prod(layout.domain))


def _divided(layout: Layout, processors: int, ranks: int) -> Divided | None:
    """Divide a call so that each processor has as many of its points, the last ones maybe fewer or none."""
    points, = layout.domain
    span = -(-points // processors)
    padded = Layout(layout.arguments, (), layout.title, (span * processors,))
    found = orders.prepared(padded, span, whole=False)
    if not found.cut.several:
        return None
    each = span * (processors // ranks)
    return Divided(found, tuple([min(rank * each, points) for rank in range(ranks + 1)]))
