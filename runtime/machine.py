"""The resources that this process may use: processors, memory and caches, from kernel files and cgroups.

Every function that reads kernel files takes the `root` under which they lie.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from diffuse import settings
from diffuse.interrupts import suppress

CACHES = {1: 32 << 10, 2: 1 << 20, 3: 16 << 20}
"""Sizes assumed for the data caches where the system does not tell them."""

MOST_SHARE = 24 << 20
"""Bytes of the last-level cache, at most, for each processor that shares it: measured on a virtual machine
of two processors whose host has 480 MB.  Loops over 140 MB find most of them in the cache there, but not what
was written 10 ms earlier, as other machines of the host use it, too."""


def threads(root: str = "/") -> int:
    """Threads that compute: the setting, or the processors that this process may use."""
    asked = settings.config.threads
    return asked if isinstance(asked, int) else processors(root)


def processors(root: str = "/") -> int:
    """Processors that affinity and the cgroup's quota leave to this process."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _within_quota(allowed, root)


def together(root: str = "/") -> int:
    """Processors that the cgroup's quota leaves to all ranks of this machine, each of which may be bound to a
    few of them."""
    return _within_quota(os.cpu_count() or 1, root)


def _within_quota(count: int, root: str) -> int:
    """So many processors, or those that the cgroup's quota pays for, if these are fewer; at least one."""
    quota = cpu_quota(root)
    return count if quota is None else max(1, min(count, math.ceil(quota)))


def cores(root: str = "/") -> int:
    """Cores of the machine if this process may use all of its processors, else 0; processors that are
    threads of one core count once."""
    folders = [path for path in Path(root, "sys/devices/system/cpu").glob("cpu[0-9]*") if
               (path / "topology").is_dir()]
    if not folders or processors(root) < len(folders):
        return 0
    return len({(_read(path / "topology/physical_package_id"), _read(path / "topology/core_id"))
                for path in folders})


def cpu_quota(root: str = "/") -> float | None:
    """The cgroups' quota of processor time, in processors; None if there is none."""
    quotas = []
    for version, folder in _groups(root, "cpu"):
        if version == 2:
            words = _read(folder / "cpu.max").split()
            if len(words) == 2 and words[0] != "max":
                quotas.append(int(words[0]) / int(words[1]))
        else:
            time, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
            if time and time > 0 and period:
                quotas.append(time / period)
    return min(quotas, default=None)


def memory_available(root: str = "/") -> int:
    """Bytes that can still be touched before the out-of-memory killer of the system or of a cgroup acts."""
    free = 0
    for line in _read(Path(root, "proc/meminfo")).splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemAvailable", "SwapFree"):
            free += int(rest.split()[0]) << 10
    rooms = [free] if free else [1 << 62]
    for version, folder in _groups(root, "memory"):
        names = (("memory.max", "memory.current", "inactive_file ") if version == 2 else
                 ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "))
        limit, used = _number(folder / names[0]), _number(folder / names[1])
        if limit is not None and used is not None and limit < 1 << 60:
            # the page cache counts as used, but goes first
            cached = next((int(line.split()[1]) for line in _read(folder / "memory.stat").splitlines()
                           if line.startswith(names[2])), 0)
            rooms.append(max(0, limit - used + cached))
    return min(rooms)


def memory_total(root: str = "/") -> int:
    """Bytes of memory of the machine, or of the cgroup's limit, whatever else runs."""
    limits = [_number(folder / ("memory.max" if version == 2 else "memory.limit_in_bytes"))
              for version, folder in _groups(root, "memory")]
    return min([os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), *(n for n in limits if n)])


@cache
def cache_share(root: str = "/") -> int:
    """The bytes of the last-level cache that this system's processors can expect to fill.

    A virtual machine is told the size of the whole cache, most of which the host's other processors fill.
    """
    listed = _read(Path(root, "sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list")).strip()
    size = cache_bytes(3, root)
    return min(size, MOST_SHARE * _listed(listed)) if listed else size


@cache
def cache_bytes(level: int, root: str = "/") -> int:
    """The size of a processor's data cache of this level, in bytes."""
    for index in sorted(Path(root, "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if _read(index / "level").strip() == str(level) and _read(index / "type").strip() != "Instruction":
            size = _read(index / "size").strip()
            if size[:-1].isdigit():
                return int(size[:-1]) << {"K": 10, "M": 20, "G": 30}.get(size[-1], 0)
    return CACHES[level]


def _listed(ranges: str) -> int:
    """The number of processors in a list such as 0-3,8."""
    ends = [part.split("-") for part in ranges.split(",")]
    return sum([int(pair[-1]) - int(pair[0]) + 1 for pair in ends])


def describe(root: str = "/") -> dict[str, object]:
    """A description of the machine for `diffuse info`."""
    return {
        "processor": _processor(root),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": processors(root),
        "cpu quota": cpu_quota(root) or "none",
        "threads": threads(root),
        "memory available": memory_available(root),
        "caches": {f"L{level}": cache_bytes(level, root) for level in CACHES},
    }


def _processor(root: str) -> str:
    for line in _read(Path(root, "proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@cache
def _groups(root: str, controller: str) -> tuple[tuple[int, Path], ...]:
    """(version, folder) of the cgroups, innermost first, whose controller limits this process."""
    return tuple((version, folder) for version, folder in _candidates(root, controller) if folder.is_dir())


def _candidates(root: str, controller: str) -> Iterator[tuple[int, Path]]:
    mount = Path(root, "sys/fs/cgroup")
    for line in _read(Path(root, "proc/self/cgroup")).splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            version, top = 2, mount
        elif controller in controllers.split(","):
            version, top = 1, mount / controllers if (mount / controllers).is_dir() else mount / controller
        else:
            continue
        # In a container the path may be the host's, of which only the top is mounted: missing ones drop out.
        inner = [part for part in path.split("/") if part and part != ".."]
        for depth in range(len(inner), -1, -1):
            yield version, top.joinpath(*inner[:depth])


def _read(path: str | Path) -> str:
    with suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:  # asked for at each big allocation: half the price of a file object
            text = b""
            while piece := os.read(file, 1 << 16):
                text += piece
            return text.decode("utf-8", "replace")
        finally:
            os.close(file)
    return ""


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.lstrip("-").isdigit() else None
