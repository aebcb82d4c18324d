"""A caching allocator of aligned memory blocks, with size classes and a bound on what it caches.

Fresh memory is expensive: the system zeroes it page by page on first touch, which costs more than the
arithmetic on it.  So freed blocks are cached, by size, up to a bound.

Reuse is ordered by the stream of launches: a block may be freed while launches on it are queued, and handed
out again at once, because what is launched on it next runs later.  Only memory that goes back to the system
has to wait until the launches on it have ended.

`malloc` overcommits: the process is killed later, when it touches more memory than there is.  So large
blocks are refused when they exceed the available memory less what was handed out but not touched yet.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from sys import is_finalizing
from typing import Any, NamedTuple, Protocol

from diffuse import settings
from diffuse.runtime import heap, machine
from diffuse.runtime.local.keeping import SHARE, Keeping
from diffuse.runtime.local.system import ALIGNMENT, MAPPED, Host, System, give_back

GRAIN = 64 << 10
"""The size of a mapped block is a multiple of this."""
KEPT = 256 << 20
"""The most bytes cached, besides a quarter of what is in use; by default fewer (keeping.py)."""
LARGER = 4
"""A free mapped block serves a request if it is at most so many times as large: arrays that shrink in every
turn of a loop then need no fresh memory."""
RESERVE = 64 << 20
"""Bytes of the available memory that are left to the rest of the program."""


class Progress(Protocol):
    """How many launches were submitted to a runtime, and how many of them have ended."""

    @property
    def submitted(self) -> int: ...

    @property
    def completed(self) -> int: ...

    def fence(self) -> None: ...


class Still:
    """The progress of a runtime that finishes each launch before it returns."""

    submitted = completed = 0

    def fence(self) -> None:
        pass


class MemoryBlock:
    """Memory at `address`.  `stamp`: launches submitted when the block was last allocated or freed."""

    __slots__ = ("address", "mapped", "size", "stamp")

    def __init__(self, address: int, size: int, mapped: bool) -> None:
        self.address, self.size, self.mapped = address, size, mapped
        self.stamp = 0


class Usage(NamedTuple):
    """Bytes of memory."""

    in_use: int
    peak: int
    """The most bytes in use at any time."""
    cached: int
    """Free bytes kept for reuse."""


def size_class(nbytes: int) -> int:
    """Round a request up to a size class: eight classes per power of two, so at most an eighth is wasted."""
    if nbytes >= MAPPED:
        return -(-nbytes // GRAIN) * GRAIN
    if nbytes <= 8 * ALIGNMENT:
        return max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
    shift = (nbytes - 1).bit_length() - 4
    return ((nbytes - 1 >> shift) + 1) << shift


class Allocator:
    """The memory blocks of one runtime."""

    def __init__(self, progress: Progress | None = None, kept: int | None = None,
                 system: System | None = None, limited: bool = True) -> None:
        """`limited`: the setting `memory` bounds the blocks that are in use."""
        self._limited = limited
        self._progress = progress or Still()
        self._keeping = (Keeping(KEPT, again=machine.memory_total() // SHARE) if kept is None
                         else Keeping(kept, kept))
        self._system = system or Host()
        self._trims = heap.Trims()
        self._free: dict[int, deque[MemoryBlock]] = {}    # by size, oldest first
        self._order: dict[int, MemoryBlock] = {}          # free blocks by address, oldest first
        self._returned: deque[MemoryBlock] = deque()      # freed, not yet sorted into the two above
        self._untouched: deque[tuple[int, int]] = deque()   # (stamp, bytes) mapped for launches to come
        self._in_use = self._peak = self._cached = self._unchecked = 0
        self._total = 0
        """Bytes of all blocks, in use and free."""
        self._spare: dict[int, int] = {}
        """For the address of each block that is larger than its owner asked for, the bytes beyond that: they
        count like cached ones."""
        self._moving: MemoryBlock | None = None
        """The block that is moving from the free lists to its owner or to the system."""
        self._torn = False
        """Did an exception, such as an interrupt, cut an update short?"""
        self._lock = threading.Lock()
        _allocators.add(self)
        last = weakref.finalize(self, _give_back_all, self._progress, self._system, self._order,
                                self._returned)
        last.atexit = False  # launches may still run at exit, and the process returns all memory anyway

    def take(self, nbytes: int, owner: Any = None, zero: bool = False) -> MemoryBlock:
        """Allocate at least `nbytes`, contents undefined (zero if asked, from MAPPED bytes on).  The block is
        stored as `_block` of `owner` in the same step in which the allocator lets go of it."""
        with self._lock:
            returned, size = self._returned, size_class(nbytes)
            if returned and returned[0].size == size and not zero and not self._torn:
                # a loop gives back the block that it takes next, and it still counts as in use
                self._moving = block = returned[0]
                self._torn = True
                returned.popleft()
                if self._spare:
                    self._in_use += self._spare.pop(block.address, 0)
                block.stamp = self._progress.submitted
                if owner is None:
                    self._moving, self._torn = None, False
                else:
                    owner._block, self._moving, self._torn = block, None, False
                return block
            self._sort()
            self._torn = True
            limit = settings.config.memory
            if limit is not None and self._limited and self._in_use + size > limit:
                raise MemoryError(f"{nbytes} bytes requested, {self._in_use} in use: the setting memory "
                                  f"(DIFFUSE_MEMORY) allows {limit} bytes; raise it or hold fewer arrays")
            block = (self._cleared(size) if zero else self._reuse(size)) or self._make(size, nbytes)
            block.stamp = self._progress.submitted
            self._in_use += block.size - self._spare.get(block.address, 0)
            self._peak = max(self._peak, self._in_use)
            if owner is None:
                self._moving, self._torn = None, False
            else:  # at once: no interrupt comes between
                owner._block, self._moving, self._torn = block, None, False
            return block

    def give(self, block: MemoryBlock) -> None:
        """Free a block that launches submitted so far may still use.  Safe to call in any finalizer."""
        block.stamp = self._progress.submitted
        self._returned.append(block)
        if block.mapped and not self._lock.locked():  # after a call of `acquire` an interrupt may come
            with self._lock:
                self._sort()

    def trim(self, keep: int = 0) -> int:
        """Return cached memory to the system, oldest first, down to `keep` bytes; returns the bytes freed."""
        with self._lock:
            self._sort()
            return self._trim(keep)

    def usage(self) -> Usage:
        with self._lock:
            self._sort()
            return Usage(self._in_use, self._peak, self._cached)

    def _sort(self) -> None:
        """Move freed blocks to the free lists, and trim the cache to its bound."""
        if self._torn:
            self._mend()
        returned = self._returned
        while returned:
            self._torn = True
            block = returned[0]
            self._order[block.address] = block
            self._free.setdefault(block.size, deque()).append(block)
            self._in_use -= block.size - self._spare.pop(block.address, 0)
            self._cached += block.size
            returned.popleft()
        self._torn = False
        if self._cached <= self._keeping.least and not self._spare:
            return
        limit = self._limit()
        if self._cached > limit and self._trim(limit) and self._system.lazy:
            self._trims.shrink(self._total)

    def _limit(self) -> int:
        """The most bytes to cache."""
        return self._keeping.limit(self._in_use, self._peak) - sum(self._spare.values())

    def _mend(self) -> None:
        """Rebuild the free lists, after an exception at any step, from `_order` and the moving block."""
        if self._moving is not None:
            self._order[self._moving.address] = self._moving
            self._moving = None
        if self._returned and self._returned[0].address in self._order:
            self._returned.popleft()
        self._free = {}
        for block in self._order.values():
            self._free.setdefault(block.size, deque()).append(block)
        self._cached = sum(block.size for block in self._order.values())
        self._spare = {address: spare for address, spare in self._spare.items() if address not in self._order}
        self._in_use = self._total - self._cached - sum(self._spare.values())
        self._torn = False

    def _reuse(self, size: int) -> MemoryBlock | None:
        blocks, spare = self._free.get(size), 0
        if not blocks and size >= MAPPED:  # a larger mapping will do
            larger = min([s for s, found in self._free.items() if found and size <= s <= LARGER * size],
                         default=0)
            blocks, spare = self._free.get(larger), larger - size
        if not blocks:
            return None
        self._moving = block = blocks[-1]
        if spare:
            self._spare[block.address] = spare
        del self._order[block.address]
        blocks.pop()
        self._cached -= block.size
        return block

    def _cleared(self, size: int) -> MemoryBlock | None:
        """Drop the pages of a mapped block, so that the system zeroes them on the next touch."""
        blocks = self._free.get(size)
        if not blocks or blocks[0].stamp > self._progress.completed:
            return None
        if not give_back(blocks[0].address, size):
            return None
        self._moving = block = blocks[0]
        del self._order[block.address]
        blocks.popleft()
        self._cached -= size
        return block

    def _make(self, size: int, nbytes: int) -> MemoryBlock:
        """Allocate a block from the system; MemoryError if even an empty cache leaves no room for it."""
        self._unchecked += size
        checked = size >= MAPPED or self._unchecked >= KEPT // 4
        for attempt in range(3):
            if attempt == 1:
                self._trim(0)
            if attempt == 2:  # let all launches end: their memory is touched or freed then
                self._progress.fence()
                self._untouched.clear()
                self._trim(0)
            if not checked or not self._system.lazy or self._room() >= self._unchecked:
                if size >= MAPPED and self._system.lazy:
                    self._trims.grow(self._total + size)
                if address := self._system.take(size):
                    if checked:
                        self._unchecked = 0
                    block = MemoryBlock(address, size, size >= MAPPED)
                    self._keeping.made(size, self._peak)
                    self._moving, self._total = block, self._total + size
                    if size >= MAPPED and self._system.lazy:
                        self._untouched.append((self._progress.submitted, size))
                    return block
        room = self._room()
        self._unchecked -= size
        raise MemoryError(f"{nbytes} bytes requested, {max(0, room)} bytes available "
                          f"({self._in_use} bytes are in use); free arrays or use smaller ones")

    def _room(self) -> int:
        """Bytes that can be handed out without exceeding the memory there is."""
        done, untouched = self._progress.completed, self._untouched
        while untouched and untouched[0][0] < done:
            untouched.popleft()
        left = RESERVE if self._system.lazy else 0
        return self._system.available() - left - sum(size for _, size in untouched)

    def _trim(self, keep: int) -> int:
        done, before, system, torn = self._progress.completed, self._cached, self._system, self._torn
        while self._order and self._cached > keep:
            block = next(iter(self._order.values()))
            if block.stamp > done:  # and so are all that follow
                break
            give, arguments = system.giving(block.address, block.size)
            self._torn = True
            self._moving = block
            del self._order[block.address]
            self._free[block.size].popleft()
            self._cached -= block.size
            self._keeping.gave(block.size)
            self._total, self._moving = self._total - block.size, None
            # If interrupted, the block is either with us or freed: the call is the next step.
            give(*arguments)
            self._torn = torn
        return before - self._cached


class Lease:
    """Owns a memory block, and frees it when the last instance or array that refers to it is gone."""

    __slots__ = ("_allocator", "_block", "nbytes")

    def __init__(self, allocator: Allocator, nbytes: int, zero: bool = False) -> None:
        self.nbytes = nbytes
        self._allocator = allocator
        self._block: MemoryBlock
        allocator.take(nbytes, self, zero)

    @property
    def address(self) -> int:
        return self._block.address

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"data": (self.address, False), "shape": (self.nbytes,), "typestr": "|u1", "version": 3}

    def __del__(self, ending: Callable[[], bool] = is_finalizing) -> None:
        if hasattr(self, "_block") and not ending():
            self._allocator.give(self._block)


_allocators: weakref.WeakSet[Allocator] = weakref.WeakSet()


def _unlock_all() -> None:
    """Renew the locks in a forked child, where the threads that held them do not exist."""
    for allocator in list(_allocators):
        allocator._lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock_all)


def _give_back_all(progress: Progress, system: System, order: dict[int, MemoryBlock],
                   returned: deque[MemoryBlock]) -> None:
    progress.fence()
    for block in [*order.values(), *returned]:
        give, arguments = system.giving(block.address, block.size)
        give(*arguments)
    order.clear()
    returned.clear()
