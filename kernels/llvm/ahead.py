"""Innermost loops that fetch the memory of later steps.

A processor overlaps few steps of a long loop, so it asks late for the memory of arrays that outgrew the
second-level cache.  Such a loop therefore fetches the lines (prefetches) of the elements some steps ahead.
"""

from __future__ import annotations

from typing import Any

from diffuse.ir import ITEMSIZE
from diffuse.kernels.llvm import memory, width
from diffuse.kernels.llvm.code import COMPONENT
from diffuse.kernels.llvm.crossing import plain

DISTANCE = 1024
"""How many bytes ahead of a step lines are fetched."""
LENGTH = 4
"""The least length of a row, in such distances: what is fetched behind its end may be in vain."""
BUSY = 2
"""The least cost of such a loop's ops, in additions; loops that reduce need only one beside the reduction."""


class Ahead:
    """The accesses of one loop whose lines are fetched ahead."""

    def __init__(self, nest: Any) -> None:
        self.nest = nest
        self.arguments = _arguments(nest)
        """The arguments, and for each whether it is only written."""

    def distance(self, low: str, high: str) -> str:
        """How many elements ahead of a step lines are fetched; none in short rows."""
        if not self.arguments:
            return "0"
        code, accesses = self.nest.code, self.nest.accesses
        count = DISTANCE // max([ITEMSIZE[accesses[a].dtype] for a in self.arguments])
        length = code.let(f"sub i64 {high}, {low}")
        long = code.let(f"icmp sge i64 {length}, {LENGTH * count}")
        found: str = code.let(f"select i1 {long}, i64 {count}, i64 0")
        return found

    def fetch(self, index: str, distance: str) -> None:
        """Fetch the lines that a later step of the innermost loop accesses."""
        code = self.nest.code
        later = code.let(f"add i64 {index}, {distance}") if self.arguments else index
        for argument, write in self.arguments.items():
            place = self.nest.accesses[argument]
            there = code.let(f"getelementptr {code.memory(place.dtype, 1)}, ptr {place.base}, i64 {later}")
            memory.prefetch(code, there, write=write, keep=True)


def _arguments(nest: Any) -> dict[int, bool]:
    """The arguments whose elements lie side by side and are fetched ahead, and for each whether it is only
    written."""
    ops = nest.loop.ops
    least = 1 if any(op.kind == "reduce" for op in ops) else BUSY
    if not nest.code.module.target.ahead or nest.flat or width.cost(ops) < least:
        return {}
    if width.lanes(nest) == 1 or not plain(ops, "reduce"):
        return {}
    found: dict[int, bool] = {}
    for op in ops:
        if op.kind in ("load", "store") and op.attribute != nest.streamed:
            argument = nest.body.arguments[op.attribute]
            if argument.classes[nest.inner] == "1" and argument.dtype not in COMPONENT:
                found.setdefault(op.attribute, op.kind == "store")
    return found
