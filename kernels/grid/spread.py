"""Distributes the iterations of a box over groups of threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from diffuse.kernels.grid.schedule import THREADS
from diffuse.kernels.llvm.code import Code, guarded


@contextmanager
def spread(code: Code, extents: Sequence[str], surplus: bool = False) -> Iterator[list[str]]:
    """Distribute a box of iterations: yields the thread's coordinates, in code that runs if they are in the
    box. `surplus`: there may be more groups than the box needs.

    In two and more dimensions a group covers 2 ** argument elements of the last one, and as many rows as that
    leaves threads for (`schedule.shift`).
    """
    if not extents:
        with guarded(code, code.let(f"icmp eq i64 {code.let('or i64 %group, %thread')}, 0")):
            yield []
        return
    if len(extents) == 1:
        at = code.let(f"add i64 {code.let(f'mul i64 %group, {THREADS}')}, %thread")
        with guarded(code, code.let(f"icmp ult i64 {at}, {extents[0]}")):
            yield [at]
        return
    down = code.let(f"sub i64 {THREADS.bit_length() - 1}, %argument")
    width, height = code.let("shl i64 1, %argument"), code.let(f"shl i64 1, {down}")
    across = _pieces(code, extents[-1], width, "%argument")
    below = _pieces(code, extents[-2], height, down)
    column, rest = code.let(f"urem i64 %group, {across}"), code.let(f"udiv i64 %group, {across}")
    within = code.let(f"and i64 %thread, {code.let(f'sub i64 {width}, 1')}")
    x = code.let(f"add i64 {code.let(f'shl i64 {column}, %argument')}, {within}")
    row = rest
    if len(extents) > 2:
        row, rest = code.let(f"urem i64 {rest}, {below}"), code.let(f"udiv i64 {rest}, {below}")
    y = code.let(f"add i64 {code.let(f'shl i64 {row}, {down}')}, {code.let('lshr i64 %thread, %argument')}")
    inside = code.let(f"and i1 {code.let(f'icmp ult i64 {x}, {extents[-1]}')}, "
                      f"{code.let(f'icmp ult i64 {y}, {extents[-2]}')}")
    with guarded(code, inside):
        found = [x, y]
        for extent in reversed(extents[1:-2]):
            found.append(code.let(f"urem i64 {rest}, {extent}"))
            rest = code.let(f"udiv i64 {rest}, {extent}")
        if len(extents) > 2:
            found.append(rest)
        bounded = surplus and len(extents) > 2
        with guarded(code, code.let(f"icmp ult i64 {rest}, {extents[0]}")) if bounded else nullcontext():
            yield found[::-1]


def _pieces(code: Code, extent: str, size: str, bits: str) -> str:
    """The number of pieces of 2 ** bits that an extent has."""
    up = code.let(f"add i64 {extent}, {code.let(f'sub i64 {size}, 1')}")
    return code.let(f"lshr i64 {up}, {bits}")
