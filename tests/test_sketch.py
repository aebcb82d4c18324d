"""Loops whose arrays change their extents: what a sketch finds is what the full analysis decides.

Programs run twice, with sketches and without: all launches must be the same, down to the words of their
blocks, and the results NumPy's.  Under DIFFUSE_CHECK each row of a sketch is compared with the canonical row.
"""

from __future__ import annotations

import random
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse.ir import ONE
from diffuse.numpy.ops import moving
from diffuse.numpy.small import native
from diffuse.stream import admission, cuts, sketch
from diffuse.stream.replay import Replay
from tests.each import rounds
from tests.outcomes import unwarned
from tests.test_fuzz_stream import same, stream

pytestmark = pytest.mark.local_only("other runtimes lay out their launches anew")
ROWS, COLUMNS = 640, 150


class Changing:
    """A random program: a loop whose turns take other parts of a few arrays."""

    def __init__(self, seed: int) -> None:
        pick = self.pick = random.Random(seed)
        self.dtype = pick.choice(["float64", "float64", "float32", "int64", "complex128"])
        self.names = ["a", "b"]
        self.lines = [f"    {line}" for _ in range(pick.randint(4, 12)) for line in self.statement()]
        self.turns = self.extents(pick)

    def extents(self, pick: random.Random) -> list[tuple[int, ...]]:
        """For each turn a first row, the rows, a first column, the columns, and a step."""
        rows, columns, k = pick.randint(300, 500), pick.randint(129, 140), pick.randint(0, 9)
        fixed = pick.random() < 0.3
        turns: list[tuple[int, ...]] = []
        for turn in range(pick.randint(5, 9)):
            n = pick.choice([rows - 7 * turn, rows + 3 * turn, rows, pick.randint(129, 600)])
            m = columns if fixed else pick.choice([columns - turn, columns + turn, columns])
            if pick.random() < 0.1:
                n = pick.choice([0, 1, 2, 30, 128])
            if pick.random() < 0.1:
                m = pick.choice([0, 1, 2, 3, 4, 8, 31])
            if pick.random() < 0.1:
                turns.append((0, ROWS, 0, COLUMNS, 1))
            turns.append((pick.choice([k, k + turn, 0]), n, pick.choice([0, turn, 1]), m,
                          pick.choice([1, 1, 2, 4])))
        return turns

    def part(self) -> str:
        """A part of an array of n rows and m columns."""
        return self.pick.choice(self.names) + self.pick.choice([
            "[k:k + n, j:j + m]", "[:n, :m]", "[k + 1:k + n + 1, j:j + m]", "[k:k + n, j + 1:j + m + 1]",
            "[:n, j, None]", "[k, j:j + m]", "[k + n:k:-1, :m]"])

    def operand(self) -> str:
        pick = self.pick
        return pick.choice([self.part(), self.part(), "x", "y", "x", "2", "x[:, :1]", "x[-1:]", "y[:, ::-1]",
                            "x.real", "x.sum(axis=0)", "y.max(axis=0)", "x.min(axis=1, keepdims=True)"])

    def statement(self) -> list[str]:
        pick = self.pick
        target = pick.choice("xyxyz")
        kind = pick.randrange(13)
        if kind <= 4:
            value = pick.choice([f"{self.operand()} + {self.part()}", f"x * 0.5 - {self.operand()}",
                                 f"np.where(x > {self.operand()}, y, x)",
                                 f"np.minimum(x, y) + {self.operand()}", "y + np.abs(x)",
                                 f"{self.part()} * {self.operand()}"])
            return [f"{target} = np.broadcast_to({value}, (n, m)) + 0"]
        if kind == 5:
            return [f"{pick.choice('xy')} {pick.choice(['+=', '-='])} 2"]
        if kind == 6:
            name = pick.choice(self.names)
            operand = pick.choice(["x", "y", "1", "x[:, :1]"])
            return [f"{name}[k:k + n, j:j + m] {pick.choice(['=', '+='])} {operand}"]
        if kind == 7:
            return [pick.choice(["x[1:] = y[:-1]", "x[:, 0] = 1", "x[:-1, 1:] += y[1:, :-1]", 
                                 "y[:] = x[::-1]", f"{pick.choice(self.names)}[:n] = 3"])]
        if kind == 8:
            fold = pick.choice(["x.sum(axis=0)", "y.max(axis=1)", "(x > 1).sum()", "x.argmax()"])
            return [f"keep.append({fold})" if self.dtype != "complex128" else "keep.append(x.sum(axis=0))"]
        if kind == 9:
            return ["keep.append((x > 0)[:, 0])", "keep.append(x[x[:, 0] > 1][:5] + 0)"][:pick.randint(1, 2)]
        if kind == 12:  # parts that meet in some turns, and are apart in others
            name = pick.choice(self.names)
            part = pick.choice(["[:n, 13 * j:13 * j + 40]", "[13 * k:13 * k + 60, :m]", "[60:0:-1, :m]",
                                "[:n:s]", "[:n, :40:s]"])
            return [f"{name}[:n, :40] = 2", f"keep.append({name}{part} * 3)", f"{name}[:60, :m] += 1",
                    f"keep.append({name}{part} - 1)"]
        if kind == 10:
            return [f"w = np.arange({pick.choice('nm')}) * 2", "keep.append(w + 1)"]
        return [f"keep.append({pick.choice(['x', 'y'])} * 1)"]

    def run(self, np: Any) -> list[Any]:
        values = numpy.random.default_rng(3).integers(-9, 9, (2, ROWS, COLUMNS)).astype(self.dtype)
        scope: dict[str, Any] = {"np": np, "keep": [],
                                 **{k: v.copy() if np is numpy else np.array(v)
                                    for k, v in zip("ab", values, strict=True)}}
        last: list[Any] = []
        try:
            exec(str(self), scope)
        except Exception as error:  # NumPy refuses the same
            last = [numpy.frombuffer(type(error).__name__.encode(), "uint8")]
        return [numpy.array(x) for x in [*scope["keep"], scope["a"], scope["b"]]] + last

    def __str__(self) -> str:
        return "\n".join([f"for k, n, j, m, s in {self.turns}:  # {self.dtype}",
                          "    x, y = a[:n, :m] + 0, b[k:k + n, :m] * 1", *self.lines])


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "MOST", 0)  # operations on ever new views are recorded
    monkeypatch.setattr(cuts, "MOST", 0)  # small tasks count as large ones


@pytest.fixture()
def launches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is launched: all that a replay has, but for addresses and numbers."""
    found: list[Any] = []
    values = Replay.values

    def noted(self: Replay, *arguments: Any) -> Any:
        plan = self.plan
        found.append((plan.operations, plan.composition.body, plan.loops, plan.vanished, plan.donations,
                      self.points, self.pieces, self.partials, self.used, self.shared, self.work,
                      self._fixed, self._fine))
        return values(self, *arguments)

    monkeypatch.setattr(Replay, "values", noted)
    return found


SETTINGS = dict(window="auto", compile="off", min_chunk=900, small=0)


def ran(program: Changing, **chosen: Any) -> list[Any]:
    with unwarned():
        with stream(**{**SETTINGS, "points": 3, **chosen}):
            return program.run(diffuse.numpy)


@pytest.mark.parametrize("first", range(0, rounds(20, 40), 10))
def test_sketches_launch_what_the_full_analysis_does(first: int, launches: list[Any],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(first, first + 10):
        program = Changing(seed)
        with unwarned():
            expected = program.run(numpy)
        launches.clear()
        with monkeypatch.context() as patch:
            patch.setattr(admission, "sketched", lambda *_: (None, ONE))
            problem = same(expected, ran(program))
            assert not problem, f"unsketched, seed {seed}: {problem}\n{program}"
        analysed = launches.copy()
        launches.clear()
        problem = same(expected, ran(program))
        assert not problem, f"seed {seed}: {problem}\n{program}"
        assert launches == analysed, f"seed {seed}\n{program}"


@pytest.mark.parametrize("first", range(100, rounds(120, 140), 10))
def test_the_rows_of_sketches_say_what_canonical_rows_do(first: int) -> None:
    for seed in range(first, first + 10):
        program = Changing(seed)
        with unwarned():
            expected = program.run(numpy)
        chunk = random.Random(seed).choice([900, 20_000])
        problem = same(expected, ran(program, check=True, min_chunk=chunk))
        assert not problem, f"seed {seed}: {problem}\n{program}"


def test_rows_of_sketches_are_made_where_a_prefix_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first extents are analysed alone, the second make rows, the third are found by them."""
    numbered = admission._numbered
    calls = {"sketched": 0, "numbered": 0}

    def count_sketched(*arguments: Any) -> Any:
        calls["sketched"] += 1
        return sketch.sketched(*arguments)

    def count_numbered(*arguments: Any) -> Any:
        calls["numbered"] += 1
        return numbered(*arguments)

    monkeypatch.setattr(admission, "sketched", count_sketched)
    monkeypatch.setattr(admission, "_numbered", count_numbered)
    seen = []
    settings: dict[str, Any] = {**SETTINGS, "points": 3}
    with stream(**settings):
        a = diffuse.numpy.ones((ROWS, COLUMNS))
        float(a.sum())
        for rows in (400, 411, 422):
            calls.update(sketched=0, numbered=0)
            part = a[:rows]
            result = (part * 2.0 + part).sum()
            assert float(result) == 3.0 * rows * COLUMNS
            seen.append((calls["sketched"], calls["numbered"]))
    tasks = seen[0][1]
    assert tasks >= 3
    assert seen == [(0, tasks), (tasks, tasks), (tasks, 0)]


@pytest.mark.skipif(native is None, reason="there is no compiled code to compare with")
def test_compiled_rows_are_those_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def both(row: list[Any], slots: dict[int, sketch.Slot], *arguments: Any) -> bool:
        nonlocal compared
        mine, places = list(row), {number: (list(views), dict(written))
                                   for number, (views, written) in slots.items()}
        said = native.uses_of(row, slots, *arguments)
        assert sketch.uses_of(mine, places, *arguments) == said
        assert not said or (mine, list(places.items())) == (row, list(slots.items()))
        compared += said
        return bool(said)

    monkeypatch.setattr(sketch, "finder", both)
    for seed in range(200, 220):
        ran(Changing(seed), points=seed % 4 + 1)
    assert compared > 1000


@pytest.mark.skipif(native is None, reason="there is no compiled code to compare with")
def test_compiled_rows_refuse_other_arguments() -> None:
    wrong: list[tuple[Any, ...]] = [(), ([], {}, (), [1], (), (1,), False), ([], {}, (), (), (), (1,), False)]
    for arguments in wrong:
        with pytest.raises(TypeError, match="uses_of: expected"):
            native.uses_of(*arguments)
