"""What the machine has for a process: processors, quotas, memory and caches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from diffuse import settings
from diffuse.runtime import machine


def files(root: Path, **contents: str) -> str:
    """A root directory with these files; `__` in a name stands for a slash."""
    for name, text in contents.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


V2 = "0::/user/job\n"
V1 = "5:cpu,cpuacct:/job\n4:memory:/job\n0::/\n"


@pytest.mark.parametrize("contents, quota", [
    ({}, None),
    ({"proc__self__cgroup": V2}, None),
    ({"proc__self__cgroup": V2, "sys__fs__cgroup__user__job__cpu_dot_max": "max 100000\n"}, None),
    ({"proc__self__cgroup": V2, "sys__fs__cgroup__user__job__cpu_dot_max": "150000 100000\n"}, 1.5),
    ({"proc__self__cgroup": V2, "sys__fs__cgroup__user__job__cpu_dot_max": "400000 100000\n",
      "sys__fs__cgroup__user__cpu_dot_max": "50000 100000\n"}, 0.5),      # a parent's quota binds too
    ({"proc__self__cgroup": "0::/on/the/host\n", "sys__fs__cgroup__cpu_dot_max": "200000 100000"}, 2.0),
    ({"proc__self__cgroup": V2, "sys__fs__cgroup__user__job__cpu_dot_max": "garbage"}, None),
    ({"proc__self__cgroup": V1, "sys__fs__cgroup__cpu,cpuacct__job__cpu_dot_cfs_quota_us": "-1\n",
      "sys__fs__cgroup__cpu,cpuacct__job__cpu_dot_cfs_period_us": "100000\n"}, None),
    ({"proc__self__cgroup": V1, "sys__fs__cgroup__cpu,cpuacct__job__cpu_dot_cfs_quota_us": "250000\n",
      "sys__fs__cgroup__cpu,cpuacct__job__cpu_dot_cfs_period_us": "100000\n"}, 2.5),
    ({"proc__self__cgroup": V1, "sys__fs__cgroup__cpu__cpu_dot_cfs_quota_us": "50000\n",
      "sys__fs__cgroup__cpu__cpu_dot_cfs_period_us": "100000\n"}, 0.5),
])
def test_cpu_quota(tmp_path: Path, contents: dict[str, str], quota: float | None) -> None:
    root = files(tmp_path, **contents)
    assert machine.cpu_quota(root) == quota
    if quota is not None and quota <= 1:
        assert machine.processors(root) == 1


def test_bound_ranks_share_what_the_quota_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3}, raising=False)
    assert machine.together(str(tmp_path / "none")) == 8
    root = files(tmp_path, proc__self__cgroup=V2, sys__fs__cgroup__user__job__cpu_dot_max="250000 100000\n")
    assert (machine.together(root), machine.processors(root)) == (3, 1)


@pytest.mark.parametrize("contents, available", [
    ({"proc__meminfo": "MemTotal: 900 kB\nMemAvailable: 100 kB\nSwapFree: 20 kB\n"}, 120 << 10),
    ({"proc__meminfo": "MemAvailable: 100 kB\n", "proc__self__cgroup": V2,
      "sys__fs__cgroup__user__job__memory_dot_max": "50000\n",
      "sys__fs__cgroup__user__job__memory_dot_current": "30000\n",
      "sys__fs__cgroup__user__job__memory_dot_stat": "anon 25000\ninactive_file 5000\n"}, 25000),
    ({"proc__meminfo": "MemAvailable: 100 kB\n", "proc__self__cgroup": V2,
      "sys__fs__cgroup__user__job__memory_dot_max": "max\n",
      "sys__fs__cgroup__user__job__memory_dot_current": "30000\n"}, 100 << 10),
    ({"proc__meminfo": "MemAvailable: 100 kB\n", "proc__self__cgroup": V1,
      "sys__fs__cgroup__memory__job__memory_dot_limit_in_bytes": "50000\n",
      "sys__fs__cgroup__memory__job__memory_dot_usage_in_bytes": "60000\n"}, 0),
])
def test_memory_available(tmp_path: Path, contents: dict[str, str], available: int) -> None:
    assert machine.memory_available(files(tmp_path, **contents)) == available


def test_threads_are_the_setting_or_the_processors(tmp_path: Path) -> None:
    root = files(tmp_path, proc__self__cgroup=V2, sys__fs__cgroup__user__job__cpu_dot_max="50000 100000")
    with settings.using(threads="auto"):
        assert machine.threads(root) == 1
        assert 1 <= machine.threads() <= len(os.sched_getaffinity(0))
    with settings.using(threads=3):
        assert machine.threads(root) == 3


@pytest.mark.parametrize("value", ["0", "-2", "two", "1.5", ""])
def test_a_wrong_number_of_threads_names_value_and_rule(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIFFUSE_NUM_THREADS", value)
    monkeypatch.setattr(settings, "config", settings.Config())
    with pytest.raises(ValueError, match=rf"DIFFUSE_NUM_THREADS={value!r}: expected auto or a whole number"):
        machine.threads()


def test_cache_sizes_come_from_the_machine_or_have_defaults(tmp_path: Path) -> None:
    cache = "sys__devices__system__cpu__cpu0__cache__index2__"
    root = files(tmp_path, **{cache + "level": "2\n", cache + "type": "Unified\n", cache + "size": "512K\n"})
    assert machine.cache_bytes(2, root) == 512 << 10
    assert machine.cache_bytes(1, root) == machine.CACHES[1]


@pytest.mark.parametrize("shared, share", [("0-1\n", 48 << 20), ("0-3,8\n", 120 << 20), ("", 480 << 20),
                                           ("0-63\n", 480 << 20)])
def test_few_processors_count_on_a_part_of_a_large_cache(tmp_path: Path, shared: str, share: int) -> None:
    """A virtual machine of two processors is told that its host has 480 MB."""
    cache = "sys__devices__system__cpu__cpu0__cache__index3__"
    root = files(tmp_path, **{cache + "level": "3\n", cache + "type": "Unified\n",
                              cache + "size": "491520K\n", cache + "shared_cpu_list": shared})
    assert machine.cache_share(root) == share


def test_describe_has_what_info_prints() -> None:
    described = machine.describe()
    assert described["threads"] == machine.threads()
    assert {"processor", "system", "processors", "memory available", "caches", "cpu quota"} <= set(described)
