"""Adjusts the heap of the C library, from which NumPy allocates arrays and the temporaries of its functions.

Fresh memory is expensive: the system zeroes each page when it is first touched, which takes longer than
NumPy's arithmetic on it.  By default glibc returns the end of the heap to the system whenever more than twice
the largest array freed so far is free there, and maps memory anew for every array that is larger than those:
temporaries of 0.1 to 30 MB then cost page faults in every iteration of a loop.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from typing import Any

MAPPED = 32 << 20
"""The size of a block from which on glibc maps it by itself, and unmaps it when it is freed: the largest
value that glibc accepts."""
FREE = 64 << 20
"""The bytes that may be free at the end of the heap: the value that glibc chooses by itself once a block of
the size above was freed."""
KEPT = 16 << 20
"""The free bytes that the heap may keep when memory is mapped for large arrays."""

LEFT = 1 << 20
"""The free bytes that it may keep when a loop of ever new shapes was found to leave something behind."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""The numbers of two parameters of `mallopt` (man 3 mallopt)."""


def keep() -> None:
    """Have glibc keep the memory of freed arrays for the next ones."""
    with suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, FREE)
        mallopt(_MMAP_THRESHOLD, MAPPED)


def trim(kept: int = KEPT) -> None:
    """Trim the heap, if it has more free memory than it may keep, for instance before memory is mapped.

    A program that sets up its arrays with NumPy and SciPy leaves free heap behind: temporaries that were too
    small for mappings of their own.  Later arrays come from an allocator that cannot use it.  And arrays that
    are larger or smaller in every turn of a loop leave ever more of it, between small objects.
    """
    libc = glibc()
    if libc is not None and libc.mallinfo2().fordblks > kept:
        libc.malloc_trim(0)


class Trims:
    """Decides when the heap is trimmed, by the bytes that an allocator holds.

    It is trimmed when the allocator takes more than ever, and when it has returned memory that the program
    will probably not need again.  A loop that goes up and down between the same bytes does not trim it: the
    next turn would touch fresh pages.
    """

    __slots__ = ("_most", "_least")

    def __init__(self) -> None:
        self._most = 0
        """The most bytes that were held."""
        self._least = 0
        """The fewest that were held since, when the heap was trimmed."""

    def grow(self, held: int) -> None:
        """Note that the allocator maps memory, and then holds so many bytes."""
        if held > self._most:
            self._most = self._least = held
            trim()

    def shrink(self, held: int) -> None:
        """Note that the allocator has returned memory, and still holds so many bytes."""
        if held < self._least - KEPT:
            self._least = held
            trim()


class _Heap(ctypes.Structure):
    """The result of `mallinfo2` (man 3 mallinfo2)."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
        "keepcost")]


@cache
def glibc() -> Any:
    """The C library if it is glibc, 2.33 or newer; else None."""
    libc = ctypes.CDLL(None)
    try:
        libc.mallinfo2.restype, libc.mallinfo2.argtypes = _Heap, []
        libc.malloc_trim.restype, libc.malloc_trim.argtypes = ctypes.c_int, [ctypes.c_size_t]
    except AttributeError:
        return None
    return libc
