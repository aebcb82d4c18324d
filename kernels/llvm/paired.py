"""Steps of two vectors, in innermost loops with functions such as `exp`.

Nearly every instruction of such a function waits for the one before it.  A processor looks ahead by so many
instructions, and finds more of them ready where those of two vectors alternate: on Zen 5 loops take 5 to 25 %
less time.  Two vectors need the 32 registers of AVX-512.

Rows of 25 elements with gaps between them have one such step, which saves less than the steps of one vector
behind it cost, unless a loop has several such functions; rows of 10 have none.  They take one vector a step:
loops with one function over rows of 25 take 3 to 15 % less time.

In such a step the lanes of a value are those of both vectors; memory is accessed one vector at a time.
"""

from __future__ import annotations

from typing import Any

from diffuse.kernels.body.expr import Op
from diffuse.kernels.body.operations import TABLE
from diffuse.kernels.llvm.code import Code, with_lanes
from diffuse.kernels.llvm.crossing import plain
from diffuse.kernels.llvm.iteration import INNER
from diffuse.kernels.llvm.memory import Step, beside

LONG = 8
"""The least cost of such a function, in additions."""
DTYPES = {"float64", "bool"}
"""The element types of the values of such a loop."""


def applies(nest: Any) -> bool:
    """Does this loop take two vectors a step?"""
    if nest.gathers or not possible(nest):
        return False
    long = [op for op, place in zip(nest.loop.ops, nest.places, strict=True)
            if place == INNER and op.kind in TABLE and TABLE[op.kind].cost >= LONG]
    return len(long) > _rows_are_short(nest)


def possible(nest: Any) -> bool:
    """Are there registers for two vectors, and do all ops know them?"""
    code, ops = nest.code, nest.loop.ops
    return (code.lanes == code.module.target.lanes and bool(code.module.target.permutes)
            and plain(ops) and {op.dtype for op in ops} <= DTYPES)


def _rows_are_short(nest: Any) -> bool:
    """Does the innermost loop run along rows of two or four vectors, the last one partial, row by row?"""
    space = nest.body.spaces[nest.loop.space]
    return space.flat in (2, 4) and not nest.flat and nest.inner == space.rank - 1


def write(nest: Any, low: str, high: str, distance: str) -> None:
    """Write steps of two vectors from `low` to `high`, and fetch lines so many elements ahead."""
    code, values = nest.code, nest.values
    with nest.steps(low, high, 2 * code.lanes) as index:
        later = code.let(f"add nsw i64 {index}, {code.lanes}")
        first, second = Step(index), Step(later)
        if nest.rows is not None:
            first = nest.rows.at(first)
            second = nest.rows.behind(first)._replace(at=later)
        nest.ahead.fetch(index, distance)
        nest.ahead.fetch(later, distance)
        nest.values = dict(values)
        write_ops(nest, first._replace(second=second))
        if nest.rows is not None:
            nest.rows.advance(second)
    nest.values = values


def write_ops(nest: Any, step: Step) -> None:
    """Write the ops of the innermost loop for a step of two vectors.

    What does not change in the loop is widened for each use, in the basic block of the use: both vectors then
    share its register.
    """
    code, ops, single = nest.code, nest.loop.ops, dict(nest.values)
    for i, op in enumerate(ops):
        if nest.places[i] != INNER:
            continue
        for a in op.args:
            if nest.places[a] != INNER:
                nest.values[a] = _twice(code, ops[a], single[a])
        with with_lanes(code, 2 * code.lanes):
            nest.write_op(i, op, step)


def _twice(code: Code, op: Op, value: str) -> str:
    """A vector in both halves of one twice as wide."""
    literal = not value.startswith("%")
    return value if literal else beside(code, code.type(op.dtype), value, value, code.lanes)
