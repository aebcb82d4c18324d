"""Gathers: finds which arguments of a fused task are indices into others, so that ranks know what they need.

Rows of a sparse matrix read its elements between two positions, and those of a dense operand at the columns
found there.
"""

from __future__ import annotations

from dataclasses import replace

from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body, Loop, Op
from diffuse.runtime.base import Gather


def gathers(body: Body) -> tuple[Gather, ...]:
    """The gathers of a body; empty if the arguments of one of them are also read in other ways."""
    found: list[Gather] = []
    words = abi.words(body)
    early = len(body.loops) - body.epilogue
    for number, loop in enumerate(body.loops):
        for op in loop.ops:
            if op.kind == "spmv":
                ends = [_loaded(loop, value) for value in op.args]
                if number >= early or -1 in ends:
                    return ()
                columns, dense = op.attribute[1:] or (-1, -1)
                along = op.attribute[:2]
                split = words.splits[body.split.index(dense)] if dense in body.split else 0
                found.append(Gather(ends[0], ends[1], along, columns, dense, split))
    special = {a for each in found for a in (*each.along, each.dense)}
    others = {a for loop in body.loops for op in loop.ops if op.kind != "spmv" for a in op.arguments}
    return tuple(dict.fromkeys(found)) if special.isdisjoint(others) else ()


def split(body: Body) -> Body:
    """The body with the dense operands of its gathers in two places."""
    dense = dict.fromkeys([each.dense for each in gathers(body) if each.dense >= 0])
    return replace(body, split=tuple(dense)) if dense else body


def _loaded(loop: Loop, value: int) -> int:
    """The argument that a value was loaded from, with at most a cast; -1 if it was computed."""
    op: Op = loop.ops[value]
    while op.kind == "cast":
        op = loop.ops[op.args[0]]
    return op.attribute if op.kind == "load" else -1
