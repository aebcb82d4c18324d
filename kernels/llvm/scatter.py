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
from diffuse.kernels.llvm.ops.rules import RULES, cast
from diffuse.kernels.llvm.reduce import const, select

SPARE = 16
"""Spare places, used in turn: a write does not wait for the one before it."""
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
            with counted(self.code, "0", self.count) as k:
                self._at(k, bases)
            return
        with counted(self.code, *self.bounds[dimension]) as index:
            self.it.index[dimension] = index
            self._outside(dimension + 1, self.it.along(dimension, bases))

    def _at(self, k: str, bases: Mapping[int, str]) -> None:
        """One index, and the elements that it stands for."""
        code, (low, high) = self.code, self.bounds[self.axis]
        at = str(load_one(code, "int64", element(code, "int64", bases[self.index], k)))
        first, length = code.let(f"sub i64 {at}, {low}"), code.let(f"sub i64 {high}, {low}")
        inside = code.let(f"icmp ult i64 {first}, {length}")
        far = code.let(f"mul i64 {at}, {self.it.block.stride(self.target, self.axis)}")
        there = code.let(f"getelementptr i8, ptr {bases[self.target]}, i64 {far}")
        value = element(code, self.source, bases[self.values], code.let(f"mul i64 {k}, {self.pitch}"))
        if self.axis == self.it.space.rank - 1:
            turn = code.let(f"and i64 {k}, {SPARE - 1}")
            to = code.let(f"select i1 {inside}, ptr {there}, ptr {element(code, self.dtype, self.spare, turn)}")
            self._one(to, load_one(code, self.source, value), inside)
            return
        with guarded(code, inside):
            self._inside(self.axis + 1, {self.target: there, self.values: value})

    def _one(self, to: str, value: Value, inside: str) -> None:
        code = self.code
        found = cast(code, self.source, self.dtype, value)
        if self.operator:
            found = select(code, self.dtype, inside, found, self.neutral, uniform=True)
            found = self._folded(load_one(code, self.dtype, to), found)
        store_one(code, self.dtype, to, found)

    def _folded(self, before: Value, value: Value) -> Value:
        kinds = (self.dtype, self.dtype)
        return RULES[self.operator](self.code, kinds, self.dtype, (before, value)) if self.operator else value

    def _inside(self, dimension: int, bases: Mapping[int, str]) -> None:
        """The loops over the dimensions behind it; the last one by vectors."""
        code, last = self.code, self.it.space.rank - 1
        low, high = self.bounds[dimension]
        if dimension < last:
            with counted(code, low, high) as index:
                self.it.index[dimension] = index
                self._inside(dimension + 1, self.it.along(dimension, bases))
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
