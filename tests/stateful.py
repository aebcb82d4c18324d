"""Families of live views of the same memory, written in all ways, beside NumPy's.

    python tests/stateful.py --operations 1000000     exit status 1 if anything differs
    python tests/stateful.py --repeat mixed 17        one episode again: its shortest program that differs

An episode is a program of some fifty statements over arrays and views of them, which both libraries run;
after every few statements all arrays are compared, read in a way that leaves them as they are.
"""

from __future__ import annotations

import copy
import ctypes
import mmap
import os
import pickle
import random
import re
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import numpy

from tests import shares
from tests.outcomes import unwarned

LENGTH = 50
"""Statements of an episode."""
MODES = {"small": 25, "recorded": 30, "mixed": 30, "outside": 15}
"""The modes, and how many of a hundred episodes each has: small arrays; small ones that are recorded all the
same; large ones, with small views; and arrays of all sizes over memory that others write, too
(stateful_outside.py)."""
SHAPES = {"small": ((6,), (40,), (4, 5), (200,), (12, 13), (2, 3, 4)),
          "recorded": ((6,), (40,), (4, 5), (2, 3, 4)),
          "mixed": ((20000,), (150, 130), (200,), (30, 40, 20)),
          "outside": ((40,), (260,), (17000,), (130, 140))}
DTYPES = ("f8", "f8", "f8", "i8", "i8", "f4", "i4", "u1", "c16", "?")
NUMBERS = ("0", "1", "2", "-3", "7", "2.5")
BUFFERS = sys.version_info >= (3, 12) or os.environ.get("DIFFUSE_COMPILED") != "0"
"""Do arrays give buffers?"""
NAMES = [f"v{k}" for k in range(8)]


class Family:
    """One episode as it is being made up, from the arrays that NumPy's run of it has."""

    def __init__(self, pick: random.Random, mode: str) -> None:
        self.pick, self.mode = pick, mode
        self.scope: dict[str, Any] = {}

    def arrays(self) -> list[str]:
        return [name for name in NAMES if isinstance(self.scope.get(name), numpy.ndarray)]

    def one(self, writeable: bool = False) -> str:
        names = self.arrays()
        if writeable:
            names = [n for n in names if self.scope[n].flags.writeable] or names
        return self.pick.choice(names)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.scope[name].shape)

    def statement(self) -> str:
        """The next statement."""
        names = self.arrays()
        if len(names) < 2 or len(names) < 8 and self.pick.random() < 0.05:
            return self.root()
        ways = ((self.view, 22), (self.assign, 22), (self.update, 16), (self.out, 8), (self.method, 12),
                (self.function, 10), (self.fresh, 8), (self.lent, 6), (self.drop, 4), (self.read, 5))
        return self.pick.choices([w for w, _ in ways], [n for _, n in ways])[0]()

    def root(self) -> str:
        pick = self.pick
        shape, dtype = pick.choice(SHAPES[self.mode]), pick.choice(DTYPES)
        size = int(numpy.prod(shape))
        made = pick.choice((f"np.arange({size}).reshape({shape}).astype('{dtype}')",
                            f"np.zeros({shape}, '{dtype}')",
                            f"np.ones({shape}, '{dtype}')",
                            f"np.array(numpy.arange({size}).reshape({shape}) % 11, '{dtype}')",
                            f"np.full({shape}, 3, '{dtype}')",
                            f"(np.arange({size}) % 7 * 2).reshape({shape}).astype('{dtype}')"))
        return f"{pick.choice(NAMES)} = {made}"

    def slices(self, name: str) -> str:
        """Indices of slices and numbers."""
        pick, parts = self.pick, []
        for n in self.shape(name)[:pick.randrange(1, 4)]:
            low, high = sorted((pick.randrange(n + 1), pick.randrange(n + 1)))
            parts.append(pick.choice((":", f"{low}:{high}", "::-1", "::2", "1:", ":-1", f"{high}:{low}:-1",
                                      "1::3",
                                      str(pick.randrange(-n, n)) if n else ":", ":")))
        return ", ".join(parts) or "..."

    def places(self, name: str) -> str:
        """Masks and arrays of indices."""
        n, pick = (self.shape(name) or (0,))[0], self.pick
        if not n:
            return "..."
        few = [pick.randrange(-n, n) for _ in range(pick.randrange(4))]
        return pick.choice((f"{name} > 2", f"{few}", f"np.array({few}, 'i8')", f"np.arange({n}) % 3 == 0",
                            f"[{pick.random() < 0.5}] * {n}", f"np.nonzero({name} > 1)",
                            f"np.arange({n})[::-1]"))

    def value(self, name: str) -> str:
        """Something to write: a number, or an array that mostly fits."""
        pick, shape = self.pick, self.shape(name)
        alike = [n for n in self.arrays() if self.shape(n) in (shape, shape[1:])]
        kind = pick.randrange(8)
        if kind < 3 or not alike:
            return pick.choice(NUMBERS)
        other = pick.choice(alike)
        return pick.choice((other, f"{other}[::-1]" if self.shape(other) else other, f"{other} * 2 - 1",
                            f"{name}",
                            f"{name}[::-1]" if shape else name, f"{other}.copy()", f"{other} + {name}"))

    def view(self) -> str:
        pick, name = self.pick, self.one()
        size, rank = self.scope[name].size, len(self.shape(name))
        bits = ("?", "?") if self.scope[name].dtype == bool else ("u1", "i8")  # no bools but 0 and 1
        kinds = [f"{name}[{self.slices(name)}]"] * 5 + [
            f"{name}.T", f"{name}.reshape(-1)", f"{name}.ravel()", f"{name}[None]", f"{name}[...]",
            f"{name}.view()",
            f"{name}.real", f"{name}.imag", f"np.broadcast_to({name}, (2, *{self.shape(name)}))",
            f"np.asarray({name})",
            f"{name}.squeeze()", f"np.flip({name})", f"{name}.view('{bits[0]}')", f"{name}.view('{bits[1]}')",
            f"np.atleast_2d({name})", f"{name}.reshape({size // 2}, 2)" if size % 2 == 0 else f"{name}[::-1]"]
        if rank > 1:
            kinds += [f"{name}.swapaxes(0, 1)", f"{name}.diagonal()", f"np.moveaxis({name}, 0, -1)",
                      f"{name}.mT"]
        return f"{pick.choice(NAMES)} = {pick.choice(kinds)}"

    def assign(self) -> str:
        name = self.one(True)
        index = self.slices(name) if self.pick.random() < 0.65 else self.places(name)
        if self.pick.random() < 0.5:
            return f"{name}[{index}] = {self.value(name) if index == '...' else self.pick.choice(NUMBERS)}"
        return f"{name}[{index}] = {self.value(name)}"

    def update(self) -> str:
        name, pick = self.one(True), self.pick
        sign = pick.choice(("+=", "-=", "*=", "+=", "-=", "|=", "^=", "//=", "%="))
        if pick.random() < 0.5:
            return f"{name} {sign} {self.value(name)}"
        index = self.slices(name) if pick.random() < 0.7 else self.places(name)
        return f"{name}[{index}] {sign} {pick.choice(NUMBERS) if pick.random() < 0.6 else self.value(name)}"

    def out(self) -> str:
        pick, target, first = self.pick, self.one(True), self.one()
        second = self.value(first)
        function = pick.choice("add subtract multiply maximum minimum bitwise_xor copysign".split())
        where = f", where={first} > 1" if pick.random() < 0.3 else ""
        sums = "cumsum" if self.shape(target) else "positive"  # NumPy writes beyond an output of no dimension
        # nor does it negate elements of 4 bytes that lie 16 apart as it should
        apart = any(abs(step) == 16 for name in (target, first) for step in self.scope[name].strides)
        minus = "negative" if not apart else "conjugate"
        into = pick.choice((target, f"{target}[::-1]" if self.shape(target) else target, f"{target}[...]"))
        return pick.choice((f"np.{function}({first}, {second}, out={into}, casting='unsafe'{where})",
                            f"np.{minus}({first}, out={into})",
                            f"np.{sums}({first}, {'0, ' * (sums == 'cumsum')}out={into})",
                            f"np.clip({first}, 0, 5, out={into})",
                            f"np.take({first}, [0, -1, 0], 0, out={into}[:3])",
                            f"np.maximum.reduce({first}, 0, out={into})",
                            f"np.concatenate(({first}, {first}), 0, out={into})",
                            f"np.where({first} > 1, {first}, {second}); {into}[...] = {first}"))

    def method(self) -> str:
        name, pick = self.one(True), self.pick
        return pick.choice((f"{name}.fill({pick.choice(NUMBERS)})", f"{name}.sort()", f"{name}[::-1].sort()",
                            f"{name}.sort(axis=0)", f"{name}.flat[3] = 7", f"{name}.flat[1:4] = 5",
                            f"{name}.flat = [1, 2, 3]",
                            f"{name}.put([0, -1, 1], [7, 8])", f"{name}.partition(1)",
                            f"{name}.byteswap(inplace=True)",
                            f"{name}.real = {pick.choice(NUMBERS)}", f"{name}.imag = 1",
                            f"{name}.shape = (-1,)",
                            f"{name}.setflags(write=False)", f"{name}.itemsize",
                            f"{name}.clip(0, 3, out={name})", f"{name}.round(out={name})",
                            f"{name}.conj(out={name})"))

    def function(self) -> str:
        name, pick = self.one(True), self.pick
        index, value = self.places(name), self.value(name)
        return pick.choice((f"np.copyto({name}, {value}, casting='unsafe')",
                            f"np.put({name}, [0, 2, 2], [5, 6, 9])",
                            f"np.putmask({name}, {name} > 2, {value})",
                            f"np.place({name}, {name} > 2, [1, 2])",
                            f"np.fill_diagonal({name}, 4)",
                            f"np.add.at({name}, {index}, {pick.choice(NUMBERS)})",
                            f"np.subtract.at({name}, {index}, {value})", f"np.maximum.at({name}, {index}, 3)",
                            f"np.copyto({name}, {pick.choice(NUMBERS)}, where={name} > 1, casting='unsafe')",
                            f"np.random.default_rng(3).shuffle({name})", f"np.negative.at({name}, {index})",
                            f"np.put_along_axis({name}, np.argsort({name}, 0), 5, 0)",
                            f"np.nan_to_num({name}, copy=False)"))

    def fresh(self) -> str:
        pick, name = self.pick, self.one()
        # NumPy's magnitudes of complex numbers have other bits in other layouts
        magnitude = f"abs({name})" if self.scope[name].dtype.kind != "c" else f"{name}.conj()"
        return f"{pick.choice(NAMES)} = " + pick.choice((
            f"{name}.copy()", f"pickle.loads(pickle.dumps({name}))", f"copy.deepcopy({name})",
            f"copy.copy({name})",
            f"{name} + {self.value(name)}", f"{name} * 2 - {name}", f"np.where({name} > 1, {name}, 0)",
            f"{name} > 2",
            f"np.roll({name}, 1)", f"np.concatenate(({name}, {name}))", f"{name}[{self.places(name)}]",
            f"{name}.astype('f8')", f"np.sort({name})", f"np.maximum({name}, {self.value(name)})",
            magnitude,
            f"np.array({name})", f"np.ascontiguousarray({name})", f"{name}.flatten()",
            f"np.take({name}, [0, -1])",
            f"pickle.loads(pickle.dumps({name}, 5))", f"np.repeat({name}, 2)", f"np.diff({name})"))

    def lent(self) -> str:
        """NumPy's array of the same memory: kept, written, or both."""
        pick, name = self.pick, self.one(True)
        return pick.choice((f"w = numpy.asarray({name})[...]; w[...] = {pick.choice(NUMBERS)}",
                            f"w = numpy.asarray({name})[...]; w += 1",
                            f"w = {name}.__array__()[...]; w *= 2; del w",
                            f"w = numpy.asarray({name})[::2]; w[...] = 9",
                            f"w = np.ma.array({name}).data", f"w = np.asmatrix({name}).A",
                            f"w = np.ma.array({name}).data[1:]", "r = w.ravel()[:3].tolist()",
                            f"w = numpy.frombuffer({name}, {name}.dtype)" if BUFFERS else "del w",
                            "w[...] = 6", "w += 1", "del w",
                            f"{pick.choice(NAMES)} = np.asarray(numpy.asarray({name})[...])",
                            f"{name}[...] = w", f"numpy.add({name}, 1, out={name})",
                            f"numpy.copyto({name}, 3)",
                            f"memoryview({name}).cast('B')[0] = 1" if BUFFERS else "del w"))

    def drop(self) -> str:
        return f"del {self.one()}"

    def read(self) -> str:
        name = self.one()
        return self.pick.choice((f"r = float({name}.max())", f"r = {name}.tolist()[:1]", f"r = {name}.any()",
                                 f"r = int({name}.size)",
                                 f"r = {name}.flat[0]", f"r = bool(({name} > 1).all())",
                                 f"r = {name}.argmax()"))


Program = list[tuple[str, bool]]
"""Statements, and after which of them arrays are compared."""


def execute(statement: str, scope: dict[str, Any]) -> str:
    """Run a statement; the kind of exception that it raised."""
    try:
        exec(statement, scope)
    except Exception as error:
        return type(error).__name__
    return ""


def unlike(statement: str, expected: str, found: str, ours: dict[str, Any]) -> bool:
    """Do two kinds of exceptions differ?  Where an array of ours is to become an element of one of NumPy's,
    that hands on what ours raises, and raises another error for arrays of NumPy's own."""
    target = re.match(r"(v\d|w)\[[-\d, ]+\] \S*= ", statement)
    border = target is not None and type(ours.get(target[1])) is numpy.ndarray
    return expected != found and not (border and (found, expected) == ("TypeError", "ValueError"))


def scopes() -> tuple[dict[str, Any], dict[str, Any]]:
    import diffuse.numpy

    common = {"numpy": numpy, "pickle": pickle, "copy": copy, "mmap": mmap, "ctypes": ctypes,
              "threading": threading}
    return {"np": numpy, **common}, {"np": diffuse.numpy, **common}


def compared(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """The first array that differs, or the last number that was read."""
    for name in (*NAMES, "r"):
        one, other = ours.get(name), theirs.get(name)
        if (name in ours) != (name in theirs):
            return f"{name} is there or not"
        if isinstance(other, numpy.ndarray):
            assert one is not None
            if (one.dtype, one.shape) != (other.dtype, other.shape):
                return f"{name}: {one.dtype} {one.shape}, NumPy's {other.dtype} {other.shape}"
            data, expected = one.tobytes(), other.tobytes()
            if data != expected:
                mine = numpy.frombuffer(data, other.dtype).reshape(other.shape)
                if not numpy.array_equal(mine, other, equal_nan=other.dtype.kind in "fc"):
                    return f"{name}: {mine.tolist()}, NumPy's {other.tolist()}"
        elif repr(one) != repr(other) and one == one and not one == other == 0:  # which zero is the largest
            return f"{name}: {one!r}, NumPy's {other!r}"
    return ""


def replay(program: Program) -> str:
    """Run a program with both libraries: what differs first."""
    theirs, ours = scopes()
    for statement, look in program:
        expected, found = execute(statement, theirs), execute(statement, ours)
        if unlike(statement, expected, found, ours):
            return f"{statement}: {found or 'no error'}, NumPy's {expected or 'no error'}"
        if look and (wrong := compared(theirs, ours)):
            return wrong
    return compared(theirs, ours)


def made(pick: random.Random, mode: str) -> tuple[Program, str]:
    """Make an episode up while both libraries run it; what differs first."""
    from tests.stateful_outside import Outside

    family = Outside(pick, mode) if mode == "outside" else Family(pick, mode)
    theirs, ours = scopes()
    family.scope = theirs
    program: Program = []
    often = pick.choice((1, 3, 12, LENGTH))
    for _ in range(LENGTH):
        statement, look = family.statement(), pick.randrange(often) == 0
        program.append((statement, look))
        expected, found = execute(statement, theirs), execute(statement, ours)
        if unlike(statement, expected, found, ours):
            return program, f"{statement}: {found or 'no error'}, NumPy's {expected or 'no error'}"
        if look and (wrong := compared(theirs, ours)):
            return program, wrong
        if sum(theirs[name].size for name in family.arrays()) > 400_000:
            largest = max(family.arrays(), key=lambda name: theirs[name].size)
            program.append((f"del {largest}", False))
            del theirs[largest], ours[largest]
    return program, compared(theirs, ours)


def shortest(program: Program, wrong: str) -> tuple[Program, str]:
    """Leave out statements as long as something differs."""
    again = replay(program)
    if not again:
        return program, wrong + " (not when it ran again)"
    k = len(program) - 1
    while k >= 0:
        shorter = program[:k] + program[k + 1:]
        if found := replay(shorter):
            program, again = shorter, found
        k -= 1
    return program, again


def checked(mode: str, number: int) -> tuple[str, list[str]]:
    """One episode: its shortest program that differs, and what."""
    from diffuse.settings import config
    from diffuse.stream import engine

    config.small = 0 if mode == "recorded" else 16384
    if number % 2:  # computes nothing at once at first, whatever ran before, also when it is repeated
        engine.current().brevity.forget()
        for template in engine.current().templates.known.values():
            template.alone = 0
    with unwarned():
        program, wrong = made(random.Random(f"{number} {mode}"), mode)
        if wrong:
            program, wrong = shortest(program, wrong)
    text = "\n    ".join(statement + ("  # compared" if look else "") for statement, look in program)
    return f"{mode} {number}:\n    {text}", [f"=> {wrong[:600]}"] if wrong else []


def main() -> int:
    given = shares.options(__doc__, MODES, "operations", 100_000)
    if given.repeat:
        return shares.repeated(checked, *given.repeat)
    done, _, wrong = shares.run(checked, shares.shares(given.modes, given.count // LENGTH, given.first, 50),
                                given.processes, given.show)
    print(f"{sum(done.values()) * LENGTH} operations in {sum(done.values())} episodes; {wrong} differ")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
