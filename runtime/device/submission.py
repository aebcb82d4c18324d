"""Launches of several kernels in one call: a native function that calls the driver once for each of them.

A *plan* is a sequence of words: the driver's function, the stream, the bytes of the block, how many kernels
there are, then for each its function, its groups and its argument.  They all take the same block of
parameters, by value, with the argument behind it.  A call takes two `bytes` and nothing else, which costs a
quarter of one with five typed arguments.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from struct import pack
from typing import Any

from diffuse.service import code

BUFFER, BUFFER_BYTES = 1, 2
"""How a launch is told where its parameters are: codes of the driver's API."""
THREADS = 256
"""Threads of a group (kernels/grid/schedule.py)."""
MOST = 32_768
"""The most bytes of parameters."""
GROUPS = (1 << 31) - 1
"""The most groups of a launch."""

_TEXT = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Returns the driver's error, or 0.
define i32 @submit(ptr %plan, ptr %block) {{
entry:
  %stream.at = getelementptr i64, ptr %plan, i64 1
  %bytes.at = getelementptr i64, ptr %plan, i64 2
  %count.at = getelementptr i64, ptr %plan, i64 3
  %launch = load ptr, ptr %plan
  %stream = load ptr, ptr %stream.at
  %bytes = load i64, ptr %bytes.at
  %room = alloca [{MOST} x i8], align 16
  %size = alloca i64
  %extra = alloca [5 x ptr], align 16
  %all = add i64 %bytes, 8
  store i64 %all, ptr %size
  call void @llvm.memcpy.p0.p0.i64(ptr %room, ptr %block, i64 %bytes, i1 false)
  %argument.at = getelementptr i8, ptr %room, i64 %bytes
  %extra.1 = getelementptr ptr, ptr %extra, i64 1
  %extra.2 = getelementptr ptr, ptr %extra, i64 2
  %extra.3 = getelementptr ptr, ptr %extra, i64 3
  %extra.4 = getelementptr ptr, ptr %extra, i64 4
  store ptr inttoptr (i64 {BUFFER} to ptr), ptr %extra
  store ptr %room, ptr %extra.1
  store ptr inttoptr (i64 {BUFFER_BYTES} to ptr), ptr %extra.2
  store ptr %size, ptr %extra.3
  store ptr null, ptr %extra.4
  %count = load i64, ptr %count.at
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %inside ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %inside, label %done
inside:
  %three = mul i64 %k, 3
  %first = add i64 %three, 4
  %function.at = getelementptr i64, ptr %plan, i64 %first
  %groups.at = getelementptr i64, ptr %function.at, i64 1
  %given.at = getelementptr i64, ptr %function.at, i64 2
  %function = load ptr, ptr %function.at
  %groups.wide = load i64, ptr %groups.at
  %groups = trunc i64 %groups.wide to i32
  %argument = load i64, ptr %given.at
  store i64 %argument, ptr %argument.at, align 1
  %error = call i32 %launch(ptr %function, i32 %groups, i32 1, i32 1, i32 {THREADS}, i32 1, i32 1, i32 0,
                            ptr %stream, ptr null, ptr %extra)
  %next = add i64 %k, 1
  %failed = icmp ne i32 %error, 0
  br i1 %failed, label %end, label %head
end:
  ret i32 %error
done:
  ret i32 0
}}
"""

Submit = Callable[[bytes, bytes], int]


def native() -> tuple[Submit, Any]:
    """Compile the native function; returns it and the object that keeps it alive."""
    found = code.fetch(code.text_key(_TEXT), ("submit",), code.TEXT, lambda: _TEXT)
    entry = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)
    return entry(found.addresses["submit"]), found


def plan(launch: int, stream: int, nbytes: int, steps: Sequence[tuple[int, int, int]]) -> bytes:
    """The plan of launches, each (function, groups, argument); `launch` is the address of the driver's
    function.  ValueError for more groups than a grid may have."""
    most = max([groups for _, groups, _ in steps], default=0)
    if most > GROUPS:
        raise ValueError(f"a kernel of {most} groups of threads, and a launch has at most {GROUPS}: use "
                         "smaller arrays, or DIFFUSE_RUNTIME=local")
    return pack(f"<{4 + 3 * len(steps)}Q", launch, stream, nbytes, len(steps),
                *[word for step in steps for word in step])
