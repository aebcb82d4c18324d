"""The model of the machine: measured once, kept in the cache folder, and what plans count with."""

from __future__ import annotations

import json
import os
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from diffuse.movement.agreed import machine as agreed
from diffuse.movement.machine import FILE, Machine, keep, measured, of_numbers
from tests.jobs import TINY
from tests.jobs import diffuse as command

SOME = Machine(1e-6, 2e9, 3e9, 4e9, 5e9, 6e9, ((4, 1e-7, 2e10), (16, 2e-7, 1e10)))


def test_a_machine_is_kept(tmp_path: Path) -> None:
    assert measured(tmp_path) is None
    assert keep(SOME, tmp_path) == tmp_path / FILE
    assert measured(tmp_path) == SOME and of_numbers(SOME.numbers()) == SOME
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_two_processes_of_one_number_in_two_containers_keep_machines(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = os.replace

    def meanwhile(draft: Path, target: Path) -> None:
        monkeypatch.setattr(os, "replace", replaced)
        keep(SOME, tmp_path)  # the other one
        replaced(draft, target)

    monkeypatch.setattr(os, "replace", meanwhile)
    keep(SOME, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"latency": "x"}', "null"])
def test_a_damaged_file_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert measured(tmp_path) is None


@pytest.mark.parametrize("wrong", [-1.0, 0.0, float("inf"), float("nan")])
def test_numbers_that_no_machine_has(tmp_path: Path, wrong: float) -> None:
    keep(replace(SOME, bandwidth=wrong), tmp_path)
    assert measured(tmp_path) is None


def test_levels() -> None:
    assert SOME.over(3).latency == 1e-7 and SOME.over(16).bandwidth == 1e10
    assert SOME.over(17) is SOME


class Ranks:
    """Ranks of which each has a machine of its own, or none, and that add up numbers."""

    def __init__(self, others: list[list[float]]) -> None:
        self.others, self.asked = others, 0

    def over_ranks(self, number: int) -> int:
        return number * (1 + len(self.others))


def test_ranks_plan_by_one_machine(tmp_path: Path) -> None:
    from diffuse import settings

    with settings.using(cache_dir=str(tmp_path)):
        assert agreed(Ranks([])) == Machine()
        keep(SOME, tmp_path)
        found = agreed(Ranks([[], []]))
    assert found.levels == SOME.levels
    assert found.numbers() == pytest.approx(SOME.numbers(), rel=1e-5)


def test_information(tmp_path: Path) -> None:
    said: dict[str, Any] = {"DIFFUSE_CACHE_DIR": str(tmp_path)}
    before = json.loads(command("info", "--json", **said).stdout)["plans"]["machine"]
    keep(SOME, tmp_path)
    after = json.loads(command("info", "--json", **said).stdout)["plans"]
    assert before.startswith("not measured (diffuse machine does that)")
    assert after["machine"] == f"measured, {tmp_path}/{FILE}" and after["a message"] == "1.0 us and 2.00 GB/s"


STENCIL = """
    import numpy as np
    import diffuse

    n = 514
    u, region = np.arange(n * n * 1.0).reshape(n, n) % 7.0, diffuse.plan()
    for _ in range(6):
        with region:
            v = u[1:-1, 1:-1] + u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
            u[1:-1, 1:-1] = v * 0.2
    print(str(region).split(": ", 1)[1].split(",")[0])
"""


@pytest.mark.parametrize("latency, grid", [(1e-9, "i:4 j:4"), (1e-3, ":16")])
def test_plans_count_messages(tmp_path: Path, latency: float, grid: str) -> None:
    """Where messages cost nothing a stencil goes by blocks, which have the shorter borders; where they are
    all that costs it goes by lines, which have fewer neighbours."""
    keep(replace(SOME, latency=latency, levels=()), tmp_path)
    program = tmp_path / "x.py"
    program.write_text(textwrap.dedent(STENCIL))
    done = command("run", "--predict", "16", str(program), DIFFUSE_CACHE_DIR=str(tmp_path), **TINY)
    assert done.returncode == 0, done.tail
    assert grid in done.stdout, done.stdout


@pytest.mark.parametrize("latency", [1e-9, 1e-3])
def test_the_stream_counts_messages(tmp_path: Path, latency: float) -> None:
    """Outside of regions a stencil goes by blocks or by lines for the same reasons."""
    keep(replace(SOME, latency=latency, levels=()), tmp_path)
    program, lines = tmp_path / "x.py", textwrap.dedent(STENCIL).splitlines()
    program.write_text("\n".join(lines[:-1]).replace("with region:", "if True:"))
    done = command("run", "--predict", "16", str(program), DIFFUSE_CACHE_DIR=str(tmp_path), DIFFUSE_TRACE="1",
                   **TINY)
    assert done.returncode == 0, done.tail
    assert ("are cut into 4x4 tiles" in done.stderr) == (latency < 1e-6), done.stderr[-3000:]


@pytest.mark.ranks("mpi")
def test_the_machine_is_measured_on_ranks(tmp_path: Path) -> None:
    done = command("machine", "--ranks", "2", DIFFUSE_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.tail
    assert "the machine as 2 ranks see it" in done.stdout
    found = measured(tmp_path)
    assert found is not None and found.levels == () and min(found.numbers()) > 0.0


def test_one_rank_has_no_messages(tmp_path: Path) -> None:
    done = command("machine", "--launcher", "none", DIFFUSE_CACHE_DIR=str(tmp_path))
    assert done.returncode == 2 and "at least two ranks" in done.stderr
