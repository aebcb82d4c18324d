"""Innermost loops whose first result is stored past the caches (non-temporal stores), by whole vectors at
aligned addresses."""

from __future__ import annotations

from typing import Any

from diffuse.ir import ITEMSIZE
from diffuse.kernels.llvm import memory
from diffuse.kernels.llvm.code import COMPONENT, counted, guarded
from diffuse.kernels.llvm.crossing import plain


def streamed(nest: Any) -> int:
    """The first contiguous argument that is only stored, in a loop without folds; -1 if there is none."""
    body, loop = nest.body, nest.loop
    if nest.flat or not plain(loop.ops) or not nest.code.module.target.sse:
        return -1
    loaded = {body.arguments[op.attribute].slot for op in loop.ops if op.kind == "load"}
    for op in loop.ops:
        if op.kind == "store":
            argument = body.arguments[op.attribute]
            beside = argument.classes[-1:] == "1" and nest.inner == len(argument.classes) - 1
            if argument.slot not in loaded and beside:
                return int(op.attribute)
    return -1


def write(nest: Any, low: str, high: str) -> None:
    """Write the loop.  Complex numbers may lie half of one beside an aligned address, and are then stored as
    usual; other elements are always aligned to their size."""
    code, place = nest.code, nest.accesses[nest.streamed]
    size = ITEMSIZE[place.dtype]
    at = code.let(f"ptrtoint ptr {memory.element(code, place.dtype, place.base, low)} to i64")
    if place.dtype not in COMPONENT:
        _write(nest, at, low, high)
        return
    odd = code.let(f"icmp ne i64 {code.let(f'and i64 {at}, {size - 1}')}, 0")
    with guarded(code, odd):
        nest.accesses[nest.streamed] = place._replace(streams=False)
        nest.plain(low, high)
        nest.accesses[nest.streamed] = place
    with guarded(code, code.let(f"xor i1 {odd}, true")):
        _write(nest, at, low, high)


def _write(nest: Any, at: str, low: str, high: str) -> None:
    """Write full steps at aligned addresses, then the elements before the first and after the last of them
    under a mask."""
    code, size = nest.code, ITEMSIZE[nest.accesses[nest.streamed].dtype]
    back = code.let(f"sub i64 0, {at}")
    bytes_before = code.let(f"and i64 {back}, {code.lanes * size - 1}")
    begin = code.let(f"add nsw i64 {low}, {code.let(f'udiv i64 {bytes_before}, {size}')}")
    short = code.let(f"icmp slt i64 {high}, {begin}")
    first = code.let(f"select i1 {short}, i64 {high}, i64 {begin}")
    middle = nest.full(first, high)
    with counted(code, "0", "2") as piece:
        ahead = code.let(f"icmp eq i64 {piece}, 0")
        start = code.let(f"select i1 {ahead}, i64 {low}, i64 {middle}")
        stop = code.let(f"select i1 {ahead}, i64 {first}, i64 {high}")
        nest.rest(start, stop)
