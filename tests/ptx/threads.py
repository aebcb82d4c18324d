"""Threads of the PTX machine: how the groups of a launch go from block to block, and what they access."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.ptx.memory import UNWRITTEN, Access, Array, Fault, Memory, Region
from tests.ptx.text import Function, Instruction

ENDED, WAITS = 1 << 30, 1 << 29
"""In place of the number of a block: the thread has returned, or waits at a barrier before the block that is
added."""
STEPS = 1_000_000
"""Blocks that a batch of groups may run until that counts as an endless loop."""
SHARED, LOCAL = 1 << 60, 1 << 61
"""Where shared and local memory begin among generic addresses."""
STACK = 4096
"""Bytes of local memory of a thread."""


class Batch:
    """Groups that run together: their threads, and the memory that they share."""

    def __init__(self, memory: Memory, first: int, groups: int, size: int, shared: int,
                 symbols: dict[str, int], parts: int, seed: int) -> None:
        self.memory, self.symbols, self.parts = memory, symbols, parts
        self.size = size
        """Threads of a group."""
        self.room, self.shared_bytes = -(-shared // 16) * 16, shared
        self.shared = Region(0, np.full(groups * self.room, UNWRITTEN, "u1"))
        self.local = Region(0, np.zeros(0, "u1"))
        self.start = first * size
        self.threads = np.arange(self.start, self.start + groups * size, dtype="i8")
        self.epoch = self.moment = self.steps = 0
        self.random = np.random.default_rng([seed, first])

    def locate(self, space: str, address: Array, width: int, threads: Array) -> tuple[Region, Array]:
        """The region that all these addresses are in, and their offsets there; Fault outside of it."""
        if (address & np.uint64(width - 1)).any():
            raise Fault(f"misaligned address {int(address.max()):#x}")
        low, high = int(address.min()), int(address.max()) + width
        if space == "global":
            region = self.memory.find(low)
            if region is None or high > region.end:
                where = f"allocation of {len(region.data)} bytes" if region else "memory"
                bad = high - width if region else low
                raise Fault(f"outside of {where}: {bad:#x}" + (
                    f", {bad - region.start} bytes from its start" if region else ""))
            return region, (address - np.uint64(region.start)).view("i8")
        room, size = (self.room, self.shared_bytes) if space == "shared" else (STACK, STACK)
        if high > size:
            raise Fault(f"outside of {space} memory of {size} bytes: {high - width:#x}")
        owners = threads - self.start
        if space == "shared":
            return self.shared, owners // self.size * room + address.view("i8")
        if not len(self.local.data):
            self.local = Region(0, np.full(len(self.threads) * STACK, UNWRITTEN, "u1"))
        return self.local, owners * room + address.view("i8")


class Frame:
    """A function that threads of a batch execute."""

    def __init__(self, batch: Batch, code: Code, threads: Array, given: Array, depot: int) -> None:
        self.batch, self.code, self.threads = batch, code, threads
        self.given = given
        """The bytes of its parameters: a row for each thread, or one for all."""
        self.depot = depot
        """Where its local variables begin in the local memory of each thread."""
        self.values: dict[str, Array] = {}
        """Of registers: an element for each thread, or one for all."""
        self.arguments = {name: np.zeros((len(threads), size), "u1")
                          for name, size in code.function.arguments.items()}
        self.blocks = np.zeros(len(threads), "i8")
        """The number of the block that each thread executes next."""

    def run(self) -> None:
        """Let all threads return.  Between two barriers they run in parts, drawn at random."""
        batch, parts = self.batch, self.batch.parts if self.threads is self.batch.threads else 1
        while True:
            if parts == 1:
                self._run_part(None)
            else:
                drawn = batch.random.integers(parts, size=len(self.threads))
                for part in range(parts):
                    self._run_part(np.flatnonzero(drawn == part))
            waits = self.blocks < ENDED
            if not waits.any():
                return
            self._pass_barrier(waits)

    def _pass_barrier(self, waits: Array) -> None:
        whole = self.threads is self.batch.threads  # else a function that part of the threads call
        groups = self.blocks.reshape(-1, self.batch.size if whole else 1)
        if not whole or (groups != groups[:, :1]).any():
            number = int(self.blocks[np.argmax(waits)]) - WAITS - 1
            raise Fault(f"not all threads of a group arrive at {self.code.blocks[number].steps[-1][0]}")
        self.blocks[waits] -= WAITS
        self.batch.moment += 1
        last = [self.code.blocks[number - 1].steps[-1][0] for number in np.unique(self.blocks[waits])]
        self.batch.epoch += all("warp" not in instruction.parts for instruction in last)

    def _run_part(self, members: Array | None) -> None:
        """Run these threads until each waits or has returned: those at the first block go first, and so
        threads that went different ways meet again."""
        while True:
            at = self.blocks if members is None else self.blocks[members]
            first = int(at.min(initial=ENDED))
            if first >= WAITS:
                return
            here = at == first
            active = members
            if not here.all():
                active = np.flatnonzero(here) if members is None else members[here]
            self._run_block(first, active)

    def _run_block(self, number: int, active: Array | None) -> None:
        self.batch.steps += 1
        if self.batch.steps > STEPS:
            raise Fault("the kernel does not end")
        lanes, block = Lanes(self, active), self.code.blocks[number]
        lanes.next = number + 1
        for instruction, step in block.steps:
            try:
                step(lanes)
            except (Fault, ZeroDivisionError) as problem:
                raise Fault(f"{problem}: {instruction}") from problem
        lanes.finish(block.kept)
        self.blocks[slice(None) if active is None else active] = lanes.next


class Lanes:
    """The threads of a frame that execute a block together."""

    def __init__(self, frame: Frame, active: Array | None) -> None:
        self.frame, self.active = frame, active
        self.count = len(frame.threads) if active is None else len(active)
        self.values: dict[str, Array] = {}
        """Of registers that were read or written in this block."""
        self.next: Any = 0
        """The block behind this one: one for all, or an element for each."""

    @property
    def rows(self) -> Any:
        return slice(None) if self.active is None else self.active

    @property
    def threads(self) -> Array:
        return self.frame.threads if self.active is None else self.frame.threads[self.active]

    def get(self, register: str) -> Array:
        value = self.values.get(register)
        if value is None:
            value = self.frame.values.get(register)
            if value is None:
                raise Fault(f"{register} was not written")
            if self.active is not None and len(value) > 1:
                value = value[self.active]
            self.values[register] = value
        return value

    def finish(self, kept: Sequence[str]) -> None:
        """Write the registers that other blocks read."""
        for register in kept:
            value = self.values[register]
            if self.active is not None:
                old, many = self.frame.values.get(register), len(self.frame.threads)
                whole = np.zeros(many, value.dtype) if old is None else np.array(np.broadcast_to(old, many))
                whole[self.active] = value
                value = whole
            self.frame.values[register] = value

    def load(self, instruction: Instruction, space: str, address: Array, dtype: np.dtype[Any],
             constant: bool) -> Array:
        space, address = _specific(space, address)
        if len(address) > 1 and space == "global" and (parts := self.frame.batch.memory.split(address)):
            found = np.zeros(self.count, dtype)
            for part in parts:
                some = Lanes(self.frame, self._some(part))
                found[part] = some.load(instruction, space, address[part], dtype, constant)
            return found
        region, offsets = self._access(instruction, space, address, dtype.itemsize, None, constant)
        return np.asarray(region.elements(dtype)[offsets // dtype.itemsize])

    def store(self, instruction: Instruction, space: str, address: Array, value: Array) -> None:
        space, address = _specific(space, address)
        value = np.broadcast_to(value, self.count)
        if len(address) > 1 and space == "global" and (parts := self.frame.batch.memory.split(address)):
            for part in parts:
                Lanes(self.frame, self._some(part)).store(instruction, space, address[part], value[part])
            return
        region, offsets = self._access(instruction, space, address, value.dtype.itemsize, value, False)
        region.elements(value.dtype)[np.broadcast_to(offsets, self.count) // value.dtype.itemsize] = value

    def _some(self, part: Array) -> Array:
        return np.flatnonzero(part) if self.active is None else self.active[part]

    def _access(self, instruction: Instruction, space: str, address: Array, width: int, stored: Array | None,
                constant: bool) -> tuple[Region, Array]:
        """The region that these addresses are in, and their offsets there; it notes the access."""
        batch, threads = self.frame.batch, self.threads
        region, offsets = batch.locate(space, address, width, threads)
        if space != "local":
            region.accesses.append(Access(instruction, np.broadcast_to(offsets, self.count), width, threads,
                                          batch.epoch, batch.moment, stored, constant))
        return region, offsets


def _specific(space: str, address: Array) -> tuple[str, Array]:
    """The state space of generic addresses."""
    if space:
        return space, address
    low, high = int(address.min()), int(address.max())
    for name, start in (("local", LOCAL), ("shared", SHARED), ("global", 0)):
        if low >= start:
            return name, address - np.uint64(start)
        if high >= start:
            raise Fault("addresses in several state spaces")
    raise AssertionError(low)


Step = Callable[[Lanes], None]


class Block(NamedTuple):
    """A basic block, decoded."""

    steps: list[tuple[Instruction, Step]]
    kept: list[str]
    """The registers that it writes and other blocks read."""


class Code(NamedTuple):
    """A function, decoded."""

    function: Function
    blocks: list[Block]
