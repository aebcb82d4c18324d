"""Writes at indices that are data: the op `scatter`.

Each point owns a part of the target.  It goes through all indices, in their order, and writes where they lie
in its part: so the last of several equal indices wins, and sums are those of one thread, whatever the number
of points.  Single elements are written without a branch: what belongs to another point goes to a spare place.
"""

from __future__ import annotations

from collections.abc import Mapping

from diffuse.kernels.body.expr import Op
from diffuse.kernels.llvm import memory
from diffuse.kernels.llvm.code import Value, counted, guarded, with_lanes
from diffuse.kernels.llvm.iteration import Iteration
from diffuse.kernels.llvm.memory import Place, Step, element, load_one, store_one
from diffuse.kernels.llvm.ops.instructions import anywhere
from diffuse.kernels.llvm.ops.rules import RULES, cast
from diffuse.kernels.llvm.reduce import const, select

SPARE = 16
"""Spare places, used in turn: a write does not wait for the one before it."""
SOME = 64
"""Indices that are looked at together, before any is written at."""
ONES = ("multiply", "divide", "floor_divide", "remainder", "power")
"""Operators that raise no flag for ones; all others raise none for zeros."""

Bounds = Mapping[int, tuple[str, str]]


class Scatter:
    """One op being written."""

    def __init__(self, iteration: Iteration, op: Op, bounds: Bounds) -> None:
        self.it, self.code, self.bounds = iteration, iteration.code, bounds
        self.operator, self.target, self.index, self.values, self.axis = op.attribute
        self.count, self.pitch = (str(iteration.values[a]) for a in op.args)
        arguments = iteration.body.arguments
        self.dtype, self.source = arguments[self.target].dtype, arguments[self.values].dtype
        self.spare = iteration.block.room(self.dtype, SPARE)
        self.neutral = const(self.code, self.dtype, 1 if self.operator in ONES else 0)

    def write(self) -> None:
        for k in range(SPARE):
            store_one(self.code, self.dtype, element(self.code, self.dtype, self.spare, str(k)), self.neutral)
        self._outside(0, self.it.bases())

    def _outside(self, dimension: int, bases: Mapping[int, str]) -> None:
        """The loops over the dimensions before the one that is indexed."""
        if dimension == self.axis:
            if dimension == self.it.space.rank - 1:
                self._elements(bases)
                return
            with counted(self.code, "0", self.count) as k:
                self._row(k, bases)
            return
        with counted(self.code, *self.bounds[dimension]) as index:
            self.it.index[dimension] = index
            self._outside(dimension + 1, self.it.along(dimension, bases))

    def _elements(self, bases: Mapping[int, str]) -> None:
        """All indices, each of one element: some together, if all lie in the point's part, or none."""
        code = self.code
        whole = code.let(f"and i64 {self.count}, {-SOME}")
        with counted(code, "0", whole, SOME) as start:
            end = code.let(f"add i64 {start}, {SOME}")
            some, every = self._together(start, bases)
            with guarded(code, some):
                with guarded(code, every), counted(code, start, end) as k:
                    self._element(k, bases, known=True)
                with guarded(code, code.let(f"xor i1 {every}, true")), counted(code, start, end) as k:
                    self._element(k, bases, known=False)
        with counted(code, whole, self.count) as k:
            self._element(k, bases, known=False)

    def _together(self, start: str, bases: Mapping[int, str]) -> tuple[str, str]:
        """Does any of the indices from this one on lie in the point's part, and do all?"""
        code, (low, high) = self.code, self.bounds[self.axis]
        length = code.let(f"sub i64 {high}, {low}")
        with with_lanes(code, code.module.target.lanes):
            kind, truth = code.type("int64"), code.type("bool")
            lows, lengths = code.splat("int64", low), code.splat("int64", length)
            some, every = code.const("bool", False), code.const("bool", True)
            for k in range(0, SOME, code.lanes):
                step = Step(code.let(f"add i64 {start}, {k}"))
                at = memory.load(code, Place("int64", "1", bases[self.index]), step)
                first = code.let(f"sub {kind} {at}, {lows}")
                inside = code.let(f"icmp ult {kind} {first}, {lengths}")
                some = code.let(f"or {truth} {some}, {inside}")
                every = code.let(f"and {truth} {every}, {inside}")
            if code.lanes == 1:
                return some, every
            none = code.let(f"xor {truth} {every}, {code.const('bool', True)}")
            missing = anywhere(code, none)
            return anywhere(code, some), code.let(f"xor i1 {missing}, true")

    def _places(self, k: str, bases: Mapping[int, str]) -> tuple[str, str, str]:
        """An index, where it lies, and where the value for it is."""
        code = self.code
        at = str(load_one(code, "int64", element(code, "int64", bases[self.index], k)))
        far = code.let(f"mul i64 {at}, {self.it.block.stride(self.target, self.axis)}")
        there = code.let(f"getelementptr i8, ptr {bases[self.target]}, i64 {far}")
        distance = code.let(f"mul i64 {k}, {self.pitch}")
        return at, there, element(code, self.source, bases[self.values], distance)

    def _inside(self, at: str) -> str:
        """Does an index lie in the point's part?"""
        code, (low, high) = self.code, self.bounds[self.axis]
        first, length = code.let(f"sub i64 {at}, {low}"), code.let(f"sub i64 {high}, {low}")
        return code.let(f"icmp ult i64 {first}, {length}")

    def _element(self, k: str, bases: Mapping[int, str], known: bool) -> None:
        code = self.code
        at, to, source = self._places(k, bases)
        found = cast(code, self.source, self.dtype, load_one(code, self.source, source))
        if not known:
            turn, inside = code.let(f"and i64 {k}, {SPARE - 1}"), self._inside(at)
            to = code.let(f"select i1 {inside}, ptr {to}, ptr {element(code, self.dtype, self.spare, turn)}")
            if self.operator:
                found = select(code, self.dtype, inside, found, self.neutral, uniform=True)
        if self.operator:
            found = self._folded(load_one(code, self.dtype, to), found)
        store_one(code, self.dtype, to, found)

    def _row(self, k: str, bases: Mapping[int, str]) -> None:
        at, there, value = self._places(k, bases)
        with guarded(self.code, self._inside(at)):
            self._rest(self.axis + 1, {self.target: there, self.values: value})

    def _folded(self, before: Value, value: Value) -> Value:
        kinds = (self.dtype, self.dtype)
        return RULES[self.operator](self.code, kinds, self.dtype, (before, value)) if self.operator else value

    def _rest(self, dimension: int, bases: Mapping[int, str]) -> None:
        """The loops over the dimensions behind it; the last one by vectors."""
        code, last = self.code, self.it.space.rank - 1
        low, high = self.bounds[dimension]
        if dimension < last:
            with counted(code, low, high) as index:
                self.it.index[dimension] = index
                self._rest(dimension + 1, self.it.along(dimension, bases))
            return
        target, values = (self.it.place(a, bases[a]) for a in (self.target, self.values))
        with with_lanes(code, code.module.target.lanes):
            length = code.let(f"sub i64 {high}, {low}")
            middle = code.let(f"add i64 {low}, {code.let(f'and i64 {length}, {-code.lanes}')}")
            with counted(code, low, middle, code.lanes) as index:
                self._several(target, values, Step(index))
            if code.lanes > 1:
                with guarded(code, code.let(f"icmp slt i64 {middle}, {high}")):
                    self._several(target, values, memory.last(code, middle, high))

    def _several(self, target: Place, values: Place, step: Step) -> None:
        code = self.code
        found = cast(code, self.source, self.dtype, memory.load(code, values, step))
        if self.operator:
            found = self._folded(memory.load(code, target, step), found)
        memory.store(code, target, step, found)
