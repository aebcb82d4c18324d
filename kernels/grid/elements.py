"""The phase of loops without reductions: each thread computes one iteration, or several neighbouring ones."""

from __future__ import annotations

from diffuse.kernels.body.expr import Body
from diffuse.kernels.grid import schedule
from diffuse.kernels.grid.schedule import THREADS, GridKernel
from diffuse.kernels.grid.spread import spread
from diffuse.kernels.grid.threads import Threads
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, counted, guarded, with_lanes


def elements(code: Code, block: Block, body: Body, kernel: GridKernel) -> None:
    """Write the phase: a thread for each iteration, or for some neighbours along the innermost dimension."""
    threads, lanes = Threads(code, block, body, kernel), schedule.lanes(body, kernel)
    order = threads.order
    with threads.within():
        extents = [threads.extent(d) for d in order]
        if lanes > 1:
            extents[-1] = code.let(f"lshr i64 {code.let(f'add i64 {extents[-1]}, {lanes - 1}')}, "
                                   f"{lanes.bit_length() - 1}")
        with spread(code, extents, schedule.repeated(body, kernel)) as found:
            if lanes > 1:
                _neighbours(threads, found, extents[-1], lanes)
                return
            threads.index |= {d: threads.at(d, number) for d, number in zip(order, found, strict=True)}
            threads.start()
            threads.compute(threads.index[order[-1]] if order else "0")


def _neighbours(threads: Threads, found: list[str], pieces: str, lanes: int) -> None:
    """The iterations of one thread; the innermost extent consists of `pieces` pieces.

    If all rows are aligned, a thread takes a piece, and a complete piece at once.  Otherwise neighbouring
    threads take neighbouring iterations.
    """
    code, order, inner = threads.code, threads.order, threads.order[-1]
    outer = {d: threads.at(d, number) for d, number in zip(order[:-1], found, strict=False)}
    extent, piece = threads.extent(inner), found[-1]
    width = str(THREADS) if len(order) == 1 else code.let("shl i64 1, %argument")
    beside = code.let(f"and i64 %thread, {code.let(f'sub i64 {width}, 1')}")
    before = code.let(f"sub i64 {piece}, {beside}")
    many = code.intrinsic("llvm.umin", "int64", code.let(f"sub i64 {pieces}, {before}"), width)
    after = code.let(f"add i64 {before}, {many}")
    start, own, behind = (code.let(f"mul i64 {number}, {lanes}") for number in (before, piece, after))
    whole, aligned = code.let(f"add i64 {own}, {lanes}"), threads.aligned(lanes)

    def chosen(yes: str, no: str) -> str:
        return code.let(f"select i1 {aligned}, i64 {yes}, i64 {no}")

    step, first = chosen("1", many), chosen(own, code.let(f"add i64 {start}, {beside}"))
    end = code.intrinsic("llvm.umin", "int64", chosen(whole, behind), extent)
    if not threads.tiled:
        together = code.let(f"and i1 {aligned}, {code.let(f'icmp ule i64 {whole}, {extent}')}")
        with guarded(code, together), with_lanes(code, lanes):
            wide = Threads(code, threads.block, threads.body, threads.kernel)
            wide.index |= outer | {inner: own}
            wide.start()
            wide.compute(own)
        end = code.let(f"select i1 {together}, i64 {first}, i64 {end}")
    threads.index |= outer
    threads.start()
    with counted(code, first, end, step) as number:
        threads.index[inner] = threads.at(inner, number)
        threads.compute(threads.index[inner])
