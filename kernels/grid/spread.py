"""Distributes the iterations of a box over groups of threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from diffuse.kernels.grid.schedule import THREADS
from diffuse.kernels.llvm.code import Code, guarded


@contextmanager
def spread(code: Code, extents: Sequence[str]) -> Iterator[list[str]]:
    """Distribute a box of iterations: yields the thread's coordinates, in code that runs if they are in the
    box.  There may be more groups than the box needs.

    In two and more dimensions a group covers 2 ** argument elements of the last one, and as many rows as that
    leaves threads for (`schedule.shift`).  Rows are numbered through all other dimensions, so that no thread
    is idle because one of these is short.
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
    width = code.let("shl i64 1, %argument")
    up = code.let(f"add i64 {extents[-1]}, {code.let(f'sub i64 {width}, 1')}")
    across = code.let(f"lshr i64 {up}, %argument")
    column, row = code.let(f"urem i64 %group, {across}"), code.let(f"udiv i64 %group, {across}")
    within = code.let(f"and i64 %thread, {code.let(f'sub i64 {width}, 1')}")
    x = code.let(f"add i64 {code.let(f'shl i64 {column}, %argument')}, {within}")
    y = code.let(f"add i64 {code.let(f'shl i64 {row}, {down}')}, {code.let('lshr i64 %thread, %argument')}")
    rows = extents[0]
    for extent in extents[1:-1]:
        rows = code.let(f"mul i64 {rows}, {extent}")
    inside = code.let(f"and i1 {code.let(f'icmp ult i64 {x}, {extents[-1]}')}, "
                      f"{code.let(f'icmp ult i64 {y}, {rows}')}")
    with guarded(code, inside):
        found = [x]
        for extent in reversed(extents[1:-1]):
            found.append(code.let(f"urem i64 {y}, {extent}"))
            y = code.let(f"udiv i64 {y}, {extent}")
        yield [y, *found[::-1]]
