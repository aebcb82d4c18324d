"""Random programs of two fused tasks that run as one pass over rows agree with NumPy bit for bit."""

from __future__ import annotations

import random
from typing import Any

import numpy
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import diffuse.numpy
from diffuse.stream import engine
from tests.each import rounds
from tests.test_pipeline import Program, data, pipelined, points  # noqa: F401 (a fixture)


class Sweeps:
    """A random program: arrays made row by row, then written back with a shift, a few turns long."""

    def __init__(self, seed: int) -> None:
        pick = self.pick = random.Random(seed)
        self.rows, self.columns = pick.randint(24, 140), pick.randint(6, 40)
        self.dtype = pick.choice(["float64", "float64", "float32", "int64", "complex128", "int8"])
        self.lines: list[str] = []
        for turn in range(pick.randint(1, 3)):
            self.turn(turn)
            if pick.random() < 0.2:
                self.lines.append("flush()")
            if pick.random() < 0.15:
                self.lines.append("total.append(p.max(axis=0))")

    def turn(self, turn: int) -> None:
        pick = self.pick
        self.margins = tuple(pick.choice((0, 0, 1, 1, 2, 3)) for _ in range(2)), \
            tuple(pick.choice((0, 1, 1, 2)) for _ in range(2))
        made = []
        for k in range(pick.randint(1, 3)):
            name = f"t{k}"
            self.lines.append(f"{name} = {self.source()}")
            made.append(name)
            if pick.random() < 0.15:
                self.lines.append(f"{name} *= 3")
            if pick.random() < 0.1:
                self.lines.append(f"{name}[:, 1:3] = {pick.choice('pqs')}[:, 2:4]")
            if pick.random() < 0.1:
                self.lines.append(f"{name}[3:-4] += 1")
        for _ in range(pick.randint(1, 3)):
            self.lines.append(self.written(pick.choice("ppq"), made))
            if pick.random() < 0.4:
                self.lines.append(self.border(made))
        gone = [name for name in made if pick.random() < 0.85]
        if gone:
            self.lines.append("del " + ", ".join(gone))

    def source(self) -> str:
        pick = self.pick
        a, b = pick.choice("pqs"), pick.choice("pqs")
        shifted = f"roll2({a}, {pick.randint(0, 2)})"
        return pick.choice([f"{a}.copy()", f"{a} * 2", f"{a} + {b}", f"{a} - {b} * 3", f"{a} + {shifted}",
                            f"{shifted} + {b}", f"{a}[::-1] + {b}", f"{a} + {b}[2]", f"{a} * {b}[:, 1:2]"])

    def slices(self, name: str, shift: tuple[int, ...]) -> str:
        parts = []
        for (low, high), n, d in zip(self.margins, (self.rows, self.columns), shift, strict=True):
            parts.append(f"{low + d}:{n - high + d}")
        return f"{name}[{', '.join(parts)}]"

    def written(self, target: str, made: list[str]) -> str:
        pick = self.pick
        terms = []
        for _ in range(pick.randint(1, 4)):
            shift = tuple(pick.randint(-low, high) for low, high in self.margins)
            name = pick.choice([*made, *made, *made, pick.choice("pqs")])
            terms.append(self.slices(name, shift) + pick.choice(["", " * 2"]))
        operator = pick.choice(["=", "=", "=", "+=", "-=", "*="])
        return f"{self.slices(target, (0, 0))} {operator} {' + '.join(terms)}"

    def border(self, made: list[str]) -> str:
        pick = self.pick
        (low, high), _ = self.margins
        rows, t, column = f"{low}:{self.rows - high}", pick.choice(made), pick.randrange(self.columns)
        return pick.choice([
            "p[:, 0] = 7", "p[0, :] = p[1, :]", "q[:, -1] += 1", f"p[{rows}, 0] = {t}[{rows}, {column}]",
            f"p[{rows}, {column}] = q[{rows}, 2]", f"q[{rows}, 1] *= 2", f"p[{rows}, 0] = p[{rows}, 1]",
            f"q[-1] = {t}[-1]", f"p[::2, 1] = {t}[::2, 0]", f"s[:] = {t}", f"s[{rows}] += {t}[{rows}]"])

    def __call__(self, np: Any, p: Any, q: Any, s: Any) -> list[Any]:
        def roll2(a: Any, k: int) -> Any:
            return a if not k else np.concatenate([a[k:], a[:k]])

        def flush() -> None:
            if np is diffuse.numpy:
                engine.flush()

        scope = {"p": p, "q": q, "s": s, "flush": flush, "roll2": roll2, "total": []}
        exec("\n".join(self.lines), scope)
        kept = [scope[name] for name in ("t0", "t1", "t2") if name in scope]
        return [p, q, s, *kept, *scope["total"]]


def sweep(seed: int) -> int:
    """One random program; its text goes with a failure."""
    program = Sweeps(seed)
    arrays = [data(program.rows, program.columns, program.dtype, k) for k in range(3)]
    try:
        with numpy.errstate(all="ignore"):
            return pipelined(program, *arrays)
    except AssertionError as error:
        error.add_note("\n".join([f"seed {seed}: {program.rows} x {program.columns} {program.dtype}",
                                  *program.lines]))
        raise


def test_random_sweeps_agree_with_numpy() -> None:
    taken = 0

    @hypothesis_settings(max_examples=rounds(30, 60), deadline=None, derandomize=True, database=None)
    @given(st.integers(0, 10**9))
    def programs(seed: int) -> None:
        nonlocal taken
        taken += sweep(seed)

    programs()
    assert taken > rounds(5, 10)
