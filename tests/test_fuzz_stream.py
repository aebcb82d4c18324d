"""Random programs with loops over arrays large enough to be recorded, under many settings.

Each program is text.  NumPy runs it once; Diffuse runs it under several settings: windows, threads, compiled,
interpreted or switching over, one runtime or the other with its points shuffled.  Exact programs must give
NumPy's bits; programs with float sums and transcendental functions must give the same bits under all
settings, and NumPy's values nearly.
"""

from __future__ import annotations

import gc
import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy
import pytest

import diffuse.numpy
from diffuse import settings
from diffuse.fusion import verify
from diffuse.numpy.arrays import access
from diffuse.runtime.local.runtime import Local
from diffuse.runtime.reference import HostInstance, Reference
from diffuse.stream import engine
from tests.each import rounds
from tests.outcomes import unwarned

ROWS, COLUMNS = (40, 66, 97), (21, 32, 40)
NAMES = "abcdefgh"


class Loops:
    """A random program: statements in and around loops, over arrays of one shape, its rows and columns."""

    def __init__(self, seed: int, exact: bool) -> None:
        pick = self.pick = random.Random(seed)
        self.exact = exact
        self.shape = pick.choice(ROWS), pick.choice(COLUMNS)
        self.dtypes = pick.choice([("float64",), ("float64",), ("float64", "float32"),
                                   ("int64", "int16", "float64"), ("float64", "bool", "int32"),
                                   ("complex128", "float64")])
        self.lines: list[str] = []
        self.named: dict[str, str] = {name: "full" for name in "abc"}
        self.values = [(pick.choice(self.dtypes), k) for k in range(3)]
        for _ in range(pick.randint(1, 3)):
            self.block()

    def data(self) -> dict[str, Any]:
        found = {}
        for (dtype, k), name in zip(self.values, "abc", strict=True):
            values = numpy.random.default_rng(k).integers(-9, 9, self.shape) / 4
            found[name] = values.astype(dtype)
        return found

    def block(self) -> None:
        turns = self.pick.choice((1, 1, 2, 4))
        body: list[str] = []
        before = dict(self.named)
        for _ in range(self.pick.randint(3, 9)):
            body += self.statement()
        if turns == 1:
            self.lines += body
            return
        # a turn begins with the names that the first one had
        self.named = {k: v for k, v in self.named.items() if before.get(k) == v}
        gone = [f"    {k} = {self.replacement(v)}" for k, v in before.items() if self.named.get(k) != v]
        self.named.update(before)
        self.lines += [f"for turn in range({turns}):", *("    " + line for line in body), *gone]

    def replacement(self, kind: str) -> str:
        rows, columns = self.shape
        shape = {"full": f"({rows}, {columns})", "row": f"({columns},)", "column": f"({rows}, 1)",
                 "point": "()", "little": "(5,)", "mask": f"({rows}, {columns})"}[kind]
        return f"np.full({shape}, {'True' if kind == 'mask' else '1.5'})"

    def fresh(self, kind: str) -> str:
        name = self.pick.choice(NAMES[3:])
        self.named[name] = kind
        return name

    def of(self, *kinds: str) -> str:
        found = [name for name, kind in self.named.items() if kind in kinds]
        return self.pick.choice(found) if found else "a"

    def operand(self) -> str:
        pick = self.pick
        return pick.choice([self.of("full"), self.of("full"), self.of("full"),
                            self.of("full", "row", "column", "point"), self.view(self.of("full")),
                            pick.choice(["2", "0.5", "3", "-1"]), f"{self.of('full')}.copy()",
                            f"{self.of('full')}[{pick.randint(0, 9)}]",
                            f"{self.of('full')}[:, {pick.randint(0, 9)}:][:, :1]"])

    def view(self, name: str) -> str:
        return name + self.pick.choice(["[::-1]", "[:, ::-1]", "[::-1, ::-1]", "", "[:]", "[..., :]"])

    def expression(self) -> str:
        pick = self.pick
        a, b, c = self.of("full"), self.operand(), self.operand()
        forms = [f"{a} + {b}", f"{a} - {b} * {c}", f"{a} * {b}", f"({a} - {b}) * 0.5 + {c}",
                 f"np.abs({a}) + {b}", f"np.where({a} > {b}, {c}, {a})", f"np.minimum({a}, {b}) + {c}",
                 f"np.square({a}) - {c}",
                 f"{a} / (np.abs({b}) + 1)"]
        if not self.exact:
            forms += [f"np.sqrt(np.abs({a})) + {b}", f"np.exp(-np.abs({a})) * {b}", f"np.sin({a}) + {b}",
                      f"{a} - {self.of('full')}.mean(axis=0)", f"np.tanh({a}) * {b}",
                      f"{a} / (1 + np.abs({self.of('full')}.sum()))"]
        return pick.choice(forms)

    def shifted(self) -> tuple[str, str, str]:
        """Equal parts of the shape: where to write, and two others to read."""
        pick, parts = self.pick, []
        kind = pick.randrange(5)
        if kind == 4:
            n, m = self.shape
            return pick.choice([(f"[:{n // 2 * 2}:2]", f"[1:{n // 2 * 2}:2]", f"[:{n // 2}]"),
                                (f"[:, :{m // 2 * 2}:2]", f"[:, 1:{m // 2 * 2}:2]", f"[:, {m - m // 2}:]"),
                                ("[0]", "[1]", "[-1]"), ("[:, 0]", "[:, 1]", "[:, -1]"),
                                ("[3:3]", "[5:5]", "[:0]")])
        margins = [(pick.randint(0, 2), pick.randint(0, 2)) for _ in self.shape]
        for turn in range(3):
            cut = []
            for (low, high), n in zip(margins, self.shape, strict=True):
                d = 0 if turn == 0 else pick.randint(-low, high)
                cut.append(f"{low + d}:{n - high + d}")
            parts.append("[" + ", ".join(cut) + "]")
        return parts[0], parts[1], parts[2]

    def statement(self) -> list[str]:
        pick = self.pick
        kind = pick.randrange(14)
        a, b = self.of("full"), self.of("full")
        if kind <= 2:
            value = self.expression()
            return [f"{self.fresh('full')} = {value}"]
        if kind == 3:
            return [f"{a} {pick.choice(['+=', '-=', '*='])} {self.operand()}"]
        if kind <= 6:
            target, one, two = self.shifted()
            operator = pick.choice(["=", "=", "=", "+=", "-="])
            value = pick.choice([f"{a}{one} + {b}{two}", f"{a}{one}", f"({a}{one} - {b}{two}) * 0.5",
                                 f"{a}{two} * 2"])
            return [f"{self.of('full')}{target} {operator} {value}"]
        if kind == 7:
            fold = pick.choice(["max(axis=0)", "min(axis=0)", "max(axis=0)"] if self.exact else
                               ["sum(axis=0)", "mean(axis=0)", "max(axis=0)", "prod(axis=0)", "var(axis=0)"])
            return [f"{self.fresh('row')} = {a}.{fold}"]
        if kind == 8:
            fold = pick.choice(["max", "min"] + ([] if self.exact else ["sum", "mean"]))
            return [f"{self.fresh('column')} = {a}.{fold}(axis=1, keepdims=True)"]
        if kind == 9:
            fold = pick.choice([f"{a}.max()", f"{a}.min()", f"({a} > 1).sum()", f"({a} < {b}).any()",
                                f"{a}.argmax()"]
                               + ([] if self.exact else [f"{a}.sum()", f"({a} * {b}).sum()", f"{a}.std()"]))
            return [f"{self.fresh('point')} = {fold}"]
        if kind == 10:
            return [pick.choice([f"{self.fresh('full')} = {a}", f"{self.fresh('full')} = {a}[::-1]",
                                 f"{self.fresh('full')} = {a}.T.T", f"{self.fresh('full')} = {a}[:]"])]
        if kind == 11:
            gone = [name for name in self.named if name > "c"]
            if not gone:
                return ["pass"]
            name = pick.choice(gone)
            del self.named[name]
            return [f"del {name}"]
        if kind == 12:
            return [pick.choice([f"w = {a}.reshape(-1); w[3:9] = w[:6] * 2",
                                 f"w = np.zeros(5); w[1:] += {a}[0, :4].real",
                                 f"keep.append({a}[:3, :3].copy())", f"keep.append({a} * 2)",
                                 "w = np.arange(7) * 2.0", f"np.add({a}, {b}, out={self.of('full')})",
                                 f"{a}[{a} > 1] = 0", "w = 3", f"w = {a}[:, 0] + {b}[:, 1]; keep.append(w)",
                                 f"{a}[0] = {b}[1]; {a}[-1] = {b}[-2]",
                                 f"{a}[:, 0] = {b}[:, 1]; {a}[:, -1] = 0",
                                 f"np.copyto({a}, {b}, casting='unsafe')"])]
        fold = "cumsum" if not self.exact else "cumprod"
        axis = pick.choice((0, 1))
        if self.exact:
            return [f"keep.append(np.sign({a}).real.{fold}(axis={axis}))"]
        return [f"{self.fresh('full')} = ({a} * 0.125).{fold}(axis={axis})"]

    def run(self, np: Any) -> list[Any]:
        """The values at the end; where the program fails, those so far and the exception's name."""
        scope: dict[str, Any] = {"np": np, "keep": []}
        scope.update({k: v if np is numpy else np.array(v) for k, v in self.data().items()})
        last: list[Any] = []
        try:
            exec("\n".join(self.lines), scope)
        except Exception as error:
            last = [numpy.frombuffer(type(error).__name__.encode(), "uint8")]
        kept = scope["keep"] + [scope[name] for name in (*NAMES, "w") if name in scope]
        return [numpy.array(x) for x in kept] + last

    def text(self) -> str:
        return "\n".join([f"{self.shape} {self.values}", *self.lines])


@contextmanager
def stream(points: int, seed: int | None = None, **chosen: Any) -> Iterator[None]:
    """Settings, and a runtime of so many points; with a seed the reference one, its points shuffled.

    Under Legate and MPI, which a process has once, and on devices, which have one point: the settings alone.
    With `check` what is fused is compared with the definitions where that takes two milliseconds, not a tenth
    of a second: they are the subject of test_verify.py.
    """
    stores = engine.current().stores
    with settings.using(**chosen), patch.object(verify, "AFFORDABLE", rounds(1 << 12, verify.AFFORDABLE)):
        engine.fence()
        if settings.config.runtime in ("legate", "mpi", "simt", "cuda"):
            yield
            engine.fence()
            return
        before = stores.runtime
        stores.runtime = mine = Local(points) if seed is None else Reference(points, seed)
        engine.current().forget_decompositions()
        try:
            yield
        finally:
            engine.fence()
            if isinstance(mine, Local):
                mine.close()
            elif any([isinstance(x, HostInstance) for x in stores.instances.values()]):
                access.constants.clear()  # no other runtime takes over the memory of this one
                access._snapshots.clear()
                gc.collect()
            stores.runtime = before
            engine.current().forget_decompositions()


VARIANTS: tuple[dict[str, Any], ...] = (
    dict(points=1, window=1, compile="off", min_chunk=64),
    dict(points=2, window="auto", compile="wait", min_chunk=64),
    dict(points=3, window="auto", compile="off", min_chunk=32),
    dict(points=3, window=3, compile="background", min_chunk=100),
    dict(points=3, window="auto", compile="off", min_chunk=64, seed=5, check=True),
    dict(points=2, window="auto", compile="background", min_chunk=500, check=True),
    dict(points=3, window="auto", compile="wait", min_chunk=64),
    dict(points=2, window=7, compile="wait", min_chunk=64),
)


def same(expected: list[Any], found: list[Any]) -> str:
    """What differs, NaN for NaN."""
    if len(expected) != len(found):
        return f"{len(expected)} results became {len(found)}"
    for k, (a, b) in enumerate(zip(expected, found, strict=True)):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"result {k}: {a.dtype} {a.shape} became {b.dtype} {b.shape}"
        if a.tobytes() != b.tobytes():
            parts = [(a.real, b.real), (a.imag, b.imag)] if a.dtype.kind == "c" else [(a, b)]
            if not all(numpy.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in parts):
                wrong = numpy.argwhere((a != b) & ~((a != a) & (b != b)))
                return f"result {k}: {len(wrong)} elements, first {wrong[:3].tolist()}"
    return ""


def near(expected: list[Any], found: list[Any]) -> str:
    for k, (a, b) in enumerate(zip(expected, found, strict=False)):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"result {k}: {a.dtype} {a.shape} became {b.dtype} {b.shape}"
    return "" if len(expected) == len(found) else f"{len(expected)} results became {len(found)}"


def trial(seed: int, exact: bool, small: int, variants: tuple[dict[str, Any], ...]) -> None:
    """One program under NumPy and under some settings."""
    program = Loops(seed, exact)
    with unwarned():
        expected = program.run(numpy)
        for k, variant in enumerate(variants):
            with stream(small=small, **variant):
                found = program.run(diffuse.numpy)
            problem = same(expected, found) if exact or k else near(expected, found)
            assert not problem, (f"{problem}\nseed {seed}, exact={exact}, small={small}, {variant}\n"
                                 f"{program.text()}")
            if not exact and not k:
                expected = found


def chosen(seed: int) -> tuple[bool, int, tuple[dict[str, Any], ...]]:
    pick = random.Random(seed + 1)
    variants = tuple(pick.sample(VARIANTS, 3))
    return pick.random() < 0.5, pick.choice((0, 0, 0, 100, 8192)), variants


@pytest.mark.parametrize("first", range(0, rounds(30, 60), 10))
def test_loops_agree_under_all_settings(first: int) -> None:
    for seed in range(first, first + 10):
        exact, small, variants = chosen(seed)
        trial(seed, exact, small, variants)


def test_programs_reach_what_they_are_for() -> None:
    """Most programs run to their end, and their loops replay."""
    ends = [Loops(seed, True).run(numpy)[-1].dtype != "uint8" for seed in range(60)]
    assert sum(ends) > 30
    text = "\n".join(itertools.chain.from_iterable(Loops(seed, False).lines for seed in range(60)))
    for word in ("for turn", "del ", "cumsum", "where", ".T.T", "out=", "sum(axis=0)", "keepdims"):
        assert word in text
