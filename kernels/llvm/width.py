"""Chooses how many elements a step of an innermost loop computes: one, a vector of the target, or more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diffuse.ir import ITEMSIZE
from diffuse.ir.loops import LEFT_OUT
from diffuse.kernels.body.expr import Op
from diffuse.kernels.body.operations import TABLE
from diffuse.kernels.llvm import scan
from diffuse.kernels.llvm.crossing import plain

OF_BYTES = frozenset("""load turn store scalar const cast copy add subtract multiply negative positive
    absolute bitwise_and bitwise_or bitwise_xor invert left_shift right_shift logical_and logical_or
    logical_xor logical_not equal not_equal less less_equal greater greater_equal maximum minimum where
    clip""".split())
"""Kinds of ops that have instructions for vectors of bytes."""
NARROW = 4
"""The least bytes of an element for which all other kinds of ops have vector instructions."""

APART = 4
"""The largest cost of the ops of a loop that goes element by element, in additions per access."""
CHAIN = 48
"""The most ops of such a loop of which each needs the result of the one before it."""
DEEP = 64
"""The same for loops of which fewer accesses are strided."""


def lanes(nest: Any) -> int:
    """The number of elements per step.

    Where no element is wider than four bytes, and the processor masks vectors of bytes (AVX-512), more
    elements than the target's lanes fill a vector.
    """
    target, ops = nest.code.module.target, nest.loop.ops
    kinds = {op.kind for op in ops}
    if "scatter" in kinds or not nest.order or "scan" in kinds and not _scans_vectors(nest):
        return 1
    if not nest.flat and not nest.gathers and _strided(nest):
        return 1
    vector: int = target.lanes
    if nest.flat or not target.masks_bytes or not plain(ops, "turn") or not _contiguous(nest):
        return vector
    widest = max([ITEMSIZE[op.dtype] for i, op in enumerate(ops) if i not in nest.turns.shifts])
    return vector * 8 // min(max(widest, 1 if kinds <= OF_BYTES else NARROW), 8)


def gathers(nest: Any) -> bool:
    """Is the loop so long that assembling vectors from strided elements would take long to compile?"""
    depth = _depth(nest.loop.ops)
    return depth > DEEP or depth > CHAIN and _strided(nest)


def cost(ops: Sequence[Op]) -> int:
    """What the operations among these ops cost, in additions."""
    return sum([TABLE[op.kind].cost for op in ops if op.kind in TABLE])


def _depth(ops: Sequence[Op]) -> int:
    """The number of ops on the longest path from a load to a store."""
    found: list[int] = []
    for op in ops:
        found.append(1 + max([found[a] for a in op.args], default=-1))
    return max(found)


def _scans_vectors(nest: Any) -> bool:
    """May the scans of the loop fold vectors of elements that lie side by side?"""
    return all([scan.associative(op) for op in nest.loop.ops if op.kind == "scan"]) and _contiguous(nest)


def _contiguous(nest: Any) -> bool:
    """Do the elements of each access lie side by side along the innermost dimension, or at one place?"""
    return set(_letters(nest)) <= {"0", "1"}


def _strided(nest: Any) -> bool:
    """Are most accesses strided, with little computation?

    Vectors would then be assembled element by element, which gains nothing and takes ten times as long to
    compile, unless the ops of one element form so long a chain that the processor does not reach the next
    element meanwhile.
    """
    ops = nest.loop.ops
    if not nest.order or not plain(ops):
        return False
    letters = _letters(nest)
    moving = len(letters) - letters.count("0")
    return 4 * letters.count("s") > 3 * moving and cost(ops) <= APART * moving


def _letters(nest: Any) -> list[str]:
    """How the elements of each access lie along the innermost dimension (`Argument.classes`)."""
    found = [nest.body.arguments[a].classes[nest.inner] for op in nest.loop.ops for a in op.arguments]
    return ["s" if letter == LEFT_OUT else letter for letter in found]
