"""Arithmetic that raises no floating-point flag: the processor's are put back behind it as they were before.

The flags of a task are read once, when it is done, and reported as NumPy's warnings.  Some of what a task
computes may not warn: SciPy's sparse products, which are not NumPy's, let infinities and overflow pass.  So
the flags are read before such code and behind it, and written only if it raised one: exact, for whatever
stands around it, at the cost of two reads.  Where flags are kept in another register than SSE's, nothing is
written, and such code may warn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, guarded

MXCSR_INVALID, MXCSR_OVERFLOW, MXCSR_UNDERFLOW = 1, 8, 16
"""Bits of the status register of SSE."""


@contextmanager
def unflagged(code: Code, block: Block) -> Iterator[None]:
    """What is written inside, of one or more basic blocks, raises no flag that is reported."""
    if not code.module.target.sse:
        yield
        return
    before, behind = block.room("int32", 1), block.room("int32", 1)
    # The condition always holds.  It makes a basic block of the reading, into which LLVM moves no arithmetic
    # from above, for to LLVM that has nothing to do with flags.
    with guarded(code, code.let(f"icmp sgt i64 {block.word(0)}, 0")):
        _read(code, before)
    yield
    _read(code, behind)
    words = [code.let(f"load i32, ptr {at}, align 4") for at in (before, behind)]
    changed = code.let(f"xor i32 {words[0]}, {words[1]}")
    raised = code.let(f"and i32 {changed}, {MXCSR_INVALID | MXCSR_OVERFLOW | MXCSR_UNDERFLOW}")
    with guarded(code, code.let(f"icmp ne i32 {raised}, 0")):
        code.declare("declare void @llvm.x86.sse.ldmxcsr(ptr)")
        code.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {before})")


def _read(code: Code, at: str) -> None:
    code.declare("declare void @llvm.x86.sse.stmxcsr(ptr)")
    code.do(f"call void @llvm.x86.sse.stmxcsr(ptr {at})")
