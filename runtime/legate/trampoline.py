"""Loads and registers the tasks that Legate runs for Diffuse (native/trampoline.cc, trampoline_gpu.cc)."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from diffuse.observe.floaterrors import raised
from diffuse.runtime.legate import libraries
from diffuse.runtime.legate.board import Board
from diffuse.runtime.local.pool import Pool

COMPLAINTS = {
    1: "a store's memory was not in one piece where a kernel needs it so",
    2: "no memory for what a launch needs besides its stores",
    3: "the thread pool refused a launch: too many points",
    4: "Legate could not say where a store lies",
    5: "a kernel could not be launched on a GPU",
}
"""Messages for the error numbers of tasks in message.h."""
DETAIL = 256
"""From this bit on an error holds the driver's error number."""


def described(complaint: int) -> str | None:
    """The message for a task's error; None for 0."""
    detail, number = divmod(complaint, DETAIL)
    text = COMPLAINTS.get(number)
    return f"{text}: error {detail} of NVIDIA's driver" if text and detail else text


class Trampoline:
    """The library that contains the task."""

    def __init__(self, site: Path, release: str) -> None:
        self._library = library = ctypes.CDLL(str(libraries.trampoline(site, release).build()))
        pointer = ctypes.c_void_p
        library.diffuse_register.argtypes = [pointer]
        library.diffuse_register.restype = None
        library.diffuse_pool.argtypes = [pointer, pointer, pointer, pointer, ctypes.c_int64]
        library.diffuse_pool.restype = None
        library.diffuse_network.argtypes = [pointer, pointer]
        library.diffuse_network.restype = None
        library.diffuse_board.argtypes = [pointer, ctypes.c_int64, ctypes.c_int64]
        library.diffuse_board.restype = None
        library.diffuse_flags.restype = ctypes.c_uint
        library.diffuse_complaint.restype = ctypes.c_int64
        self._pool: Pool | None = None

    def register(self, core: Any, library: Any) -> Any:
        """Register the task with a library of Legate; returns the task's number there."""
        self._library.diffuse_register(library.raw_handle)
        return core.LocalTaskID(0)

    def pool(self, pool: Pool) -> None:
        """Have tasks run their points on this pool."""
        self._pool = pool
        pool.start()
        entry = pool.threads.entry
        submit, wait = (ctypes.cast(function, ctypes.c_void_p) for function in (entry.submit, entry.wait))
        room = pool.threads.field(ctypes.c_uint64, "mask").value // 2
        submitted = ctypes.addressof(pool.threads.submitted)
        self._library.diffuse_pool(pool.threads.address, submit, wait, submitted, room)

    def network(self, polling: ctypes.CDLL) -> None:
        """Have tasks that compute for long let messages pass first, by the counters of progress.c."""
        counters = [ctypes.c_ulong.in_dll(polling, name) for name in ("diffuse_yields", "diffuse_events")]
        self._library.diffuse_network(*map(ctypes.addressof, counters))

    def board(self, shared: Board) -> None:
        """Have tasks begin large launches abreast with the other ranks of this machine."""
        self._library.diffuse_board(shared.address, shared.place, shared.ranks)

    def flags(self) -> int:
        """Floating-point exceptions of kernels since the last call, the pool's included."""
        seen = raised(int(self._library.diffuse_flags()))
        return seen | (self._pool.flags() if self._pool is not None else 0)

    def complaint(self) -> str | None:
        """The first error of a task since the last call; None if there was none."""
        return described(self._library.diffuse_complaint())


class GridTrampoline:
    """The library that contains the task for GPUs."""

    def __init__(self, site: Path, release: str) -> None:
        found = libraries.trampoline(site, release, "trampoline_gpu")
        self._library = library = ctypes.CDLL(str(found.build()))
        library.diffuse_register.argtypes = [ctypes.c_void_p]
        library.diffuse_register.restype = None
        library.diffuse_complaint.restype = ctypes.c_int64

    def register(self, core: Any, library: Any) -> Any:
        """Register the task with a library of Legate; returns the task's number there."""
        self._library.diffuse_register(library.raw_handle)
        return core.LocalTaskID(1)

    def complaint(self) -> str | None:
        """The first error of a task since the last call; None if there was none."""
        return described(self._library.diffuse_complaint())
