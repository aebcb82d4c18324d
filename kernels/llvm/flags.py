"""Arithmetic that raises no floating-point flag: the processor's flags are restored after it.

The flags of a task are read once, at its end, and reported as NumPy's warnings.  Some of a task's arithmetic
must not warn: SciPy's sparse products, unlike NumPy's, let infinities and overflow pass.  So the flags are
read before and after such code, and written only if it raised one.  This is exact, whatever surrounds the
code, at the cost of two reads.  Where flags are not kept in SSE's register, nothing is written, and such code
may warn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, guarded

MXCSR_INVALID, MXCSR_OVERFLOW, MXCSR_UNDERFLOW = 1, 8, 16
"""Bits of SSE's status register."""


@contextmanager
def unflagged(code: Code, block: Block) -> Iterator[None]:
    """Suppress the floating-point flags of the code written inside, of one or more basic blocks."""
    if not code.module.target.sse:
        yield
        return
    before, behind = block.room("int32", 1), block.room("int32", 1)
    # The condition always holds.  It puts the reading into a basic block of its own, into which LLVM moves no
    # arithmetic from above: LLVM does not know that arithmetic affects flags.
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
