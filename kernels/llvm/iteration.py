"""Writes the ops of a loop for one step: the values of its lanes, from loads to stores.

The loops around them differ between targets (nest.py for processors, `kernels.grid` for GPUs) and provide the
step's position: the index of each dimension, and the place of each argument.

Ops are written in one of three places: at the head of the loop nest (literals, scalars and what depends on
nothing else), at the head of a row (what does not change along it), or in the innermost loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from typing import Protocol

from diffuse.ir import ITEMSIZE
from diffuse.ir.loops import LEFT_OUT, NEAR, REPEATS
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body, Loop, Op
from diffuse.kernels.body.operations import neutral
from diffuse.kernels.body.user import FUNCTIONS
from diffuse.kernels.llvm import memory, nth, picks, predication, reduce, scan, sparse, turn
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, Value, with_lanes
from diffuse.kernels.llvm.flags import unflagged
from diffuse.kernels.llvm.memory import Place, Step
from diffuse.kernels.llvm.ops.rules import RULES, cast

HEAD, ROW, INNER = range(3)


class Folding(Protocol):
    """A reduction inside the loop that feeds it."""

    def element(self, value: Value, step: Step) -> None:
        """Write the code that folds the lanes of one step."""


def places(body: Body, loop: Loop, inner: Collection[int]) -> list[int]:
    """For each op of a loop, where it is written (HEAD, ROW or INNER); `inner` are the dimensions of the
    innermost loop."""
    stored = {body.arguments[op.attribute][:2] for op in loop.ops if op.kind == "store"}
    found: list[int] = []
    for op in loop.ops:
        match op.kind:
            case "load":
                argument = body.arguments[op.attribute]
                moves = any(argument.classes[d] != "0" for d in inner)
                found.append(INNER if moves or argument[:2] in stored else ROW)
            case "scalar" | "const":
                found.append(HEAD)
            case "index":
                found.append(INNER if op.attribute in inner else ROW)
            case "store" | "reduce" | "scan" | "spmv" | "turn" | "nth" | "scatter":
                found.append(INNER)
            case "pick":
                moves = any(body.arguments[op.attribute].classes[d] != "0" for d in inner)
                found.append(INNER if moves else max(ROW, found[op.args[0]]))
            case _:
                found.append(max((found[a] for a in op.args), default=HEAD))
    return found


class Iteration:
    """The ops of one loop being written."""

    def __init__(self, code: Code, block: Block, body: Body, number: int, inner: Collection[int] = ()
                 ) -> None:
        self.code, self.block, self.body, self.number = code, block, body, number
        self.loop = body.loops[number]
        self.space = body.spaces[self.loop.space]
        self.order = abi.order_of(body, self.loop)
        self.inner = self.order[-1] if self.order else -1
        self.places = places(body, self.loop, inner or self.order[-1:])
        self.picked: Collection[int] = range(len(self.loop.ops))
        """The numbers of the ops to write."""
        self.silent = sparse.alone(self.loop.ops)
        """Are sparse products the only ops that could raise a flag?"""
        self.values: dict[int, Value] = {}
        self.index: dict[int, str] = {}
        self.accesses: dict[int, Place] = {}
        """For each argument that is loaded or stored, its place in this row."""
        self.running: dict[int, list[str]] = {}
        """For each scan, the place of its running value."""
        self.reductions: Mapping[int, Folding] = {}
        """For each reduction, the object that folds into it."""
        self.counts: dict[int, nth.Nth] = {}
        """For each op that counts the true elements of a mask, its queue."""
        self.turns = turn.Turns(code, block, self.loop, self.inner)

    def bases(self) -> dict[int, str]:
        """The base addresses of the arguments that are loaded and stored."""
        ops = [self.loop.ops[i] for i in self.picked]
        used = {a for op in ops if op.kind != "reduce" for a in op.arguments}
        return {a: self.block.address(a) for a in sorted(used)}

    def along(self, dimension: int, bases: Mapping[int, str]) -> dict[int, str]:
        """Advance these addresses to the current index of a dimension."""
        code, moved = self.code, dict(bases)
        for argument, base in bases.items():
            shifted = dimension in self.turns.along.get(argument, ())
            if not shifted and self.body.arguments[argument].classes[dimension] != "0":
                stride = self.block.stride(argument, dimension)
                offset = code.let(f"mul nsw i64 {self.index[dimension]}, {stride}")
                moved[argument] = code.let(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")
        return moved

    def place(self, argument: int, base: str) -> Place:
        """The place of an argument's row that begins at address `base`."""
        kind = self.body.arguments[argument]
        letter = kind.classes[self.inner] if self.order else "0"
        stride = self.block.stride(argument, self.inner) if letter in ("s", "c", LEFT_OUT, *NEAR) else "0"
        plain = {"c": "s", LEFT_OUT: "s", **dict.fromkeys(REPEATS, "1")}
        return Place(kind.dtype, plain.get(letter, letter), base, stride)

    def start_scans(self) -> None:
        for i, op in enumerate(self.loop.ops):
            if op.kind == "scan":
                if op.attribute[1] != self.inner:
                    raise NotImplementedError(f"a scan along {op.attribute[1]} in a loop over {self.order}")
                if i not in self.running:
                    self.running[i] = [self.block.room(op.dtype, 1)]
                with with_lanes(self.code, 1):
                    start = reduce.const(self.code, op.dtype, neutral(op.attribute[0], op.dtype))
                memory.store_one(self.code, op.dtype, self.running[i][0], start)

    def start_counts(self, first: str) -> None:
        """Begin to count the true elements of masks at the row's first index."""
        for i, op in enumerate(self.loop.ops):
            if op.kind == "nth":
                length, blocks = (str(memory.lane(self.code, "int64", self.values[a], "0")) for a in op.args)
                base, counts = (self.accesses[a].base for a in op.attribute)
                self.counts[i] = nth.Nth(self.code, self.block)
                self.counts[i].start(nth.Mask(base, counts, length, blocks), first)

    def write_ops(self, place: int, step: Step) -> None:
        for i in self.picked:
            if self.places[i] == place:
                self.write_op(i, self.loop.ops[i], step)
        if place == ROW:
            self.turns.row(self.index, self.accesses)

    def write_op(self, i: int, op: Op, step: Step) -> None:
        write = _STRUCTURAL.get(op.kind)
        if write is not None:
            write(self, i, op, step)
            return
        arguments = tuple(self.values[a] for a in op.args)
        if op.kind in FUNCTIONS:
            self.values[i] = predication.call(self.code, FUNCTIONS[op.kind], arguments)
            return
        if op.kind not in RULES:
            raise NotImplementedError(f"no lowering rule for {op.kind!r}")
        dtypes = tuple(self.loop.ops[a].dtype for a in op.args)
        self.values[i] = RULES[op.kind](self.code, dtypes, op.dtype, arguments)

    def _load(self, i: int, op: Op, step: Step) -> None:
        self.values[i] = memory.load(self.code, self.accesses[op.attribute], step)

    def _turn(self, i: int, op: Op, step: Step) -> None:
        self.values[i] = self.turns.load(i, op, self.accesses[op.attribute[0]], step)

    def _pick(self, i: int, op: Op, step: Step) -> None:
        place, distance = self.accesses[op.attribute], str(self.values[op.args[0]])
        if self.places[op.args[0]] == INNER:
            self.values[i] = picks.load_apart(self.code, place, step, distance)
        else:
            self.values[i] = picks.load_behind(self.code, place, step, distance)

    def _nth(self, i: int, op: Op, step: Step) -> None:
        self.values[i] = self.counts[i].take(step)

    def _store(self, i: int, op: Op, step: Step) -> None:
        (value,), place = op.args, self.accesses[op.attribute]
        cast_value = cast(self.code, self.loop.ops[value].dtype, place.dtype, self.values[value])
        memory.store(self.code, place, step, cast_value)

    def _scalar(self, i: int, op: Op, step: Step) -> None:
        value = self.block.scalar(op.attribute)
        self.values[i] = memory.splat(self.code, op.dtype, value)

    def _const(self, i: int, op: Op, step: Step) -> None:
        self.values[i] = reduce.const(self.code, op.dtype, op.attribute)

    def _index(self, i: int, op: Op, step: Step) -> None:
        code = self.code
        if op.attribute == self.inner:
            lanes = reduce.consecutive(code, step.at)
            if step.mask is not None:  # an invalid index could raise flags: 1 / (i - n)
                first = code.splat("int64", step.at)
                lanes = code.let(f"select {code.type('bool')} {step.mask}, {code.type('int64')} {lanes}, "
                                 f"{code.type('int64')} {first}")
            self.values[i] = lanes
        else:
            self.values[i] = code.splat("int64", self.index[op.attribute])

    def _cast(self, i: int, op: Op, step: Step) -> None:
        source = self.loop.ops[op.args[0]].dtype
        self.values[i] = cast(self.code, source, op.dtype, self.values[op.args[0]])

    def _spmv(self, i: int, op: Op, step: Step) -> None:
        """Write a sparse product.  Flags of products are discarded, once for the whole nest if nothing else
        raises any."""
        within = not self.silent and sparse.silent(op)
        with unflagged(self.code, self.block) if within else nullcontext():
            self._write_spmv(i, op, step)

    def _write_spmv(self, i: int, op: Op, step: Step) -> None:
        low, high = (self.values[a] for a in op.args)
        if len(op.attribute) == 1:
            self.values[i] = sparse.totals(self.code, self.block, op.dtype, (str(low), str(high)),
                                                self.accesses[op.attribute[0]])
            return
        values, columns, dense = op.attribute
        split = self.block.split(dense) if dense in self.body.split else None
        operands = sparse.Operands(self.accesses[values], self.accesses[columns], self.accesses[dense], split)
        if self.space.rank == 1:
            bounds = str(low), str(high)
            self.values[i] = sparse.rows(self.code, self.block, op.dtype, bounds, operands, step.at)
            return
        width = self.block.extent(self.loop.space, self.inner)
        pitch = self.code.let(f"mul nuw i64 {width}, {ITEMSIZE[operands.dense.dtype]}")
        self.values[i] = sparse.columns(self.code, op.dtype, (low, high), operands, pitch, step)

    def _reduce(self, i: int, op: Op, step: Step) -> None:
        self.reductions[i].element(self.values[op.args[0]], step)

    def _scan(self, i: int, op: Op, step: Step) -> None:
        self.values[i] = scan.running(self.code, op.attribute[0], op.dtype, self.values[op.args[0]],
                                      self.running[i][0], step.at)


_STRUCTURAL: dict[str, Callable[[Iteration, int, Op, Step], None]] = {
    "load": Iteration._load, "store": Iteration._store, "scalar": Iteration._scalar,
    "const": Iteration._const, "index": Iteration._index, "cast": Iteration._cast,
    "reduce": Iteration._reduce, "scan": Iteration._scan, "spmv": Iteration._spmv,
    "turn": Iteration._turn, "pick": Iteration._pick, "nth": Iteration._nth,
}
