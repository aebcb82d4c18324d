"""Cyclically shifted reads: the op `turn`.

Along an outer dimension the shift selects another row.  Along the innermost one a step reads contiguous lanes
unless the end of the dimension lies among them: then, once or twice a row, its elements are collected in a
small buffer first.
"""

from __future__ import annotations

from collections.abc import Mapping

from diffuse.ir import ITEMSIZE
from diffuse.kernels.body.expr import Loop, Op
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, Value, counted, guarded, with_lanes
from diffuse.kernels.llvm.memory import (
    Place,
    Step,
    element,
    last,
    load,
    load_one,
    merge,
    store_merged,
    store_one,
)


class Turns:
    """The shifted reads of one loop nest."""

    def __init__(self, code: Code, block: Block, loop: Loop, inner: int) -> None:
        self.code, self.block, self.loop, self.inner = code, block, loop, inner
        ops = [op for op in loop.ops if op.kind == "turn"]
        self.along = {op.attribute[0]: op.attribute[1] for op in ops}
        """For each shifted argument, the dimensions along which it is shifted."""
        self.shifts = {a for op in ops for a in op.args}
        """The values that hold the shifts."""
        self.rows: dict[int, str] = {}
        """For each op, the address of the row that it reads; that of its first element, if the row itself is
        shifted."""

    def row(self, index: Mapping[int, str], accesses: Mapping[int, Place]) -> None:
        """Compute the rows to read for these indices of the outer dimensions."""
        for i, op in enumerate(self.loop.ops):
            if op.kind != "turn" or op.attribute[0] not in accesses:
                continue
            argument, along = op.attribute
            base = accesses[argument].base
            for value, d in zip(op.args, along, strict=True):
                if d != self.inner:
                    at = self._wrapped(index[d], self._shift(value), d)
                    base = self._moved(base, at, self.block.stride(argument, d))
            self.rows[i] = base

    def load(self, i: int, op: Op, place: Place, step: Step) -> Value:
        """Load the elements that op `i` reads in a step; `place` is that of its argument."""
        argument, along = op.attribute
        code, base = self.code, self.rows[i]
        if self.inner not in along:
            return load(code, place._replace(base=base), step)
        if place.letter != "1":
            place = place._replace(letter="s")
        at = self._wrapped(step.at, self._shift(op.args[along.index(self.inner)]), self.inner)
        stride = self.block.stride(argument, self.inner)
        beside = self._moved(base, at, stride)
        if code.lanes == 1:
            return load_one(code, place.dtype, beside, place.constant)
        count = step.active or str(code.lanes)
        end = code.let(f"add nsw i64 {at}, {count}")
        apart = code.let(f"icmp sgt i64 {end}, {self._extent(self.inner)}")
        room = self.block.room(place.dtype, code.lanes)
        with guarded(code, apart):
            if place.letter == "1":
                self._merge(room, beside, at, place.dtype, step)
            else:
                self._collect(room, base, at, stride, place.dtype, count)
        start = code.let(f"select i1 {apart}, ptr {room}, ptr {beside}")
        if place.letter == "s":
            stride = code.let(f"select i1 {apart}, i64 {ITEMSIZE[place.dtype]}, i64 {stride}")
        return load(code, place._replace(base=start, stride=stride), step._replace(at="0"))

    def _merge(self, room: str, beside: str, at: str, dtype: str, step: Step) -> None:
        """Merge the lanes from the end of a row with those from its beginning, by two masked loads."""
        code, extent = self.code, self._extent(self.inner)
        kind = code.type("bool")
        before = last(code, at, extent).mask
        after = code.let(f"xor {kind} {before}, {code.const('bool', True)}")
        if step.mask is not None:
            before, after = [code.let(f"and {kind} {mask}, {step.mask}") for mask in (before, after)]
        assert before is not None
        back = code.let(f"mul nsw i64 {extent}, {-ITEMSIZE[dtype]}")
        start = code.let(f"getelementptr i8, ptr {beside}, i64 {back}")
        merged = merge(code, dtype, start, after, merge(code, dtype, beside, before))
        store_merged(code, dtype, room, merged)

    def _collect(self, room: str, base: str, at: str, stride: str, dtype: str, count: str) -> None:
        """Copy the lanes to the buffer one by one."""
        with with_lanes(self.code, 1), counted(self.code, "0", count) as k:
            one = self._moved(base, self._wrapped(at, k, self.inner), stride)
            value = load_one(self.code, dtype, one)
            store_one(self.code, dtype, element(self.code, dtype, room, k), value)

    def _wrapped(self, index: str, by: str, dimension: int) -> str:
        """(index + by) mod extent, for two numbers below the extent of a dimension."""
        code = self.code
        moved = code.let(f"add nsw i64 {index}, {by}")
        back = code.let(f"sub nsw i64 {moved}, {self._extent(dimension)}")
        over = code.let(f"icmp sge i64 {back}, 0")
        return code.let(f"select i1 {over}, i64 {back}, i64 {moved}")

    def _moved(self, base: str, index: str, stride: str) -> str:
        offset = self.code.let(f"mul nsw i64 {index}, {stride}")
        return self.code.let(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")

    def _extent(self, dimension: int) -> str:
        return self.block.extent(self.loop.space, dimension)

    def _shift(self, value: int) -> str:
        """The shift held in a value."""
        op = self.loop.ops[value]
        if op.kind != "scalar":
            raise NotImplementedError(f"a shift that is no scalar but {op.kind}")
        return str(self.block.scalar(op.attribute))
