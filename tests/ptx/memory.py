"""The memory of the PTX machine: allocations with bounds, and the detection of races in them."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.ptx.text import Instruction

Array = NDArray[Any]

FIRST = 1 << 48
"""The first address that is allocated: no address of the host's."""
GAP = 4096
"""Bytes between two allocations that nobody may touch."""
WARP = 32
"""Threads that wait for each other at a barrier of their warp."""
UNWRITTEN = 0xCD


class Fault(Exception):
    """A kernel did what it must not; the message says what, with the line of PTX."""


class Access(NamedTuple):
    """What one instruction read or wrote in a region."""

    instruction: Instruction
    offsets: Array
    width: int
    threads: Array
    epoch: int
    """Barriers that the group had passed."""
    moment: int
    """Barriers that the group, or each of its warps by itself, had passed."""
    stored: Array | None
    constant: bool
    """Is it a load of memory that nobody writes during the launch (`ld.global.nc`)?"""


class Region:
    """Bytes that start at an address, and what one launch did with them."""

    def __init__(self, start: int, data: Array) -> None:
        self.start, self.data = start, data
        self.end = start + len(data)
        self.accesses: list[Access] = []

    def elements(self, dtype: np.dtype[Any]) -> Array:
        return self.data[:len(self.data) // dtype.itemsize * dtype.itemsize].view(dtype)

    def check(self, group: int) -> None:
        """Fault if threads raced in a launch that has ended, of groups of this size."""
        accesses, self.accesses = self.accesses, []
        if not any(access.stored is not None for access in accesses):
            return
        grain = min(access.width for access in accesses)
        stored = np.zeros(-(-len(self.data) // grain), bool)
        for access in accesses:
            if access.stored is not None:
                stored[_places(access, grain)] = True
        columns: list[list[Array]] = []
        for number, access in enumerate(accesses):
            places = _places(access, grain)
            many, values = access.width // grain, np.zeros(1, "u8")
            if access.stored is not None:
                values = np.ascontiguousarray(access.stored).view(f"u{grain}").astype("u8")
            threads = np.repeat(access.threads, many)
            kept = stored[places]
            if kept.any():
                table = np.broadcast_arrays(places, threads, access.epoch, access.moment, values, number)
                columns.append([column[kept] for column in table])
        places, threads, epochs, moments, values, numbers = map(np.concatenate, zip(*columns, strict=True))
        writes = np.array([access.stored is not None for access in accesses])[numbers]
        constant = np.array([access.constant for access in accesses])[numbers]
        span = int(moments.max()) + 1
        for key, who in ((places * span + moments, threads), (places * span + epochs, threads // WARP),
                         (places, threads // group), (places, constant)):
            found = _clash(key, who, writes, values)
            if found:
                first, second = (accesses[numbers[i]].instruction for i in found)
                raise Fault(f"race of threads {threads[found[0]]} and {threads[found[1]]} at byte "
                            f"{places[found[0]] * grain} of {len(self.data)}: {first} and {second}")


def _places(access: Access, grain: int) -> Array:
    """The numbers of the grains that are accessed, each thread's in a row."""
    first = access.offsets // grain
    many = access.width // grain
    return first if many == 1 else np.add.outer(first, np.arange(many)).ravel()


def _clash(key: Array, who: Array, writes: Array, values: Array) -> tuple[int, int] | None:
    """Two accesses with the same key by different ones, of which one writes and the other one reads or
    writes another value."""
    order = np.argsort(key, kind="stable")
    key, actors, stores, written = key[order], who[order], writes[order], values[order]
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    several = np.minimum.reduceat(actors, starts) != np.maximum.reduceat(actors, starts)
    several &= np.logical_or.reduceat(stores, starts)
    reads = ~np.logical_and.reduceat(stores, starts)
    differ = np.minimum.reduceat(written, starts) != np.maximum.reduceat(written, starts)
    bad = np.flatnonzero(several & (reads | differ))
    if not len(bad):
        return None
    start = starts[bad[0]]
    end = np.append(starts, len(key))[bad[0] + 1]
    store = start + int(np.argmax(stores[start:end]))
    others = actors[start:end] != actors[store]
    other = start + int(np.argmax(others & (~stores[start:end] | (written[start:end] != written[store]))))
    return int(order[store]), int(order[other])


class Memory:
    """A device's memory."""

    def __init__(self) -> None:
        self.next = FIRST
        self.starts: list[int] = []
        self.regions: list[Region] = []
        self.variables: dict[object, dict[str, int]] = {}
        """The addresses of the variables of each module that was launched on this memory."""

    def allocate(self, nbytes: int) -> int:
        """The address of fresh memory, which holds no meaningful values."""
        address = self.next
        self.next += -(-(nbytes + GAP) // 256) * 256
        self._insert(Region(address, np.full(nbytes, UNWRITTEN, "u1")))
        return address

    def adopt(self, array: Array) -> None:
        """Let kernels access a contiguous array of the host at its own address."""
        if array.size:
            self._insert(Region(array.ctypes.data, np.asarray(array).reshape(-1).view("u1")))

    def free(self, address: int) -> None:
        at = bisect_right(self.starts, address) - 1
        if at < 0 or self.starts[at] != address:
            raise Fault(f"{address:#x} is freed, and was not allocated")
        del self.starts[at], self.regions[at]

    def read(self, address: int, nbytes: int) -> bytes:
        return self._span(address, nbytes).tobytes()

    def write(self, address: int, data: bytes) -> None:
        self._span(address, len(data))[:] = np.frombuffer(data, "u1")

    def find(self, address: int) -> Region | None:
        """The allocation that an address may be in."""
        at = bisect_right(self.starts, address) - 1
        return self.regions[at] if at >= 0 and address < self.regions[at].end else None

    def split(self, addresses: Array) -> list[Array]:
        """Where addresses are in several allocations: those in each, as a mask."""
        low, high = (self.find(int(address)) for address in (addresses.min(), addresses.max()))
        if low is high or low is None or high is None:
            return []
        numbers = np.searchsorted(np.array(self.starts, "u8"), addresses, "right")
        return [numbers == number for number in np.unique(numbers)]

    def _insert(self, region: Region) -> None:
        at = bisect_right(self.starts, region.start)
        self.starts.insert(at, region.start)
        self.regions.insert(at, region)

    def _span(self, address: int, nbytes: int) -> Array:
        region = self.find(address) if nbytes else None
        if nbytes and (region is None or address + nbytes > region.end):
            raise Fault(f"{nbytes} bytes at {address:#x} are not inside of an allocation")
        return region.data[address - region.start:][:nbytes] if region else np.empty(0, "u1")
