"""The machine of a run: threads, load, versions, and how fast it copies memory."""

from __future__ import annotations

import contextlib
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "llvmlite", "numba", "numexpr", "jax", "scipy", "legate", "nvidia-cupynumeric")
TASKS = Path("/proc/self/task")
"""What Linux tells of the threads of this process."""
TICK = 0.02
"""Seconds in which every system notes that a thread runs."""
QUIET, SETTLES = 0.002, 0.3
"""Seconds between two looks at whether the threads of a process sleep, and seconds that this is waited for at
most."""


def cpus() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def environment(threads: int, cache: str) -> dict[str, str]:
    """The variables that give every contender the same number of threads, and Diffuse an empty cache.

    Bytecode is kept, as it is of installed packages: else Diffuse would be compiled anew in each process.
    """
    counts = ("DIFFUSE_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS",
              "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    others = {"DIFFUSE_CACHE_DIR": cache, "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}
    found = {**os.environ, **dict.fromkeys(counts, str(threads)), **others}
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


def kernels_kept(cache: str) -> int:
    """Files in Diffuse's cache: one for each kernel that some process had to compile."""
    return sum(path.is_file() for path in Path(cache).rglob("*"))


def bind(threads: int) -> None:
    """Keep this process and those it starts to `threads` cores: XLA takes as many threads as it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus()[:threads])


@contextlib.contextmanager
def bound(threads: int) -> Iterator[None]:
    """The same for the processes that are started in the block."""
    before = cpus()
    bind(threads)
    try:
        yield
    finally:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, before)


def asleep() -> bool:
    """Do all other threads of this process sleep?

    Asked of the kernel: of a thread that runs on another processor it counts the time only at its clock's
    ticks, every 4 or 10 ms, between which a process whose threads poll seems to do nothing.
    """
    if not TASKS.is_dir():
        before = time.process_time()
        time.sleep(TICK)
        return time.process_time() - before < TICK / 10
    own, states = threading.get_native_id(), []
    for task in TASKS.iterdir():
        with contextlib.suppress(OSError):      # a thread that has just ended
            states += [task.name == str(own) or (task / "stat").read_bytes().rpartition(b") ")[2][:1] != b"R"]
    return all(states)


def settle(least: float = 0.0) -> float:
    """Wait for at least so many seconds, and until the other threads of this process sleep: those of OpenBLAS
    poll for work for 30 to 100 ms after a call, and would take a processor from whoever is measured next.
    Returns the seconds after which they slept."""
    start, took = time.perf_counter(), 0.0
    while not took or not asleep() and took < SETTLES:
        time.sleep(QUIET)
        took = time.perf_counter() - start
    time.sleep(max(0.0, least - took))
    return took


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def copy_bandwidth(threads: int, megabytes: int) -> float:
    """Bytes read and written a second when `threads` threads copy one large array into another."""
    import numpy as np

    source = np.ones(megabytes * 125_000)
    target = np.zeros_like(source)
    parts = [slice(i * len(source) // threads, (i + 1) * len(source) // threads) for i in range(threads)]
    times = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(9):
            start = time.perf_counter()
            list(pool.map(lambda part: np.copyto(target[part], source[part]), parts))
            times.append(time.perf_counter() - start)
    return 2 * source.nbytes / statistics.median(times[2:])


def description(threads: int) -> dict[str, Any]:
    return {"processor": processor(), "cpus": len(cpus()), "threads": threads, "versions": versions(),
            "load": os.getloadavg()[0], "command": sys.argv}
