"""Host functions on Legate: on the parts of each rank alone, or by all ranks together.

Legate knows nothing of such functions.  Where memory is short they run on the parts that ranks have (see
apart.py); otherwise on whole arrays on every rank, which takes fewer tasks and no messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import Privilege
from diffuse.observe import trace
from diffuse.runtime.base import Layout
from diffuse.runtime.independent import Alone
from diffuse.runtime.legate import message, prepare
from diffuse.runtime.legate.apart import Apart, moves_in_parts
from diffuse.runtime.legate.instances import LegateInstance
from diffuse.runtime.legate.placement import Placement
from diffuse.runtime.ranks.peers import Run

if TYPE_CHECKING:
    from diffuse.runtime.legate.runtime import Legate

COPIES = 3
"""Whole copies of all arrays, an operand, a result and a temporary, for which a rank needs room."""
PARTS = 3
"""How many times the memory of its stores Legate needs: for the boxes that a task accesses instead of the
parts that ranks have, for temporaries, and for freed stores."""


class Calls(ABC):
    """The part of the runtime that calls host functions."""

    placement: Placement
    ranks: int
    splits: bool
    _owed: list[LegateInstance]

    @abstractmethod
    def host(self, instance: Any, write: bool) -> NDArray[np.uint8]: ...

    _apart: Apart | None = None
    _leaves = False
    """Is Legate short of memory, so that all launches run apart?"""

    @property
    def apart(self) -> Apart:
        """The runtime of the arrays that do not lie in Legate's stores."""
        if self._apart is None:
            self._apart = Apart(cast("Legate", self))
        return self._apart

    @property
    def held(self) -> int:
        """The bytes of all arrays, on all ranks together."""
        return self.placement.used + (0 if self._apart is None else self._apart.held)

    def runs_apart(self, instances: Sequence[LegateInstance], copied: int) -> bool:
        """Does a launch run apart?  Else all of its arrays lie in Legate's stores afterwards.  `copied` are
        the bytes that each point of the launch would get whole."""
        if not self.splits:
            return False
        owners = {id(owner): owner for owner in instances}.values()
        here = [owner for owner in owners if owner.apart is not None]
        if not any(map(_stays, owners)):
            there = [owner for owner in owners if owner.apart is None]
            made = [owner for owner in there if owner.piece is None and not owner.home]
            if self._short(_bytes(made), copied):
                return True
            if here and _bytes(here) >= _bytes([owner for owner in there if owner.piece is not None]):
                return True
        for owner in here:
            self.apart.give_back(owner)
        return False

    def _short(self, made: int, copied: int) -> bool:
        """Is Legate short of memory if it makes stores of so many bytes, and each rank gets copies of so
        many?  Once it is, it remains so, because Legate returns little memory."""
        if not self._leaves and PARTS * (
                self.placement.occupied + made // self.ranks + copied) > self.room:
            self._leaves = True
            self.placement.leave()
            trace.event("memory", "Legate lacks memory to move arrays, so they lie on the ranks from here on")
        return self._leaves

    def brought(self, owner: LegateInstance) -> bool:
        """Is the data of a store apart?  It is moved there if Legate lacks memory to show it to the host."""
        stale = owner.apart is None and owner.filled and not owner.fresh
        if (stale and self.splits and not _stays(owner) and moves_in_parts(owner)
                and self._short(0, owner.nbytes)):
            self.apart.taken((owner,))
        return owner.apart is not None

    def freed(self, owner: LegateInstance) -> None:
        """Free the memory that an instance has apart."""
        if owner.apart is not None:
            self.apart.release(owner.apart)
            owner.apart = None

    def raised(self) -> int:
        """Wait for what runs apart; returns the floating-point exceptions that no other rank knows of."""
        return 0 if self._apart is None else self._apart.raised()

    def known(self, instance: Any) -> NDArray[np.uint8] | None:
        return None if instance.apart is None else self.apart.known(instance.apart)

    def piece(self, instance: Any, offset: int, nbytes: int) -> NDArray[np.uint8] | None:
        return self.apart.piece(instance.apart, offset, nbytes) if self.brought(instance) else None

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

    def in_parts(self, nbytes: int) -> bool:
        """Do arrays take so much memory that a rank may have no room for whole copies of them?  Else host
        functions run on whole arrays on every rank."""
        return self.splits and COPIES * max(nbytes, self.held) > self.room

    def call_parts(self, layouts: Sequence[Layout], instances: Sequence[LegateInstance],
                   run: Callable[[int, int, int], int]) -> None:
        """Run a host function on the points of this rank under one of the layouts:
        `run(number of the layout, first, points)`, which returns floating-point exceptions."""
        self.placement.check_thread()
        layout = layouts[0]
        self._called(layout, instances, lambda parts: self.apart.call_parts(layouts, parts, run),
                     lambda: run(0, 0, _points(layout)))

    def call_together(self, layout: Layout, instances: Sequence[LegateInstance], run: Run) -> None:
        """Run a host function on all ranks at once, each on its parts: `run(peers, firsts, rank)`, where
        `firsts` are the first points of the ranks, and the end of the last one's."""
        self.placement.check_thread()
        self._called(layout, instances, lambda parts: self.apart.call_together(layout, parts, run),
                     lambda: run(Alone, (0, _points(layout)), 0))

    def _called(self, layout: Layout, instances: Sequence[LegateInstance],
                on_parts: Callable[[Sequence[Any]], None], on_wholes: Callable[[], int]) -> None:
        """Run a function on the parts of arrays, or on whole arrays if another library shares one of them;
        it finds their memory in `LegateInstance.array`."""
        divided = not any(map(_stays, instances))
        try:
            if divided:
                for owner, part in zip(instances, parts := self.apart.taken(instances), strict=True):
                    owner.array = part.array
                on_parts(parts)
                self.placement.launched += 1
            else:
                for argument, owner in zip(layout.arguments, instances, strict=True):
                    owner.array = self.host(owner, argument.privilege is not Privilege.READ)
                self.placement.noted |= on_wholes()
        finally:
            for owner in instances:
                owner.array = None
            self._pay()


def _stays(owner: LegateInstance) -> bool:
    """Does an array have to lie in Legate's stores, because another library shares it, or because it is a
    slice of a larger store?"""
    return bool(owner.shared or owner.scattered)


def _bytes(owners: Sequence[LegateInstance]) -> int:
    return sum([owner.nbytes for owner in owners])


def _points(layout: Layout) -> int:
    return int(np.prod(layout.domain))
