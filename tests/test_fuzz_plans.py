"""Loops of the same lines over views that change from turn to turn: does what was decided for the views of
one turn hold for those of the next?

A plan names no views, and is shared by all groups of tasks that look alike.  A program is a few statements
and some turns over square arrays.  Each turn chooses the views of all operands anew (straight, reversed,
transposed, broadcast, overlapping windows of one store, some rows or none), and the numbers.  Both libraries
run the same code objects, and all arrays are compared after most turns.

    python tests/test_fuzz_plans.py 0 1000     the programs of these seeds, on arrays of up to 1500 x 1500
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import diffuse.numpy
from diffuse.settings import using
from diffuse.stream import engine

EDGE = 4
"""The rows and columns of a store beyond those of a window of it."""
VIEWS: dict[str, Callable[[Any], Any]] = {
    "straight": lambda x: x,
    "rows reversed": lambda x: x[::-1],
    "columns reversed": lambda x: x[:, ::-1],
    "both reversed": lambda x: x[::-1, ::-1],
    "transposed": lambda x: x.T,
    "turned": lambda x: x.T[::-1],
    "turned back": lambda x: x.T[:, ::-1],
    "turned over": lambda x: x.T[::-1, ::-1],
}
READ: dict[str, Callable[[Any], Any]] = {
    **VIEWS,
    "first row": lambda x: x[:1],
    "last row": lambda x: x[-1:],
    "column": lambda x: x[:, 1:2],
    "element": lambda x: x[2:3, 1:2],
}
ROWS = (slice(None), slice(None), slice(None, None, -1), slice(1, None), slice(None, -1),
        slice(None, None, 2), slice(None, None, -2), slice(5, 9), slice(0, 0))
WINDOWS: dict[str, Callable[[Any], Any]] = {
    **{f"window {i}, {j}": lambda x, i=i, j=j: x[i:len(x) - EDGE + i, j:len(x) - EDGE + j]  # type: ignore[misc]
       for i, j in ((0, 0), (0, 0), (1, 0), (0, 1), (2, 2), (1, 3), (4, 4))},
    "reversed window": lambda x: x[:EDGE - 1:-1, EDGE:],
    "transposed window": lambda x: x[2:-2, 2:-2].T,
    "window backwards": lambda x: x[2:-2, 2:-2][:, ::-1],
}
STATEMENTS = """
b = V0(a) + V1(b)|b = V0(b) * s|b = V0(V1(a) + r) * s|b = (V0(a) + 1) * s; k = V1(b) - r; del k
c = V0(a) * s - V1(a) * r|c = V0(c) * s + V1(c) * r|c = np.maximum(V0(a), V1(b))|c = V0(c) - V1(c)
c = np.where(V0(a) > V1(b), V2(b), s)|c = np.where(V0(a) > r, V0(a), V1(c))|b = np.minimum(V0(b), V1(b)) + s
c = clip(V0(a) * V1(b))|a = clip(V0(a) * V1(a))|b = clip(V0(c) * V0(c))|c = V0(a + b) - V1(a - b)
W0(w)[...] = V0(a) * s|W0(w)[...] = W1(w) + W2(w)|W0(w)[...] = W1(w) * s - V0(b)|c = W0(w) - W1(w) * s
c = W0(w) + V0(a); b = W1(w) - r|y = W0(w); y += V0(a); del y|y = W0(w); y -= W1(w); del y|w = w * s
y = T0(a); y += V0(b); del y|y = T0(b); y += V0(b); del y|T0(c)[...] = V0(c) * s|T0(c)[...] = T1(a) - V1(b)
np.add(T0(a), V1(b), out=T2(c))|np.subtract(T0(b), V1(a), out=T2(b))|np.maximum(V0(a), T0(c), out=T0(c))
t = V0(a) + r; t = V1(t) * s; b = t - V2(a); del t|t = V0(a) + r; u = T0(t); t = t * s; c = u + t; del t, u
T0(a)[R0] = T1(b)[R0] * s|y = T0(c)[R0] + T1(a)[R0]; keep(y); del y|y = T0(b)[R0]; y *= s; del y
y = T0(b)[R0] + r; y = y[::-1] * s; keep(y); del y|y = T0(a)[R0]; y += T1(a)[R0]; del y
b = V0(a) - T1(b).max(axis=0)|b = V0(a) - T1(b).min(axis=1, keepdims=True)|s = s + 1
t = a; a = b; b = c; c = t; del t|c = b|b = a|c = V0(a) + a|a = T0(a) + 0|t = T0(a); a = b; b = t; del t
c = T0(c); b = b + c|a = a + 1; b = a - T0(b)|a = T0(a).reshape(-1).reshape(a.shape) - r
c = np.broadcast_to(V0(a), a.shape) - r|c[:] = V0(c)|b[:] = V0(a)|t = w * s; c = W0(t) - W1(t); del t
t = w + r; W2(w)[...] = W0(t) + W1(t); del t|t = w - r; W0(w)[...] = W0(t); del t
t = w + r; u = W0(t) - V0(a); W1(w)[...] = u * s; del t, u|b = W0(w) + W1(w); W2(w)[...] = V0(b) - r
""".replace("\n", "|").strip("|").split("|")
SUMS = """
b = V0(a) - T1(b).sum(axis=0)|c = V0(a) + T1(c).sum(axis=1, keepdims=True)
c = T1(np.cumsum(T0(a), axis=0)) * s|c = T1(np.cumsum(T0(b), axis=1)) - r|keep(V0(a).sum())
keep((T0(a) + T1(b)).sum(axis=0))|keep(np.cumsum(T0(b), axis=1))
t = np.cumsum(T0(b), axis=0); b = T1(t) - t; del t|t = T0(a).sum(); b = b - t; keep(t); del t
""".replace("\n", "|").strip("|").split("|")
EPISODES = {
    "the operand dies": "a = T0(a) + r; flush(); a = T1(a) * s; flush()",
    "the temporary dies": "b = T1(np.cumsum(T0(a), axis=1)) * s",
    "windows that overlap": "W0(w)[...] = W1(w) + W2(w); y = W0(w); y += V0(a); del y",
    "windows of a result": "t = w * s; c = W0(t) - W1(t); del t",
    "one store twice": "c = V0(a) * s - V1(a) * r; c = V0(c) * s + V1(c) * r",
    "rows": "T0(a)[R0] = T1(b)[R0] * s; y = T0(b)[R0] + r; y = y[::-1] * s; keep(y); del y",
}
"""The programs of the test suite."""
WAITS = (*[""] * 6, "flush()", "flush()", "a.size and float(a.max())", "c.size and float(c.max())")
SCALARS = (2, 3, -1, 1, 0, -2)


def choose(pick: random.Random, plain: float) -> dict[str, Any]:
    """The views of one turn, with their names."""
    def one(table: dict[str, Callable[[Any], Any]]) -> str:
        return next(iter(table)) if pick.random() < plain else pick.choice(list(table))

    return {f"{letter}{k}": one(table) for letter, table in (("V", READ), ("T", VIEWS), ("W", WINDOWS))
            for k in range(3)} | {"R0": pick.choice(ROWS)}


class Program:
    """A few statements, and both libraries' arrays."""

    def __init__(self, seed: int, sizes: tuple[int, ...], episode: str = "") -> None:
        self.seed, self.pick = seed, random.Random(seed)
        pick = self.pick
        self.dtype = pick.choice(("float64", "float64", "float64", "float32", "int64", "int32"))
        self.whole = episode != "" or (pick.random() < 0.5 and self.dtype != "float32")
        """Are all elements whole numbers, so that no order of a sum is rounded?"""
        table = STATEMENTS + SUMS * 3 if self.whole else STATEMENTS
        self.lines = [episode] if episode else [pick.choice(table) for _ in range(pick.randint(1, 5))]
        self.waits = [pick.choice(WAITS) for _ in self.lines]
        self.kept = pick.random() < 0.5
        """Do the arrays of the beginning live on?"""
        self.sizes = [pick.choice(sizes) for _ in range(pick.choice((1, 1, 2)))]
        self.code = [compile(line, f"<program {seed}, line {k}>", "exec")
                     for k, line in enumerate(self.lines)]
        self.wait = {text: compile(text, f"<wait {text}>", "exec") for text in WAITS}
        self.spaces: list[dict[str, Any]] = []
        self.found: list[list[Any]] = []

    def start(self, n: int) -> None:
        """Make the arrays anew."""
        values = numpy.random.default_rng(self.pick.randrange(1 << 30))
        shapes = [(n, n)] * 3 + [(n + EDGE, n + EDGE)]
        arrays = [values.integers(-4, 5, shape).astype(self.dtype) if self.whole or self.dtype[0] == "i"
                  else values.random(shape).astype(self.dtype) for shape in shapes]
        self.spaces, self.found = [], [[], []]
        for number, xp in enumerate((numpy, diffuse.numpy)):
            made = [xp.array(array) for array in arrays]
            if not self.kept:
                made = [array + 0 for array in made]  # results, which die with their names
            self.spaces.append({
                **dict(zip("abcw", made, strict=True)), "np": xp, "keep": self.found[number].append,
                "clip": lambda x, xp=xp: xp.minimum(xp.maximum(x, -8), 8),
                "flush": engine.flush if number else lambda: None})
            if self.kept:
                self.found[number] += made

    def turn(self, plain: float) -> str:
        """Run the statements once; a description of the turn."""
        pick = self.pick
        views = choose(pick, plain)
        numbers = {name: pick.choice(SCALARS) for name in "sr"}
        if pick.random() < 0.3:
            numbers["r"] = numbers["s"]
        waits = [pick.choice(WAITS) if pick.random() < 0.1 else wait for wait in self.waits]
        bound = {name: (READ | VIEWS | WINDOWS)[value] if isinstance(value, str) else value
                 for name, value in views.items()}
        raised: list[list[str]] = [[], []]
        for space, errors in zip(self.spaces, raised, strict=True):
            space.update(bound, **numbers)
            for code, wait in zip(self.code, waits, strict=True):
                try:
                    exec(code, space)
                except (ValueError, IndexError) as error:  # views of other shapes than that of an operand
                    errors.append(type(error).__name__)
                exec(self.wait[wait], space)
        assert raised[0] == raised[1]
        return f"{views} {numbers} {waits}"

    def compare(self, where: str) -> None:
        """Compare all arrays."""
        for name in "abcw":
            self._same(self.spaces[0][name], self.spaces[1][name], f"{name} {where}")
        for k, (theirs, ours) in enumerate(zip(*self.found, strict=True)):
            self._same(theirs, ours, f"kept {k} {where}")

    def _same(self, theirs: Any, ours: Any, where: str) -> None:
        theirs, ours = numpy.asarray(theirs), numpy.asarray(ours)
        assert theirs.shape == ours.shape and theirs.dtype == ours.dtype, where
        if not numpy.array_equal(theirs, ours, equal_nan=theirs.dtype.kind == "f"):
            if self.whole and theirs.dtype.kind == "f" and abs(theirs).max() > 2.0 ** 50:
                return  # sums are rounded
            wrong = numpy.argwhere(numpy.atleast_1d(theirs != ours))
            text = "\n".join(f"    {line}" for line in self.lines)
            raise AssertionError(f"program {self.seed} ({self.dtype}, {self.sizes}) differs in {where}: "
                                 f"{len(wrong)} elements, first {wrong[0]}\n{text}")

    def run(self, turns: int) -> None:
        """Run all turns; most begin with new arrays."""
        plain = self.pick.choice((0.3, 0.6, 0.85))
        history: list[str] = []
        with numpy.errstate(all="ignore"):
            for number in range(turns):
                if not self.spaces or self.whole or self.pick.random() < 0.7:
                    self.start(self.pick.choice(self.sizes))
                first = number == 0 and self.pick.random() < 0.6
                history.append(self.turn(1.0 if first else plain))
                if self.pick.random() < 0.85:
                    self.compare("after\n" + "\n".join(history[-3:]))


def check(seed: int, sizes: tuple[int, ...], turns: int, episode: str = "") -> None:
    """Run the program of a seed, or the one that is given, with nothing planned before."""
    engine.fence()
    engine.current().window.forget()
    Program(seed, sizes, episode).run(turns)


@pytest.fixture
def compiled() -> Iterator[None]:
    with using(small=0, min_chunk=1000, compile="wait"):
        yield
        engine.fence()


@pytest.mark.parametrize("name", EPISODES)
def test_plans_hold_for_other_views(name: str, compiled: None) -> None:
    check(5, (96, 97), 12, EPISODES[name])


def main(first: int, last: int) -> None:
    wrong = 0
    for seed in range(first, last):
        pick = random.Random(-seed - 1)
        chosen = {"small": pick.choice((0, 1000)), "min_chunk": pick.choice((64, 1000, 16384, 1 << 22)),
                  "compile": pick.choice(("wait", "wait", "background"))}
        with using(**chosen):
            try:
                episode = pick.choice(list(EPISODES.values())) if pick.random() < 0.3 else ""
                check(seed, pick.choice(((40, 41), (64, 300), (300, 301), (300, 512), (600,), (1500,))), 14,
                      episode)
            except Exception as error:  # go on with the next program
                wrong += 1
                print(f"{chosen}\n{type(error).__name__}: {error}\n", flush=True)
        if seed % 20 == 19:
            print(f"{seed + 1 - first} programs, {wrong} wrong", flush=True)
    print(f"{last - first} programs, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
