"""Innermost loops over many strided elements, as in a solve along short rows: their elements pass through a
small buffer on the stack.

A step first copies what it loads from strided places to the buffer, then runs the ops on vectors, and last
copies what they stored to its places.  Each copy is a loop at run time over arguments that follow each other
in the block, so that the code stays small, and moves elements one by one: on Zen 5 a vector takes 1.5 ns,
and 3.6 ns by an instruction that gathers it.  The ops of an element wait for each other, so that full steps
are of two vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from diffuse.ir import ITEMSIZE
from diffuse.ir.loops import LEFT_OUT
from diffuse.kernels.body.expr import Body, Loop
from diffuse.kernels.llvm import memory, paired
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import MEMORY, Code, counted, with_lanes
from diffuse.kernels.llvm.crossing import plain
from diffuse.kernels.llvm.iteration import INNER
from diffuse.kernels.llvm.memory import GATHERED, Place, Step

MOST = 512
"""The most arguments that pass through the buffer, which takes a cache line or two for each."""


class Run(NamedTuple):
    """Arguments of one type that follow each other in the block."""

    first: int
    length: int
    dtype: str
    loaded: bool
    stored: bool


def runs(body: Body, loop: Loop, inner: int) -> list[Run]:
    """The strided arguments whose loads may be done before all other ops of a loop, and their stores after
    them.

    This is right for the arguments of a slot if no load from the slot follows a store to it, and if all of
    its stores are strided and come in the order of the arguments.
    """
    if not plain(loop.ops):
        return []
    loaded: set[int] = set()
    stored: dict[int, list[int]] = {}
    fixed: set[int] = set()
    for op in loop.ops:
        if op.kind not in ("load", "store"):
            continue
        slot = body.arguments[op.attribute].slot
        if op.kind == "load":
            loaded.add(op.attribute)
            if slot in stored:
                fixed.add(slot)
        else:
            before = stored.setdefault(slot, [])
            if not _strided(body, op.attribute, inner) or op.attribute <= max(before, default=-1):
                fixed.add(slot)
            before.append(op.attribute)
    written = {argument for each in stored.values() for argument in each}
    found: list[Run] = []
    for number in sorted(loaded | written):
        argument = body.arguments[number]
        if argument.slot in fixed or not _strided(body, number, inner):
            continue
        one = Run(number, 1, argument.dtype, number in loaded, number in written)
        if found and found[-1]._replace(first=number, length=1) == one and sum(found[-1][:2]) == number:
            found[-1] = found[-1]._replace(length=found[-1].length + 1)
        else:
            found.append(one)
    return found if sum([run.length for run in found]) <= MOST else []


def _strided(body: Body, number: int, inner: int) -> bool:
    """Are the elements of an argument strided, and of a type whose vectors are put together quickly?"""
    argument = body.arguments[number]
    return argument.classes[inner] in ("s", "c", LEFT_OUT) and argument.dtype in GATHERED


class Staged:
    """The buffer of a loop nest, and the copies to it and from it."""

    def __init__(self, nest: Any) -> None:
        code: Code = nest.code
        self.nest, self.code = nest, code
        self.vectors = 1 + paired.possible(nest)
        """The vectors of a full step."""
        self.copies = [Copies(nest, run, self.vectors * nest.code.lanes)
                       for run in runs(nest.body, nest.loop, nest.inner)]
        self.numbers = frozenset([each.run.first + k for each in self.copies for k in range(each.run.length)])

    def write(self, low: str, high: str) -> None:
        """Write the innermost loop: full steps, of two vectors if the processor has registers for them, then
        the remainder."""
        nest, code = self.nest, self.code
        for copies in self.copies:
            nest.accesses.update(copies.places())
            copies.row()
        middle = nest.before_last(low, high, self.vectors * code.lanes)
        with counted(code, low, middle, self.vectors * code.lanes) as index:
            self._full(index)
        with counted(code, middle, high, code.lanes) as index:
            self._last(memory.last(code, index, nest.end(index, code.lanes, high))._replace(column="0"))

    def _full(self, index: str) -> None:
        """Write a full step."""
        code, step = self.code, Step(index, column="0")
        lanes = [str(lane) for lane in range(self.vectors * code.lanes)]
        self._load(index, lanes)
        if self.vectors == 1:
            self.nest.write_ops(INNER, step)
        else:
            later, values = code.let(f"add nsw i64 {index}, {code.lanes}"), self.nest.values
            self.nest.values = dict(values)
            paired.write_ops(self.nest, step._replace(second=Step(later, column=str(code.lanes))))
            self.nest.values = values
        for copies in self.copies:
            if copies.run.stored:
                copies.store(index, lanes)

    def _last(self, step: Step) -> None:
        """Write a step of which some lanes may be inactive: they load what the first one loads."""
        code, lanes = self.code, ["0"]
        for lane in range(1, code.lanes):
            active = code.let(f"icmp sgt i64 {step.active}, {lane}")
            lanes.append(code.let(f"select i1 {active}, i64 {lane}, i64 0"))
        self._load(step.at, lanes)
        self.nest.write_ops(INNER, step)
        for copies in self.copies:
            if copies.run.stored:
                copies.store_some(step)

    def _load(self, index: str, lanes: list[str]) -> None:
        for copies in self.copies:
            if copies.run.loaded:
                copies.load(index, lanes)


class Copies:
    """The copies of one run of arguments."""

    def __init__(self, nest: Any, run: Run, width: int) -> None:
        code: Code = nest.code
        block: Block = nest.block
        self.nest, self.code, self.block, self.run = nest, code, block, run
        self.width = width
        self.buffer = self.block.room(run.dtype, run.length * width)
        self.starts = self.block.room("int64", run.length)
        """The addresses of the elements at index 0 of the current row."""
        self.rank = nest.space.rank

    def places(self) -> dict[int, Place]:
        """The place of each argument in the buffer."""
        run, code = self.run, self.code
        return {run.first + k: Place(run.dtype, "r", memory.element(code, run.dtype, self.buffer,
                                                                    str(k * self.width)))
                for k in range(run.length)}

    def row(self) -> None:
        """Compute where the row begins in each argument."""
        code, nest = self.code, self.nest
        with counted(code, "0", str(self.run.length)) as k:
            at = self._word(k, 0)
            for dimension in nest.order[:-1]:
                distance = code.let(f"mul nsw i64 {nest.index[dimension]}, {self._word(k, 1 + dimension)}")
                at = code.let(f"add i64 {at}, {distance}")
            memory.store_one(code, "int64", memory.element(code, "int64", self.starts, k), at)

    def load(self, index: str, lanes: list[str]) -> None:
        """Copy the elements of these lanes of the step at an index to the buffer."""
        code, dtype = self.code, self.run.dtype
        with self._each(index) as (at, stride, row), with_lanes(code, len(lanes)):
            raw = memory.load_lanes(code, dtype, lambda lane: self._apart(at, stride, lanes[lane]))
            code.do(f"store {code.memory(dtype)} {raw}, ptr {row}, align {ITEMSIZE[dtype]}")

    def store(self, index: str, lanes: list[str]) -> None:
        """Copy the elements of all lanes of the step at an index from the buffer."""
        code, dtype = self.code, self.run.dtype
        with self._each(index) as (at, stride, row):
            for lane in lanes:
                self._move(memory.element(code, dtype, row, lane), self._apart(at, stride, lane))

    def store_some(self, step: Step) -> None:
        """Copy the elements of the active lanes of a step from the buffer."""
        code, dtype = self.code, self.run.dtype
        with self._each(step.at) as (at, stride, row), counted(code, "0", str(step.active)) as lane:
            self._move(memory.element(code, dtype, row, lane), self._apart(at, stride, lane))

    @contextmanager
    def _each(self, index: str) -> Iterator[tuple[str, str, str]]:
        """A loop over the arguments of the run; yields the address of the element at this index, the stride,
        and the address in the buffer."""
        code, dtype = self.code, self.run.dtype
        with counted(code, "0", str(self.run.length)) as k:
            start = code.let(f"load ptr, ptr {memory.element(code, 'int64', self.starts, k)}, align 8")
            stride = self._word(k, 1 + self.nest.inner)
            row = code.let(f"mul nsw i64 {k}, {self.width}")
            yield self._apart(start, stride, index), stride, memory.element(code, dtype, self.buffer, row)

    def _apart(self, at: str, stride: str, lane: str) -> str:
        distance = self.code.let(f"mul nsw i64 {stride}, {lane}")
        return self.code.let(f"getelementptr inbounds i8, ptr {at}, i64 {distance}")

    def _move(self, source: str, target: str) -> None:
        kind, align = MEMORY[self.run.dtype], ITEMSIZE[self.run.dtype]
        one = self.code.let(f"load {kind}, ptr {source}, align {align}")
        self.code.do(f"store {kind} {one}, ptr {target}, align {align}")

    def _word(self, k: str, offset: int) -> str:
        """A word of an argument of the run: its address, then its strides."""
        code = self.code
        row = code.let(f"mul nsw i64 {k}, {1 + self.rank}")
        first = self.block.words.arguments[self.run.first] + offset
        word = code.let(f"add nsw i64 {row}, {first}")
        at = code.let(f"getelementptr inbounds i64, ptr %block, i64 {word}")
        return code.let(f"load i64, ptr {at}, align 8")
