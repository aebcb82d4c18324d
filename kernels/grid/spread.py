"""Distributes the iterations of a box over groups of threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from diffuse.kernels.grid.schedule import LAYOUT, THREADS
from diffuse.kernels.llvm.code import Code, counted, guarded


@contextmanager
def spread(code: Code, extents: Sequence[str], repeated: bool = False) -> Iterator[list[str]]:
    """Distribute a box of iterations: yields the thread's coordinates, in code that runs if they are in the
    box.  There may be more groups than the box needs.

    In two and more dimensions a group has some threads along the last one, and the others along the rows; the
    argument says how many (`schedule.layout`).  Rows are numbered through all other dimensions, so that no
    thread is idle because one of these is short.  Where iterations are `repeated`, a thread computes several
    rows, whose number the argument has, too, one after another.
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
    along = code.let(f"and i64 %argument, {(1 << LAYOUT) - 1}") if repeated else "%argument"
    down = code.let(f"sub i64 {THREADS.bit_length() - 1}, {along}")
    width = code.let(f"shl i64 1, {along}")
    up = code.let(f"add i64 {extents[-1]}, {code.let(f'sub i64 {width}, 1')}")
    across = code.let(f"lshr i64 {up}, {along}")
    column, band = code.let(f"urem i64 %group, {across}"), code.let(f"udiv i64 %group, {across}")
    beside = code.let(f"and i64 %thread, {code.let(f'sub i64 {width}, 1')}")
    x = code.let(f"add i64 {code.let(f'shl i64 {column}, {along}')}, {beside}")
    rows, high = extents[0], code.let(f"lshr i64 %thread, {along}")
    for extent in extents[1:-1]:
        rows = code.let(f"mul i64 {rows}, {extent}")
    inside = code.let(f"icmp ult i64 {x}, {extents[-1]}")
    if repeated:
        height, more = code.let(f"shl i64 1, {down}"), code.let(f"lshr i64 %argument, {LAYOUT}")
        size = code.let(f"shl i64 {height}, {more}")
        begin = code.let(f"mul i64 {band}, {size}")
        end = code.intrinsic("llvm.umin", "int64", code.let(f"add i64 {begin}, {size}"), rows)
        first = code.let(f"add i64 {begin}, {high}")
        with guarded(code, inside), counted(code, first, end, height) as y:
            yield [*_numbers(code, y, extents), x]
        return
    y = code.let(f"add i64 {code.let(f'shl i64 {band}, {down}')}, {high}")
    with guarded(code, code.let(f"and i1 {inside}, {code.let(f'icmp ult i64 {y}, {rows}')}")):
        yield [*_numbers(code, y, extents), x]


def _numbers(code: Code, row: str, extents: Sequence[str]) -> list[str]:
    """The coordinates of a row in all dimensions but the innermost."""
    found: list[str] = []
    for extent in reversed(extents[1:-1]):
        found.append(code.let(f"urem i64 {row}, {extent}"))
        row = code.let(f"udiv i64 {row}, {extent}")
    return [row, *found[::-1]]
