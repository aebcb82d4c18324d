"""Makes arrays larger than memory whose elements repeat, by mapping the same pages of memory many times."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy

PERIOD = 1 << 22
"""Bytes of memory that are mapped again and again."""
FIXED = 0x10
"""MAP_FIXED, which the module `mmap` does not name."""
FAILED = ctypes.c_void_p(-1).value


@contextmanager
def periodic(count: int, numbers: numpy.ndarray[Any, Any]) -> Iterator[numpy.ndarray[Any, Any]]:
    """Make an array of `count` elements that repeats these numbers, PERIOD bytes in all.  Raises OSError
    if they cannot be mapped."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    total = -(-count * numbers.itemsize // PERIOD) * PERIOD
    file = os.memfd_create("numbers")
    try:
        os.write(file, numbers.tobytes())
        base = libc.mmap(None, total, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if base == FAILED:
            raise OSError(ctypes.get_errno(), "no address space")
        try:
            for place in range(base, base + total, PERIOD):
                if libc.mmap(place, PERIOD, mmap.PROT_READ, mmap.MAP_SHARED | FIXED, file, 0) == FAILED:
                    raise OSError(ctypes.get_errno(), "no mapping")
            memory: Any = (ctypes.c_uint8 * total).from_address(base)
            yield numpy.frombuffer(memory, numbers.dtype)[:count]
        finally:
            libc.munmap(base, total)
    finally:
        os.close(file)
