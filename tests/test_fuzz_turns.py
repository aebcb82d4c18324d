"""Loops of the same lines over operands that change from turn to turn: does a plan that was made for one turn
fit a later one that looks alike?

An episode is a few statements and some turns.  In each turn the operands are made anew or kept, with another
element type, shape, layout or alias of each other, and two numbers may change their type.  Both libraries run
the same code objects; elements, strides and the lines that raise have to agree.

    python tests/test_fuzz_turns.py recorded 0 1000     episodes of small arrays; `large`: of 16,384 elements
"""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import diffuse.numpy
from diffuse.numpy.arrays import core
from diffuse.stream import engine
from tests import audit_operands
from tests.outcomes import unwarned
from tests.test_fuzz_stream import stream

SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "recorded": ((6,), (40,), (4, 5), (1, 5), (4, 1), (1,), (0,), (2, 3, 4), (12, 13), (260,), ()),
    "large": ((127,), (128,), (4096,), (16383,), (16384,), (16385,), (150, 130), (600, 1), (0,))}
NUMBERS = """2 -1 0.5 True np.float32(0.5) np.float64(2) np.int8(3) np.uint8(200) np.array(2) np.array(.5)
np.array([2]) np.array([[0.5]]) (2+1j) np.complex64(1j) np.float16(.25) np.ones(3).sum()
(np.arange(20000)%3).max()
""".split()
STATEMENTS = """
{x} {op} {n}|({x} {op} {n}) {op} {n}|np.maximum({x}, {n})|np.add({x}, {n}, out={t}, casting='unsafe')
np.subtract({x}, {n}, where={x} > 1, out={t})|np.multiply({x}, {n}, dtype='f4', casting='unsafe')
np.negative({x}, out={t})|np.abs({x})|np.sqrt(np.abs({x}))|{x}.max({a})|{x}.min({a})|{x}.sum({a})|{x}.any({a})
{x}.argmax({a})|{x}.argmin({a})|np.where({x} > 1, {x}, {n})|np.clip({x}, -2, 3)|np.concatenate(({x}, {x}))
{x}.astype('f4')|{x}.astype('i2')|{x}[{x} > 0]|{x}.copy()|np.roll({x}, 1)|np.roll({x}, 1, axis=0)
{x}.reshape(-1)|{x}[None]|{x}.T|np.repeat({x}, 2)|np.diff({x})|np.sort({x}, axis=-1)
np.take({x}, [0, -1], axis=0)
np.cumsum({x}, axis=0)|np.full({x}.shape, s)|np.zeros_like({x})|np.add.reduce({x}, axis=0)|{x}.view('u1')
np.array({x})|np.divmod({x}, 3)[1]|np.searchsorted(np.sort({x}.ravel()), {x})|{x}.max(0) + {x}
np.isclose({x}, 1)|np.modf({x})[0]|np.unique({x})|np.outer({x}[:5], {x}[:4])|np.pad({x}, 1)|np.nan_to_num({x})
np.round({x}, 1)
""".replace("\n", "|").strip("|").split("|")
WRITES = """
{t} {op}= {n}|{t}{p} {op}= {n}|{t}{p} = {n}|{t}[...] = {x}|np.copyto({t}, {n}, casting='unsafe')
{t}[{x} > 1] = s|{t}[1:] = {t}[:-1]|{t}[:-1] += {t}[1:]|np.add({t}, {t}[::-1], out={t}[::-1])|{t}.fill(t)
{t}.sort()|np.add.at({t}, [0, 0, -1], {n})|np.put({t}, [0, 2], [s, t])|{t}.flat[::3] = s
s = {x}.max()|s = {x}.sum()
t = {x}.reshape(-1)[0]|s = float(s)|t = s * t|s = np.float32(s)
k = int({x}.argmax()) % max(len({x}), 1); {t}[k] = t
keep.append({x})|keep.append((s, t))|a, b = b, a|c = {x}|s = {x}.size|t = {x}.max(); {t}[...] = {x} - t
np.divmod({t}, 3, out=({t}, None))|del u
""".replace("\n", "|").strip("|").split("|")
ALIASES = (*[""] * 4, "b = a", "b = a[::-1]", "b = a.T", "c = a[1:]", "b = a.view()", "c = b.reshape(-1)",
           "c = np.broadcast_to(a, (2, *a.shape))", "b = a.real", "c = a[:0]",
           "a = numpy.asarray(a)", "a = a[::2]")


class Operand(NamedTuple):
    """What an array is made of."""

    shape: tuple[int, ...]
    dtype: str
    layout: str
    seed: int


class Turn(NamedTuple):
    """The operands, which of them are made anew, and the numbers."""

    operands: dict[str, Operand]
    fresh: list[str]
    numbers: dict[str, str]
    alias: str


class Episode:
    """The statements and turns that a mode and a number name."""

    def __init__(self, mode: str, number: int) -> None:
        self.pick, self.shapes = random.Random(f"{mode} {number} turns"), SHAPES[mode]
        self.names = ["a", "b", "c"]
        self.lines = [self.statement() for _ in range(self.pick.randint(3, 9))]
        self.turns = list(self.change(self.pick.randint(3, 7)))

    def statement(self) -> str:
        pick = self.pick
        form = pick.choice(WRITES if pick.random() < 0.45 else STATEMENTS)
        words = {"x": self.part(), "t": pick.choice(self.names), "op": pick.choice("+-*"),
                 "n": pick.choice(("s", "t", self.part(), "2")),
                 "a": pick.choice(("", "axis=0", "axis=-1", "axis=0, keepdims=True")),
                 "p": pick.choice(("[1:]", "[::-1]", "[0]", "[-1]", "[[0, -1]]", "[..., 1:]"))}
        text = form.format(**words)
        if form in STATEMENTS:
            name = pick.choice("uvwxyz")
            self.names += [name] * (name not in self.names)
            return f"{name} = {text}"
        return text

    def part(self) -> str:
        name = self.pick.choice(self.names)
        return name + self.pick.choice((*[""] * 6, "[1:]", "[::-1]", "[::2]", ".T", "[..., :-1]"))

    def operand(self, base: tuple[int, ...], dtype: str) -> Operand:
        pick = self.pick
        shape = pick.choice((base, base, base, base[1:], tuple([pick.choice((1, n)) for n in base])))
        return Operand(shape, dtype, pick.choice(audit_operands.LAYOUTS), 8 * pick.randrange(99) + 1)

    def change(self, count: int) -> Any:
        """The turns: each differs from the one before in little."""
        pick, base = self.pick, self.pick.choice(self.shapes)
        dtype = pick.choice(audit_operands.DTYPES)
        now = {name: self.operand(base, dtype) for name in "abc"}
        numbers = {name: pick.choice(NUMBERS) for name in "st"}
        for turn in range(count):
            name, kind = pick.choice("abc"), pick.randrange(5)
            if kind == 0:
                base = pick.choice(self.shapes)
                now = {k: x._replace(shape=base) for k, x in now.items()}
            else:
                now = {**now, name: (
                    now[name]._replace(layout=pick.choice(audit_operands.LAYOUTS)) if kind < 3 else
                    now[name]._replace(dtype=pick.choice(audit_operands.DTYPES)) if kind == 3 else
                    self.operand(base, dtype))}
            if pick.random() < 0.5:
                numbers = {**numbers, pick.choice("st"): pick.choice(NUMBERS)}
            fresh = [name for name in "abc" if turn == 0 or pick.random() < 0.7]
            yield Turn(now, fresh, numbers, pick.choice(ALIASES))

    def run(self, np: Any) -> list[Any]:
        """All that the program sees, in turn; of lines that raise their number."""
        body = [compile(line, f"<turns {k}>", "exec") for k, line in enumerate(self.lines)]
        scope: dict[str, Any] = {"np": np, "numpy": numpy, "keep": []}
        seen: list[Any] = []
        for number, turn in enumerate(self.turns):
            scope |= {name: audit_operands.array(np, *turn.operands[name]) for name in turn.fresh}
            scope |= {name: eval(text, scope) for name, text in turn.numbers.items()}
            for k, code in enumerate((compile(turn.alias, "<alias>", "exec"), *body)):
                try:
                    exec(code, scope)
                except Exception:
                    seen.append(k)
            if number % 3 == 2:
                seen += [told(scope.get(name)) for name in self.names]
            for name in [x for x in "uvwxyz" if getattr(scope.get(x), "size", 0) > 200_000]:
                del scope[name]
        last = [*scope["keep"], *[scope.get(name) for name in (*self.names, "s", "t")]]
        return seen + [told(x) for x in last]

    def text(self) -> str:
        turns = [f"  {t.fresh} {t.operands} {t.numbers} {t.alias}" for t in self.turns]
        return "\n".join([*self.lines, *turns])


def told(value: Any) -> Any:
    """Return what has to be equal of a result: elements, element type and strides of an array, or class and
    value of a number."""
    if type(value) in core.PENDING:
        value = value.value()
    if isinstance(value, tuple):
        return [told(x) for x in value]
    if isinstance(value, (numpy.generic, float, complex)):
        return type(value), numpy.asarray(value)
    if not isinstance(value, (numpy.ndarray, diffuse.numpy.ndarray)):
        return type(value), repr(value)
    strides = [s for s, n in zip(value.strides, value.shape, strict=True) if n > 1]
    return "array", strides if value.size else [], numpy.array(value)


def alike(one: Any, other: Any) -> bool:
    """Is the same told of two values?  NaN is NaN, zero is zero, and products of complex numbers are near."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    if not isinstance(one, numpy.ndarray) or not isinstance(other, numpy.ndarray):
        return bool(type(one) is type(other) and one == other)
    if one.dtype != other.dtype or one.shape != other.shape or one.dtype.kind != "c":
        return one.dtype == other.dtype and numpy.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return numpy.allclose(one, other, 1e-4 if one.dtype.char == "F" else 1e-12, 0, equal_nan=True)


def checked(mode: str, number: int) -> str:
    """One episode: what differs, with its text."""
    episode, pick = Episode(mode, number), random.Random(number)
    with unwarned():
        expected = episode.run(numpy)
        small = 16384 if mode == "large" else pick.choice((0, 0, 3, 130))
        chosen: dict[str, Any] = dict(small=small, compile="off", window=pick.choice(("auto", "auto", 1, 3)),
                                      min_chunk=pick.choice((1, 7, 16384)))
        if number % 2:
            engine.current().brevity.forget()
        with stream(pick.choice((1, 2, 3)), fallback="silent", **chosen):
            found = episode.run(diffuse.numpy)
    for one, other in itertools.zip_longest(expected, found):
        if not alike(one, other):
            return f"{mode} {number} {chosen}\n{episode.text()}\n=> {other}, NumPy's {one}"
    return ""


@pytest.mark.local_only("NumPy's views of the memory are copies there")
@pytest.mark.parametrize(("mode", "first", "count"), [
    ("recorded", 0, 50), ("recorded", 50, 50), ("large", 0, 25)])
def test_the_same_lines_over_other_operands(mode: str, first: int, count: int) -> None:
    for number in range(first, first + count):
        assert not (wrong := checked(mode, number)), wrong


if __name__ == "__main__":
    for number in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
        print(checked(sys.argv[1], number), end="", flush=True)
