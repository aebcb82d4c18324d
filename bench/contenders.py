"""The ways to run Diffuse that are compared with one another: names, and environment variables for each."""

from __future__ import annotations

import machine

SYSMEM = 6000
"""Megabytes that each Legate process may allocate; the system provides them as they are used."""

CLEARED = ("LEGATE_CONFIG", "LEGATE_INLINE_TASK_LAUNCH", "DIFFUSE_RUNTIME", "DIFFUSE_WINDOW_SIZE")


def processors(count: int) -> dict[str, str]:
    """Legate with several processors of one thread each."""
    return {"LEGATE_CONFIG": f"--cpus {count} --gpus 0 --omps 0 --utility 1 --sysmem {SYSMEM} "
                             "--logging gpu=none,threads=none",
            "DIFFUSE_NUM_THREADS": "1"}


LOCAL, LEGATE, MANY, UNFUSED = "local", "legate", "legate, processors", "legate, unfused"
STUB = "cuda, no device"
"""The runtime cuda over a driver without a device (tests/libcuda.c), to measure what a launch costs the
program's thread."""
FUSED, SINGLY = "diffuse", "diffuse, unfused"
"""Diffuse with its default settings on this machine's threads, and without fusion."""

RUNTIMES = (LOCAL, LEGATE, MANY, UNFUSED)
"""Threads of this process; Legate with one processor and our threads; Legate with several processors; Legate
with one processor, unfused."""


def environment(name: str, threads: int, cache: str) -> dict[str, str]:
    """The environment of one way to run a program on so many threads, without the settings of the caller."""
    chosen: dict[str, dict[str, str]] = {
        LOCAL: {"DIFFUSE_RUNTIME": "local"},
        FUSED: {"DIFFUSE_RUNTIME": "local"},
        SINGLY: {"DIFFUSE_RUNTIME": "local", "DIFFUSE_WINDOW_SIZE": "1"},
        LEGATE: {"DIFFUSE_RUNTIME": "legate"},
        MANY: {"DIFFUSE_RUNTIME": "legate", **processors(threads)},
        STUB: {"DIFFUSE_RUNTIME": "cuda"},
        UNFUSED: {"DIFFUSE_RUNTIME": "legate", "DIFFUSE_WINDOW_SIZE": "1"},
        "cupynumeric": processors(threads),
    }
    base = machine.environment(threads, cache)
    return {name: text for name, text in base.items() if name not in CLEARED} | chosen.get(name, {})
