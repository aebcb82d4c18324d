"""A kernel that multiplies and adds up, and its launches, for tests of runtimes."""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from diffuse.ir import ONE, Access, Privilege, Store, view
from diffuse.runtime.base import Launch, LaunchArgument, Layout, Runtime, Scratch
from tests.pool_launches import linked

SOURCE = """
; block: points, tile, extent, in and stride, out and stride, factor, sums, total and stride
define void @scale(ptr %block, i64 %p) {        ; out[i] = in[i] * factor; sums[p] = sum of the tile of out
entry:
  %tile.at = getelementptr i64, ptr %block, i64 1
  %tile = load i64, ptr %tile.at
  %extent.at = getelementptr i64, ptr %block, i64 2
  %extent = load i64, ptr %extent.at
  %in.at = getelementptr i64, ptr %block, i64 3
  %in = load ptr, ptr %in.at
  %out.at = getelementptr i64, ptr %block, i64 5
  %out = load ptr, ptr %out.at
  %factor.at = getelementptr i64, ptr %block, i64 7
  %factor = load double, ptr %factor.at
  %sums.at = getelementptr i64, ptr %block, i64 8
  %sums = load ptr, ptr %sums.at
  %low = mul i64 %p, %tile
  %end = add i64 %low, %tile
  %short = icmp ult i64 %extent, %end
  %high = select i1 %short, i64 %extent, i64 %end
  br label %head
head:
  %i = phi i64 [ %low, %entry ], [ %next, %body ]
  %sum = phi double [ 0.0, %entry ], [ %added, %body ]
  %more = icmp ult i64 %i, %high
  br i1 %more, label %body, label %done
body:
  %from = getelementptr double, ptr %in, i64 %i
  %x = load double, ptr %from
  %y = fmul double %x, %factor
  %to = getelementptr double, ptr %out, i64 %i
  store double %y, ptr %to
  %added = fadd double %sum, %y
  %next = add i64 %i, 1
  br label %head
done:
  %sum.at = getelementptr double, ptr %sums, i64 %p
  store double %sum, ptr %sum.at
  ret void
}

define void @scale_finish(ptr %block) {         ; total += sum(sums)
entry:
  %points = load i64, ptr %block
  %sums.at = getelementptr i64, ptr %block, i64 8
  %sums = load ptr, ptr %sums.at
  %total.at = getelementptr i64, ptr %block, i64 9
  %total = load ptr, ptr %total.at
  %before = load double, ptr %total
  br label %each
each:
  %p = phi i64 [ 0, %entry ], [ %next, %each ]
  %sum = phi double [ %before, %entry ], [ %added, %each ]
  %from = getelementptr double, ptr %sums, i64 %p
  %x = load double, ptr %from
  %added = fadd double %sum, %x
  %next = add i64 %p, 1
  %more = icmp ult i64 %next, %points
  br i1 %more, label %each, label %end
end:
  store double %added, ptr %total
  ret void
}
"""


class Code(NamedTuple):
    address: int
    finish: int


@cache
def code() -> tuple[Code, object]:
    engine = linked(SOURCE)
    return Code(engine.get_function_address("scale"), engine.get_function_address("scale_finish")), engine


def doubles(address: int, count: int) -> Any:
    return np.ctypeslib.as_array((ctypes.c_double * count).from_address(address))


class Scale:
    """out[i] = in[i] * factor and total += sum(out), compiled or interpreted."""

    layout = struct.Struct("7qd3q")

    def __init__(self, native: Code | None) -> None:
        self.native = native
        self.interpreted: list[int] = []

    def pack(self, values: tuple[Any, ...]) -> bytes:
        return self.layout.pack(*values)

    def point(self, values: tuple[Any, ...], p: int) -> None:
        self.interpreted.append(p)
        points, tile, extent, source, _, target, _, factor, sums, *_ = values
        low, high = p * tile, min((p + 1) * tile, extent)
        out = doubles(target, extent)[low:high]
        np.multiply(doubles(source, extent)[low:high], factor, out=out)
        total = 0.0
        for x in out.tolist():
            total += x
        doubles(sums, points)[p] = total

    def finish(self, values: tuple[Any, ...]) -> None:
        self.interpreted.append(-1)
        points, *_, sums, total, _ = values
        for x in doubles(sums, points).tolist():
            doubles(total, 1)[0] += x


@cache
def touched(extent: int, points: int) -> Layout:
    """What a launch touches, for runtimes that place memory themselves."""
    line, one = (view.of((n,), "float64", "float64", 8, 0, (8,), (n,)) for n in (extent, 1))
    arguments = []
    for slot, (word, shown, n, privilege) in enumerate([
            (3, line, extent, Privilege.READ), (5, line, extent, Privilege.WRITE),
            (9, one.broadcast((extent,)), 1, Privilege.READ_WRITE)]):
        store = Store(slot, (n,), "float64")
        access = Access(store, shown, privilege, None, shown.partition(store, ONE[1]))
        arguments.append(LaunchArgument(word, slot, ((n,), "float64"), access, privilege))
    return Layout(tuple(arguments), (Scratch(8, 24),), "scale", (points,))


def scale(runtime: Runtime, kernel: Scale, source: Any, target: Any, factor: float, total: Any,
          points: int) -> None:
    """One launch; its partial sums live as long as the launch."""
    extent = source.nbytes // 8
    used = source, target, total
    if not runtime.addressed:
        values = (points, -(-extent // points), extent, 0, 8, 0, 8, factor, 0, 0, 0)
        runtime.launch(Launch(kernel, values, points, (), touched(extent, points), used))
        return
    sums = runtime.create(8 * points)
    values = (points, -(-extent // points), extent, source.address, 8, target.address, 8, factor,
              sums.address, total.address, 0)
    runtime.launch(Launch(kernel, values, points, (*used, sums)))
    runtime.release(sums)


def numbers(runtime: Runtime, instance: Any) -> Any:
    """What a store holds, after a fence."""
    return runtime.host(instance, False).view(np.float64)


def attach(runtime: Runtime, array: Any) -> Any:
    return runtime.attach(array, Store(0, array.shape, "float64"))


def fresh(runtime: Runtime, count: int) -> Any:
    return runtime.create(8 * count, Store(0, (count,), "float64"))
