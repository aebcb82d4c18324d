"""A board: memory that the ranks of a machine share, in which each rank writes the number of the launch that
it has begun.

A rank without a spare processor computes on the one that the thread for its messages needs.  Data that
another rank needs to begin the same launch, such as a row beside its part, then arrives milliseconds late.
So ranks begin large launches together: each waits, for a millisecond at most, until the others have begun,
and lets messages pass meanwhile (trampoline.cc).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from zlib import crc32

LINE = 64
"""Bytes of a rank's part: the number of the last launch that it has begun, in a cache line of its own."""
FOLDER = Path("/dev/shm")


class Board:
    """The shared memory, and this rank's place in it."""

    def __init__(self, memory: mmap.mmap, place: int, ranks: int) -> None:
        self.memory = memory
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self.place, self.ranks = place, ranks


def board(rank: int, gather: Callable[[int], list[int]], crowded: bool, folder: Path = FOLDER,
          host: str = "") -> Board | None:
    """Make the board of this machine; None if a rank is alone on it, or has processors to spare.  Every rank
    has to call this.  `gather` returns a word of each rank."""
    hosts = gather(crc32((host or platform.node()).encode()))
    here = [other for other, name in enumerate(hosts) if name == hosts[rank]]
    place, leader = here.index(rank), here[0]
    # not a process's number, which comes again in the next container, where a killed job has left its file
    path = folder / f"diffuse-{gather(int.from_bytes(os.urandom(7)))[leader]:x}"
    memory = None
    for turn in (True, False):  # the first rank makes the file, the others open it
        if (rank == leader) is turn and crowded and len(here) > 1:
            with suppress(OSError, ValueError):  # no file, or one that is shorter
                memory = _mapped(path, len(here) * LINE, turn)
        complete = gather(memory is not None)
    if rank == leader and memory is not None:
        path.unlink(missing_ok=True)
    ready = memory is not None and all([complete[other] for other in here])
    return Board(memory, place, len(here)) if memory is not None and ready else None


def _mapped(path: Path, nbytes: int, new: bool) -> mmap.mmap:
    """Map the memory of a file, which is created if `new`, and else has to exist and belong to this user."""
    number = os.open(path, os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if new else 0), 0o600)
    try:
        if new:
            os.ftruncate(number, nbytes)
        if os.fstat(number).st_uid != os.getuid():
            raise OSError(f"{path} belongs to somebody else")
        return mmap.mmap(number, nbytes)
    finally:
        os.close(number)
