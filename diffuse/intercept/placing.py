"""Keeps the threads of BLAS off the program's processor while the compile server starts beside it.

The server keeps the second of two processors busy while NumPy is imported, so that Linux places the threads
that OpenBLAS starts then on the program's processor.  It wakes them there for every product: they take turns
with the thread that waits for them, though the other processor soon idles, until Linux balances its load.
"""

from __future__ import annotations

import _thread
import os
import time

from diffuse.interrupts import suppress

PROCESSORS = 2
"""Of more processors one idles, on which Linux places the threads."""
WHILE = 0.1
"""The seconds until the threads may run everywhere again: the server has started by then."""


def spread_threads() -> None:
    """Have all other threads of this process run on the other one of two processors for a while."""
    with suppress(OSError):
        if len(os.sched_getaffinity(0)) == PROCESSORS:
            moved = move(_others(), _processor())
            if moved:
                _thread.start_new_thread(_give_back, (moved,))


def move(threads: list[int], here: int) -> dict[int, set[int]]:
    """Keep these threads off a processor if they may run on another one; returns where each of them could run
    before."""
    moved: dict[int, set[int]] = {}
    for thread in threads:
        with suppress(OSError):  # it has ended
            allowed = os.sched_getaffinity(thread)
            if allowed - {here}:
                moved[thread] = allowed
                os.sched_setaffinity(thread, allowed - {here})
    return moved


def _give_back(moved: dict[int, set[int]]) -> None:
    time.sleep(WHILE)
    restore(moved)


def restore(moved: dict[int, set[int]]) -> None:
    """Let threads run where they could before they were moved."""
    for thread, allowed in moved.items():
        with suppress(OSError):
            os.sched_setaffinity(thread, allowed)


def _processor() -> int:
    """The processor that runs this thread (field 39 of proc_pid_stat(5))."""
    with open("/proc/thread-self/stat") as file:
        return int(file.read().rpartition(")")[2].split()[36])


def _others() -> list[int]:
    """The other threads of this process."""
    return [int(name) for name in os.listdir("/proc/self/task") if int(name) != _thread.get_native_id()]
