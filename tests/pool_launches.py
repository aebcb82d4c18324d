"""Kernels in LLVM IR and launches of them, for tests of the thread pool."""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from diffuse.runtime.local.pool import Pool

SCRATCH = np.zeros(8, dtype=np.int64)

SOURCE = """
; block: points, cells, total
define void @step(ptr %block, i64 %p) {          ; cells[p] = cells[p] * 3 + points + p
  %points = load i64, ptr %block
  %at = getelementptr i64, ptr %block, i64 1
  %cells = load ptr, ptr %at
  %cell = getelementptr i64, ptr %cells, i64 %p
  %old = load i64, ptr %cell
  %three = mul i64 %old, 3
  %more = add i64 %three, %points
  %result = add i64 %more, %p
  store i64 %result, ptr %cell
  ret void
}

define void @total(ptr %block) {                 ; total += sum(cells[:points]), read and written unprotected
entry:
  %points = load i64, ptr %block
  %at = getelementptr i64, ptr %block, i64 1
  %cells = load ptr, ptr %at
  %to = getelementptr i64, ptr %block, i64 2
  %total = load ptr, ptr %to
  %before = load i64, ptr %total
  br label %each
each:
  %p = phi i64 [ 0, %entry ], [ %next, %each ]
  %sum = phi i64 [ %before, %entry ], [ %added, %each ]
  %cell = getelementptr i64, ptr %cells, i64 %p
  %value = load i64, ptr %cell
  %added = add i64 %sum, %value
  %next = add i64 %p, 1
  %more = icmp ult i64 %next, %points
  br i1 %more, label %each, label %end
end:
  store i64 %added, ptr %total
  ret void
}

define void @last(ptr %block, i64 %p) {          ; the last word of a block of `points` words -> word at it
  %count = load i64, ptr %block
  %index = sub i64 %count, 1
  %at = getelementptr i64, ptr %block, i64 %index
  %target = load ptr, ptr %at
  store i64 %count, ptr %target
  ret void
}

define void @divide(ptr %block, i64 %p) {        ; doubles[2] = doubles[0] / doubles[1]
  %x = load volatile double, ptr %block
  %at = getelementptr double, ptr %block, i64 1
  %y = load volatile double, ptr %at
  %q = fdiv double %x, %y
  %to = getelementptr double, ptr %block, i64 2
  store volatile double %q, ptr %to
  ret void
}

define void @hold(ptr %block, i64 %p) {          ; until *word becomes nonzero
entry:
  %word = load ptr, ptr %block
  br label %look
look:
  %value = load atomic i64, ptr %word seq_cst, align 8
  %zero = icmp eq i64 %value, 0
  br i1 %zero, label %look, label %end
end:
  ret void
}
"""


def linked(source: str) -> Any:
    """The machine code of a module in LLVM IR, as the engine that knows the addresses of its functions."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(source), machine)
    engine.finalize_object()
    return engine


@cache
def compiled() -> Any:
    return linked(SOURCE)


def address(name: str) -> int:
    return int(compiled().get_function_address(name))


class Gate:
    """A launch that runs until it is opened."""

    def __init__(self, pool: Pool) -> None:
        self.word = ctypes.c_int64(0)
        pool.submit(address("hold"), 0, 1, struct.pack("q", ctypes.addressof(self.word)), keep=self)

    def open(self) -> None:
        self.word.value = 1


def expected(launches: list[int], width: int) -> tuple[list[int], int]:
    """What `step` and `total` mean, one launch after another; 64-bit arithmetic wraps."""
    cells, total = [0] * width, 0
    for points in launches:
        for p in range(points):
            cells[p] = (cells[p] * 3 + points + p) % 2**64
        total = (total + sum(cells[:points])) % 2**64
    return cells, total


def submit_steps(pool: Pool, launches: list[int], padding: int = 0) -> tuple[list[int], int]:
    width = max(launches)
    cells, total = np.zeros(width, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    for points in launches:
        block = struct.pack("3q", points, cells.ctypes.data, total.ctypes.data) + bytes(padding)
        pool.submit(address("step"), address("total"), points, block)
    pool.fence()
    return [int(c) for c in cells], int(total[0])


def until(condition: Callable[[], bool]) -> None:
    """Wait, for half a minute at most, until a condition holds."""
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert condition()
