"""Exchanges of boxes between ranks: those that bring a store, or that a launch has planned."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffuse.movement.boxes import Layout as Boxes
from diffuse.runtime.mpi import traffic
from diffuse.runtime.mpi.collected import replicated
from diffuse.runtime.mpi.instances import MpiInstance
from diffuse.runtime.mpi.memory import Memory
from diffuse.runtime.mpi.moves import Move, carry, in_rounds, moves
from diffuse.runtime.mpi.steps import fetched
from diffuse.runtime.mpi.validity import Validity


class Exchanges(Memory):
    """The part of the mpi runtime that moves boxes between ranks."""

    @abstractmethod
    def _tell(self, event: str, content: bytes = b"") -> None: ...

    def _get(self, instance: MpiInstance, want: Boxes) -> None:
        """Send each rank the boxes that it wants of a store, and record that it holds them."""
        state = instance.state
        whole = replicated(0, state, want)
        arrivals, after = self._fetched(state, want) if whole is None else ((), state.received(want))
        what = f"reading an array of shape {state.shape}"
        self._afford([b - a for a, b in zip(state.bytes, after.bytes, strict=True)], what)
        self._tell(what)
        self._bring_all([tuple(moves(self.rank, 0, arrivals, state.shape, state.itemsize))]
                        if whole is None else in_rounds(whole, self.rank), (instance,))
        instance.state = after

    def _fetched(self, state: Validity, want: Boxes) -> tuple[Any, Validity]:
        """Return the boxes that arrive if each rank gets what it wants of a store, and the state after
        that."""
        return fetched(state, want)

    def _borrow(self, instance: MpiInstance, want: Boxes, what: str) -> None:
        """Send each rank the boxes that it wants of a store without recording that it holds them."""
        state = instance.state
        arrivals, _ = self._fetched(state, want)
        if self._traffic is not None:
            self._traffic.begin(traffic.read_by(), traffic.received(arrivals, state))
        self._tell(f"reading {what} of an array of shape {state.shape}")
        self._bring(tuple(moves(self.rank, 0, arrivals, state.shape, state.itemsize)), (instance,))

    def _bring(self, todo: Sequence[Move], instances: Sequence[Any]) -> None:
        """Move boxes between ranks, once the queued launches that use their stores are done."""
        if not todo:
            return
        self._pool.wait(max([instances[move.place].used for move in todo]))
        self._carry(todo, [instances[move.place].array for move in todo])

    def _bring_all(self, exchanges: Sequence[Sequence[Move]], instances: Sequence[Any]) -> None:
        """Make these exchanges one after another: later ones may pass on what arrived in earlier ones."""
        for todo in exchanges:
            self._bring(todo, instances)

    def _carry(self, todo: Sequence[Move], memories: Sequence[NDArray[np.uint8]]) -> None:
        assert self.network is not None and self.agreement is not None
        if self._traffic is not None:
            sends = [move.nbytes for move in todo if move.sends]
            self._traffic.sent(sum(sends), len(sends))
        carry(self.network, todo, memories, self.agreement.tag)
