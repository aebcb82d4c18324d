"""Counts the memory of arrays on ranks, and returns memory to the system when it runs short.

Every rank counts for all ranks, so that too much is an error on all of them, at the same line.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from diffuse.movement.boxes import Layout as Boxes
from diffuse.runtime.mpi.ghosts import WithGhosts
from diffuse.runtime.mpi.instances import MpiInstance
from diffuse.runtime.mpi.moves import Move, moves
from diffuse.runtime.mpi.shares import Share
from diffuse.runtime.mpi.steps import moved, trimmed
from diffuse.runtime.mpi.validity import Validity

MUCH = 16 << 20
"""Bytes of invalid copies from which on their memory is returned to the system."""


class Memory(WithGhosts):
    """The part of the runtime mpi that counts and returns memory."""

    setting = "DIFFUSE_MPI_MEMORY"
    """The setting of the memory that arrays may take."""
    _touched: list[int]
    _peak: int
    _most: int
    _live: dict[int, MpiInstance]

    @abstractmethod
    def _bring(self, todo: Sequence[Move], instances: Sequence[Any]) -> None: ...

    @abstractmethod
    def _fetched(self, state: Validity, want: Boxes) -> tuple[Any, Validity]: ...

    @property
    def room(self) -> int:
        """The bytes that arrays may take on each rank."""
        return self._most

    def _charge(self, nbytes: Sequence[int], sign: int) -> None:
        self._touched = [before + sign * more for before, more in zip(self._touched, nbytes, strict=True)]
        self._peak = max(self._peak, self._touched[self.rank])

    def _affords(self, growth: Sequence[int]) -> bool:
        """Has every rank enough memory left?"""
        return all([more <= 0 or used + more <= self._most
                    for used, more in zip(self._touched, growth, strict=True)])

    def _afford(self, growth: Sequence[int], what: str) -> None:
        """Count memory that ranks are about to touch.  Raises MemoryError on all ranks if any of them has too
        little."""
        for rank, (used, more) in enumerate(zip(self._touched, growth, strict=True)):
            if more > 0 and used + more > self._most:
                raise MemoryError(f"{more} bytes more on rank {rank} for {what}, where arrays take {used} "
                                  f"bytes of {self._most}: use more ranks or smaller arrays, or give them "
                                  f"more with {self.setting}")
        self._charge(growth, 1)

    def _trim(self, instance: MpiInstance, number: int) -> None:
        """Return the memory of copies that the launch with this number made invalid, if it is much."""
        state = instance.state
        if state.stale > MUCH and instance.trims:
            less = trimmed(state)
            if less is not state:
                self._shrink(instance, state, less, number)

    def _relocated(self, shared: Share, instances: Sequence[Any]) -> bool:
        """Free memory for a launch: move stores that it only reads to the ranks that read them, and return
        their other memory.  Returns whether anything moved."""
        found = False
        for use in shared.uses if shared.divided else ():
            instance = instances[use.place]
            state = instance.state
            if instance.seen or not instance.trims or use.every_write or use.late_writes or use.late_reads:
                continue
            arrivals, after = self._fetched(state, use.reads)
            less = moved(after, use.reads)
            growth = [b - a for a, b in zip(state.bytes, after.bytes, strict=True)]
            if less is None or less.bytes == after.bytes or not any(arrivals) or not self._affords(growth):
                continue
            self._charge(growth, 1)
            self._bring(tuple(moves(self.rank, use.place, arrivals, state.shape, state.itemsize)), instances)
            self._shrink(instance, after, less, instance.used)
            found = True
        return found

    def _relieved(self, instances: Sequence[Any]) -> None:
        """Free memory for a launch: drop copies of stores that it does not use.  Each rank keeps what it had
        of such a store when that was written."""
        for instance in list(self._live.values()):
            state = instance.state
            if instance in instances or instance.seen or not instance.trims or instance.nbytes >= sum(
                    state.bytes):
                continue
            less = moved(state, instance.home)
            if less is not None and sum(less.bytes) < sum(state.bytes):
                self._shrink(instance, state, less, instance.used)

    def _shrink(self, instance: MpiInstance, state: Validity, less: Validity, number: int) -> None:
        """Reduce the memory of a store to that of a smaller state, when the launch with this number has
        ended."""
        self._charge([a - b for a, b in zip(less.bytes, state.bytes, strict=True)], 1)
        self._free_ghosts(instance)
        self._pool.wait(number)
        instance.trim(less, self.rank)
