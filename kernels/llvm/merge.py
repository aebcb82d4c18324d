"""Merges the dimensions of a loop nest whose rows are adjacent in memory in all of its arrays.

Rows of two elements would leave most lanes of a vector unused, and each row costs a few instructions of its
own.  Whether the rows of a slice are adjacent is known at launch only: the kernel looks once for each loop
nest, and then runs the innermost loop over all dimensions that it may, and the others over one index.  With
two dimensions, short rows run as one loop in any case (flat.py), and long ones gain too little.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffuse.kernels.body.expr import Body, Loop
from diffuse.kernels.llvm.block import Block

Bounds = dict[int, tuple[str, str]]

PLACED = frozenset(("reduce", "scan", "index", "spmv", "turn", "pick", "nth", "scatter"))
"""Kinds of ops that depend on the index of each dimension."""


def rows(block: Block, body: Body, loop: Loop, order: Sequence[int], bounds: Bounds) -> None:
    """Change the bounds of the dimensions `order`, outermost first, to those of a loop over merged ones,
    where the strides of the arrays allow it."""
    code, inner, adjacent = block.code, order[-1], ""
    length, (low, high) = "1", bounds[inner]
    for d in _mergeable(body, loop, order):
        extent = block.extent(loop.space, d + 1)
        for argument in sorted({a for op in loop.ops for a in op.arguments}):
            if body.arguments[argument].classes[d] != "0":
                row = code.let(f"mul i64 {extent}, {block.stride(argument, d + 1)}")
                behind = code.let(f"icmp eq i64 {row}, {block.stride(argument, d)}")
                adjacent = code.let(f"and i1 {adjacent}, {behind}") if adjacent else behind
        length = code.let(f"mul nsw i64 {length}, {extent}")
        first, last = bounds[d]
        if not adjacent:  # one element of each array
            adjacent = "true"
        begin, end = (code.let(f"mul nsw i64 {bound}, {length}") for bound in (first, last))
        low = code.let(f"select i1 {adjacent}, i64 {begin}, i64 {low}")
        high = code.let(f"select i1 {adjacent}, i64 {end}, i64 {high}")
        bounds[d] = (code.let(f"select i1 {adjacent}, i64 0, i64 {first}"),
                     code.let(f"select i1 {adjacent}, i64 1, i64 {last}"))
    bounds[inner] = low, high


def _mergeable(body: Body, loop: Loop, order: Sequence[int]) -> list[int]:
    """Return the dimensions that may be merged with the one after them, from the last one on: a launch cuts
    none of those after it, and each array follows both or neither.  Short rows that are known to have gaps
    are not merged."""
    found: list[int] = []
    space = body.spaces[loop.space]
    if (space.rank < 3 or list(order) != [*range(len(order))]
            or any(op.kind in PLACED for op in loop.ops)):
        return found
    letters = [body.arguments[a].classes for op in loop.ops for a in op.arguments]
    for d in range(len(order) - 2, -1, -1):
        if d + 1 in space.axes or any((x[d] == "0") != (x[d + 1] == "0") for x in letters):
            break
        if space.flat and d == space.rank - 2 and not {x[d] for x in letters} <= {"c", "0"}:
            break
        found.append(d)
    return found
