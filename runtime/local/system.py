"""Where an allocator's blocks come from: the C library's heap, and mappings of their own for large blocks."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

from diffuse.runtime import machine

ALIGNMENT = 64
HUGE = 2 << 20
MAPPED = 4 << 20
"""From this size on, a block is a mapping of its own, of huge pages where the system has them."""


class System(Protocol):
    """The source of memory blocks."""

    lazy: bool
    """Does the system hand out memory only when it is touched?  Then requests are checked against what is
    left, with some of it kept for the rest of the program."""

    def available(self) -> int:
        """Bytes that can still be allocated."""

    def take(self, size: int) -> int:
        """Allocate so many bytes; returns the address, or 0 if they are refused."""

    def giving(self, address: int, size: int) -> tuple[Callable[..., Any], tuple[int, ...]]:
        """The function that frees memory, and its arguments."""


class Host:
    """The memory of this process."""

    lazy = True
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    """Flags of the mappings that hold large blocks."""

    def __init__(self, available: Callable[[], int] = machine.memory_available) -> None:
        self.available = available

    def take(self, size: int) -> int:
        return _allocate(size) if size < MAPPED else _map(size, self.flags)

    def giving(self, address: int, size: int) -> tuple[Callable[..., Any], tuple[int, ...]]:
        return (_libc().munmap, (address, size)) if size >= MAPPED else (_libc().free, (address,))


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in (
        ("mmap", pointer, [pointer, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]),
        ("munmap", ctypes.c_int, [pointer, size]),
        ("madvise", ctypes.c_int, [pointer, size, ctypes.c_int]),
        ("aligned_alloc", pointer, [size, size]),
        ("free", None, [pointer]),
    ):
        function = getattr(libc, name)
        function.restype, function.argtypes = result, arguments
    return libc


def give_back(address: int, size: int) -> bool:
    """Return the memory of some pages of a mapping to the system; they then read as zeros.  False if it
    refuses."""
    return not _libc().madvise(address, size, getattr(mmap, "MADV_DONTNEED", 4))


def _allocate(size: int) -> int:
    return _libc().aligned_alloc(ALIGNMENT, size) or 0


def _map(size: int, flags: int) -> int:
    """Make a private mapping that starts at a huge page; 0 if the system refuses."""
    libc = _libc()
    start = libc.mmap(None, size + HUGE, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if start is None or start == ctypes.c_void_p(-1).value:
        return 0
    address = int(start) + -int(start) % HUGE
    if address > start:
        libc.munmap(start, address - start)
    if rest := start + HUGE - address:
        libc.munmap(address + size, rest)
    libc.madvise(address, size, getattr(mmap, "MADV_HUGEPAGE", 14))
    return address
