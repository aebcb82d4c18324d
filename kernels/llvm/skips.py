"""Steps that run across rows with one index left out between them, such as `x[:, 1:]`.

If the rows of all arrays of a loop are one index longer than the loop, or the same row is used for all of
them, the loop counts the index between two rows, too.  A step then accesses whole vectors, as of contiguous
arrays, which costs less than the two rows of gaps.py.  The lane between the rows computes what a lane beside
it does, so that it raises no floating-point flag that an element does not raise, and it is never stored.
"""

from __future__ import annotations

from diffuse.ir.loops import LEFT_OUT, NEAR
from diffuse.kernels.body.expr import Argument, Body, Loop
from diffuse.kernels.llvm.code import Code
from diffuse.kernels.llvm.memory import GATHERED, Step
from diffuse.kernels.llvm.vectors import listed

LANES = 8
"""Lanes of the instruction that moves elements between lanes."""
BETWEEN = tuple([LEFT_OUT + step for step in ("1", *NEAR)])
"""The stride classes, in the last two dimensions, of an access to such rows."""


def applies(body: Body, loop: Loop, code: Code) -> bool:
    """May a loop over short rows run so?  They have to be longer than a vector: a step has then one lane
    between rows at most."""
    target = code.module.target
    if body.spaces[loop.space].flat < 2 or target.lanes != LANES or not target.permutes:
        return False

    def between(argument: Argument) -> bool:
        return argument.classes[-2:] in BETWEEN and argument.dtype in GATHERED

    stored = [body.arguments[op.attribute] for op in loop.ops if op.kind == "store"]
    loaded = [body.arguments[op.attribute] for op in loop.ops if op.kind == "load"]
    return bool(stored) and all(map(between, stored)) and all(
        [between(argument) or argument.classes[-2:] == "00"
         or argument.classes[-2] == "0" and argument.dtype in GATHERED for argument in loaded])


def at(code: Code, step: Step) -> Step:
    """The step with the lanes that are elements (`within`), and what all lanes compute on (`sources`)."""
    wide, masks, numbers = code.type("int64"), code.type("bool"), listed(range(LANES))
    within = code.let(f"icmp ne {wide} {numbers}, {code.splat('int64', step.left)}")
    if step.mask is not None:
        within = code.let(f"and {masks} {within}, {step.mask}")
    beside = code.let(f"zext i1 {code.let(f'icmp eq i64 {step.left}, 0')} to i64")
    others = code.splat("int64", beside)
    sources = code.let(f"select {masks} {within}, {wide} {numbers}, {wide} {others}")
    return step._replace(within=within, sources=sources)
