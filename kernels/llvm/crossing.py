"""Elementwise loops over the rows of one array and the columns of another, as a transposed operand has them.

Each element of a column lies in a page of its own, and a processor remembers the addresses of some 1,500
pages.  So such a loop takes a part of the rows at a time: the lines that it fetches for the elements of one
row hold those of the next rows, too, and are still at hand for them.
"""

from __future__ import annotations

from collections.abc import Iterable

from diffuse.ir.loops import LEFT_OUT
from diffuse.kernels.body.expr import Body, Loop, Op
from diffuse.kernels.body.operations import TABLE

ELEMENTS = 512
"""How many elements of each row are taken at a time."""
PLAIN = {"load", "store", "scalar", "const", "cast", "index"}
"""Kinds of ops, besides those of `TABLE`, that loops with strided accesses may have."""


def plain(ops: Iterable[Op], *more: str) -> bool:
    """Are all ops elementwise, loads or stores, or of one of these other kinds?"""
    return {op.kind for op in ops} <= TABLE.keys() | PLAIN | {*more}


def applies(body: Body, loop: Loop, order: tuple[int, ...]) -> bool:
    """Does an elementwise loop in this order of dimensions go through rows and columns?"""
    if len(order) < 2 or not plain(loop.ops):
        return False
    around, inner = order[-2:]
    accesses = [body.arguments[a].classes for op in loop.ops for a in op.arguments]
    return (any(classes[around] == "1" and classes[inner] in ("s", LEFT_OUT) for classes in accesses)
            and any(classes[inner] == "1" for classes in accesses))
