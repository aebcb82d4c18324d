"""Instances over MPI: every rank reserves address space for a whole store, and touches the parts that it
uses.

Kernels then find elements where they are on one rank: at the same offsets from the store's address.  Memory
that is reserved costs nothing until it is touched.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import ITEMSIZE, Store
from diffuse.movement.boxes import Layout
from diffuse.runtime.local.allocator import Lease
from diffuse.runtime.local.runtime import LocalInstance
from diffuse.runtime.local.system import MAPPED, Host, give_back
from diffuse.runtime.mpi.shares import parted, runs, united
from diffuse.runtime.mpi.validity import Validity, everywhere, fresh

PAGE = mmap.PAGESIZE
NORESERVE = 0x4000
"""MAP_NORESERVE: the system promises no memory for the mapping, which may be larger than all there is."""


class MpiInstance(LocalInstance):
    """The memory of one store, and which ranks hold valid copies of its parts."""

    __slots__ = ("state", "number", "written", "used", "pieces", "trims", "version", "inspected", "ghosts",
                 "ghost_bytes", "seen", "home")

    private = False

    def __init__(self, memory: Lease | None, array: NDArray[np.uint8] | None, store: Store, ranks: int
                 ) -> None:
        super().__init__(memory, array)
        where = fresh if array is None else everywhere
        self.state: Validity = where(store.shape, ITEMSIZE[store.dtype], ranks)
        self.home: Layout = self.state.have
        """What ranks had when the store was written, or moved, last: since then they got copies."""
        self.number = 0
        """The number of the instance in the digests of the agreement, equal on all ranks."""
        self.written = self.used = 0
        """The numbers of the last launches that write it, and that use it."""
        self.pieces = 0
        """How often pieces were requested since the store was written."""
        self.trims = memory is not None and self.nbytes >= MAPPED
        """Is the memory a mapping of its own, of which parts can be returned to the system?"""
        self.seen = memory is None
        """Has the host its memory, and may look at it at any time?"""
        self.version = 0
        """How often it was written, or given to the host to write."""
        self.inspected: dict[Any, Any] = {}
        """Inspections of its elements, by keys that begin with the version."""
        self.ghosts: set[Any] = set()
        """The ghost exchanges since it was written, whose copies are not part of the state."""
        self.ghost_bytes: tuple[int, ...] = (0,) * ranks
        """Bytes of memory that the ghosts take on each rank."""

    def trim(self, state: Validity, rank: int) -> None:
        """Switch to a state in which this rank has less memory, and return the rest to the system; it then
        reads as zeros.  Nothing that is queued may use it."""
        self.state, self.home = state, state.have
        kept: list[tuple[int, int]] = []
        for box in state.touched[rank]:
            kept += parted(box, state.shape, state.itemsize) or runs([box], state.shape)
        ends = [low * state.itemsize for run in united(kept) for low in run]
        begins = [0, *ends[1::2]]
        for low, high in zip(begins, [*ends[::2], self.nbytes], strict=True):
            low, high = -(-(self.address + low) // PAGE) * PAGE, (self.address + high) // PAGE * PAGE
            if high > low:
                give_back(low, high - low)


class Reserved(Host):
    """Reserves address space: a block is refused when there is no address space left, not when memory is
    short."""

    lazy = False
    flags = Host.flags | NORESERVE

    def __init__(self) -> None:
        super().__init__(lambda: 1 << 62)
