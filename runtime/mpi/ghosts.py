"""Ghosts of stores on ranks: how the runtime exchanges them and accounts for their memory.

Ghosts are copies of other ranks' elements that the validity map does not record; they are valid until the
store is written (see inspector.py).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from diffuse.movement.boxes import Layout as Boxes
from diffuse.movement.direct import volumes
from diffuse.runtime.base import Layout
from diffuse.runtime.mpi import traffic
from diffuse.runtime.mpi.inspector import Due, Ghosts, Inspector
from diffuse.runtime.mpi.instances import MpiInstance
from diffuse.runtime.mpi.moves import Move
from diffuse.runtime.mpi.rank import Rank
from diffuse.runtime.mpi.shares import Share


class WithGhosts(Rank):
    """The part of the mpi runtime that handles ghosts."""

    _inspector: Inspector
    measure: Callable[[Boxes, Boxes], tuple[int, int]] = staticmethod(volumes)
    """Counts the elements and messages of an exchange over all ranks, where they are predicted."""

    @abstractmethod
    def _get(self, instance: MpiInstance, want: Boxes) -> None: ...

    @abstractmethod
    def _carry(self, todo: Sequence[Move], memories: Sequence[NDArray[Any]]) -> None: ...

    @abstractmethod
    def _afford(self, growth: Sequence[int], what: str) -> None: ...

    @abstractmethod
    def _charge(self, nbytes: Sequence[int], sign: int) -> None: ...

    def fetch(self, instance: MpiInstance, want: Boxes, title: str) -> None:
        """Send each rank the boxes that it wants of a store, and wait until they have arrived."""
        if self._traffic is not None:
            self._traffic.begin(title, traffic.arriving(instance.state, want))
        self._get(instance, want)
        self.arrived(instance)

    def arrived(self, instance: MpiInstance) -> None:
        """Wait until what was launched has written a store."""
        self._pool.wait(instance.written)

    def ask(self, title: str) -> int:
        """Synchronise with the other ranks before a request; returns a message tag."""
        if self._traffic is not None:
            self._traffic.begin(title, 0)
        if self.agreement is None:
            return 0
        self.agreement.meet(title)
        return self.agreement.tag

    def asked(self, nbytes: int, messages: int) -> None:
        """Count the request messages that ranks sent."""
        if self._traffic is not None:
            self._traffic.sent(nbytes, messages)

    def _inspected(self, layout: Layout, shared: Share, instances: Sequence[MpiInstance],
                   watched: Sequence[Any], make: Callable[[Share], Any]) -> tuple[Any, Due] | None:
        """Call `make` with the launch's share reduced to what its gathers read, found by inspection.  Returns
        the result and the ghosts that are still missing; None if the launch keeps its share."""
        if self.ranks == 1 or not layout.gathers:
            return None
        return self._inspector.inspect(layout, shared, instances, watched, make)

    def _bring_ghosts(self, ghosts: Ghosts, instance: MpiInstance) -> None:
        """Exchange the ghosts of a store."""
        if instance.trims:
            more = [max(new - old, 0) for new, old in zip(ghosts.growth, instance.ghost_bytes, strict=True)]
            self._afford(more, f"parts of an array of shape {instance.state.shape}")
            instance.ghost_bytes = tuple([a + b for a, b in zip(instance.ghost_bytes, more, strict=True)])
        self._pool.wait(instance.used)
        self._carry(ghosts.moves, [instance.array[ghosts.base:]] * len(ghosts.moves))
        instance.ghosts.add(ghosts)

    def _free_ghosts(self, instance: MpiInstance) -> None:
        """Count the memory of a store's ghosts as free."""
        if any(instance.ghost_bytes):
            self._charge(instance.ghost_bytes, -1)
            instance.ghost_bytes = (0,) * self.ranks
