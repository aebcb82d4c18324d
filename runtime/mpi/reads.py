"""Reads of distributed stores by the host: of a whole store, or of a piece of it."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from diffuse.movement.boxes import Layout as Boxes
from diffuse.runtime.base import Instance
from diffuse.runtime.mpi import traffic
from diffuse.runtime.mpi.instances import MpiInstance
from diffuse.runtime.mpi.rank import Rank
from diffuse.runtime.mpi.shares import spread
from diffuse.runtime.mpi.validity import all_of

OFTEN = 16
"""The most pieces of a store that are fetched one by one, after which the whole store is fetched."""


class Reads(Rank):
    """The part of the mpi runtime that reads for the host, on real ranks and on predicted ones."""

    @abstractmethod
    def _get(self, instance: MpiInstance, want: Boxes) -> None:
        """Send each rank the boxes that it wants of a store, and record that it holds them."""

    @abstractmethod
    def _borrow(self, instance: MpiInstance, want: Boxes, what: str) -> None:
        """Send each rank the boxes that it wants of a store without recording that it holds them."""

    @abstractmethod
    def fence(self) -> None: ...

    def host(self, instance: Instance, write: bool) -> NDArray[np.uint8]:
        """Return all bytes of a store when the launches that write it have ended; for `write` when all that
        use it have."""
        if not isinstance(instance, MpiInstance):
            raise TypeError(f"{instance!r} is no instance of this runtime")
        if not instance.state.whole:
            self._gather(instance)
        instance.seen = True
        self._pool.wait(instance.used if write else instance.written)
        if write:
            instance.version += 1
        return instance.array

    def _gather(self, instance: MpiInstance) -> None:
        """Give every rank the whole store."""
        if self._traffic is not None:
            self._traffic.begin(traffic.read_by(), None)
        self._get(instance, (all_of(instance.state.shape),) * self.ranks)

    def known(self, instance: Instance) -> NDArray[np.uint8] | None:
        """The bytes of a store that every rank holds whole; else None."""
        if not isinstance(instance, MpiInstance) or not instance.state.whole:
            return None
        instance.seen = True
        return instance.array

    def piece(self, instance: Instance, offset: int, nbytes: int) -> NDArray[np.uint8]:
        """Some bytes of a store, on every rank; if pieces of it are read often, the whole store is
        fetched."""
        assert isinstance(instance, MpiInstance)
        state = instance.state
        instance.pieces += 1
        if not state.whole and instance.pieces <= OFTEN:
            want: Boxes = (spread(offset, offset + nbytes, state.shape, state.itemsize),) * self.ranks
            self._borrow(instance, want, f"bytes {offset} to {offset + nbytes}")
            self._pool.wait(instance.written)
            found = instance.array[offset:offset + nbytes].copy()
        else:
            found = self.host(instance, False)[offset:offset + nbytes]
        self.fence()
        return found
