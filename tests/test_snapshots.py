"""Programs that overwrite an array of which they read small parts before: these are copied first, which no
result shows, and the passes over memory become fewer.
"""

from __future__ import annotations

import random
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse.numpy.ops import moving
from diffuse.observe import trace
from diffuse.stream import snapshots
from tests.each import rounds
from tests.outcomes import unwarned
from tests.test_fuzz_stream import same, stream

pytestmark = pytest.mark.local_only("operands are copied where all points share memory")
SETTINGS: dict[str, Any] = dict(window="auto", compile="off", min_chunk=900, small=0)
N = 130


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "MOST", 0)  # operations on ever new views are recorded
    monkeypatch.setattr(snapshots, "TIMES", 3)


def program(lines: list[str], dtype: str) -> Any:
    """A loop of these lines over two arrays, as a function of the library."""
    scope: dict[str, Any] = {}
    exec("\n".join(["def run(np, d, e, turns):", "    kept = []", "    for k, j in turns:",
                    *[f"        {line}" for line in lines], "    return [d, e, *kept]"]), scope)

    def run(np: Any) -> list[Any]:
        values = numpy.random.default_rng(5).integers(-9, 9, (2, N, N)).astype(dtype)
        d, e = [v.copy() if np is numpy else np.array(v) for v in values]
        turns = [(k, (3 * k + 1) % N) for k in (*range(9), 7, 7, 7, 7, *range(N - 4, N))]
        return [numpy.array(x) for x in scope["run"](np, d, e, turns)]

    return run


def check(lines: list[str], dtype: str = "float64", points: int = 3, **chosen: Any) -> int:
    """Compare with NumPy; returns how many operands were copied."""
    run = program(lines, dtype)
    with unwarned():
        expected = run(numpy)
        before = trace.counters["snapshots"]
        with stream(points, **{**SETTINGS, **chosen}):
            found = run(diffuse.numpy)
    problem = same(expected, found)
    assert not problem, f"{problem}\n" + "\n".join(lines)
    return trace.counters["snapshots"] - before


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("lines, copied", [
    (["d[:] = np.minimum(d, d[:, k, None] + d[k])"], True),
    (["d[:] = np.minimum(d, d[:, 7, None] + d[j])"], True),
    (["d[...] = d - d[k]"], True),
    (["t = d[::-1, k, None] * d[j]", "d -= t"], True),
    (["d[:] = np.maximum(d, d[k, ::-1] - e)", "e[:] = e + d[:, j:j + 1]"], True),
    (["d[:] = d * 2 - d[k, j]"], False),  # one element
    (["d[:] = e - d[k]"], True),
    (["d[k] = d[k - 9] + 1"], False),  # no operand is repeated
    (["t = d + d[k]", "e[:] = t"], False),  # another array is overwritten
    (["t = d + d[k]", "d[:] = t[::-1]"], False),  # all of it is read elsewhere
    (["d[k] = 1", "d[:] = d + d[k]"], True),
    (["t = e[:, k, None] + e[j]", "e[:, k] = 3", "kept.append(t)"], None),
])
def test_operands_are_copied_where_that_saves_a_pass(lines: list[str], copied: bool | None, checked: bool
                                                     ) -> None:
    found = check(lines, check=checked)
    assert copied is None or copied == (found > 0)


def test_an_assignment_in_place_is_one_launch() -> None:
    """Each turn launches the copies of a row and of a column, and one pass over the array."""
    with stream(3, **SETTINGS):
        d = diffuse.numpy.array(numpy.random.default_rng(1).random((N, N)))
        for k in range(N):
            if k == N - 10:
                float(d[0, 0])
                before = trace.counters["launched"]
            d[:] = diffuse.numpy.minimum(d, d[:, k, None] + d[k])
        float(d[0, 0])
        assert trace.counters["launched"] - before == 20


def test_copies_end_where_the_program_overwrites_nothing_any_more() -> None:
    def less(x: Any, k: int) -> Any:
        return x - x[k]

    with stream(3, **SETTINGS):
        d = diffuse.numpy.array(numpy.random.default_rng(1).integers(-9, 9, (N, N)).astype(float))
        expected = numpy.array(d)
        before = trace.counters["snapshots"]
        for k in range(10):
            d[:] = less(d, k)
            expected[:] = less(expected, k)
        learned = trace.counters["snapshots"] - before
        assert learned > 3
        for k in range(10):
            assert (numpy.array(less(d, k)) == less(expected, k)).all()
        assert trace.counters["snapshots"] - before == learned + 3


class Random:
    """Random statements on parts of two arrays."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.dtype = self.pick.choice(["float64", "float64", "float32", "int64", "complex64", "bool"])
        self.points = self.pick.choice([1, 2, 3, 4])
        self.lines = [line for _ in range(self.pick.randint(1, 5)) for line in self.statement()]

    def part(self) -> str:
        return self.pick.choice("de") + self.pick.choice([
            "[k]", "[:, k, None]", "[j, ::-1]", "[::-1, j, None]", "[:, k:k + 1]", "[-k - 1]", "[5]",
            "[:, :1]", "[None, j]", "", "", ".T", "[k, j]", "[:, :]", "[j:j + 1, :]"])

    def value(self) -> str:
        pick = self.pick
        plus = pick.choice({"bool": "&|^", "complex64": "+-"}.get(self.dtype, "+-*"))
        if self.dtype in ("float64", "float32", "int64") and pick.random() < 0.3:
            return f"np.minimum({self.part()}, {self.part()})"
        return f"({self.part()}) {plus} {self.part()}"

    def statement(self) -> list[str]:
        pick, target = self.pick, self.pick.choice("de")
        place = pick.choice(["[:]", "[:]", "[...]", "[k:]", "[:, j]", "[k]", "[::2]"])
        value = self.value()
        kind = pick.randrange(5)
        if kind == 0:
            return [f"t = np.broadcast_to({value}, d.shape) + {pick.choice('de')}", f"{target}[:] = t"]
        if kind == 1:
            chosen = "t" if self.dtype == "bool" else f"np.where(t > {self.part()}, t, e)"
            return [f"t = np.broadcast_to({value}, d.shape)", f"{target}[:] = {chosen}"]
        if kind == 2:
            return [f"{target} {pick.choice('|^' if self.dtype == 'bool' else '+-')}= {value}"]
        if kind == 3:
            return [f"{target}{place} = np.broadcast_to({value}, d.shape){place}",
                    f"kept.append({self.value()})"][:pick.randint(1, 2)]
        return [f"{target}[:] = {value}"]


@pytest.mark.parametrize("first", range(0, 36, 12))
def test_random_programs(first: int) -> None:
    copied = 0
    for seed in range(first, first + 12):
        made = Random(seed)
        copied += check(made.lines, made.dtype, made.points, check=seed % rounds(12, 4) == 0)
    assert copied > 0
