"""The phase of loops without reductions: each thread computes one iteration, or several.

What divides or calls transcendental functions has a branch for each, as some operands are rare: infinities,
subnormal and large numbers.  A thread that goes from branch to branch waits for each operation's result, so
an iteration is computed for ordinary operands first, without a branch, and once more, with all branches, if
one of its operands is not ordinary (`schedule.hasty`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from diffuse.kernels.body.expr import Body
from diffuse.kernels.grid import schedule
from diffuse.kernels.grid.schedule import THREADS, GridKernel
from diffuse.kernels.grid.spread import spread
from diffuse.kernels.grid.threads import Threads
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, guarded, with_lanes
from diffuse.kernels.llvm.iteration import INNER
from diffuse.kernels.llvm.memory import Step


def elements(code: Code, block: Block, body: Body, kernel: GridKernel) -> None:
    """Write the phase: each thread computes one iteration, or several along the innermost dimension."""
    threads, each = Threads(code, block, body, kernel), schedule.each(body, kernel)
    order = threads.order
    with threads.within():
        extents = [threads.extent(d) for d in order]
        if each > 1:
            up = code.let(f"add i64 {extents[-1]}, {each - 1}")
            extents[-1] = code.let(f"lshr i64 {up}, {each.bit_length() - 1}")
        with spread(code, extents, schedule.repeated(body, kernel)) as found:
            if each > 1:
                _several(threads, found, extents[-1], each)
                return
            threads.index |= {d: threads.at(d, number) for d, number in zip(order, found, strict=True)}
            threads.start()
            _write(threads, found[-1:] or ["0"], found[-1:] or ["0"], [""])


def _several(threads: Threads, found: list[str], slots: str, each: int) -> None:
    """Write the iterations of a thread that has several, of a group that has them side by side.

    The group's `many` threads along the row take neighbouring ones in turn: pieces of 16 bytes, if all rows
    are aligned and no piece reaches beyond the row, else single ones.
    """
    code, lanes = threads.code, schedule.lanes(threads.body, threads.kernel)
    outer = {d: threads.at(d, number) for d, number in zip(threads.order[:-1], found, strict=False)}
    extent = threads.extent(threads.inner)
    width = str(THREADS) if len(threads.order) == 1 else code.let("shl i64 1, %argument")
    beside = code.let(f"and i64 %thread, {code.let(f'sub i64 {width}, 1')}")
    before = code.let(f"sub i64 {found[-1]}, {beside}")
    many = code.intrinsic("llvm.umin", "int64", code.let(f"sub i64 {slots}, {before}"), width)
    start = code.let(f"mul i64 {before}, {each}")
    done = "false"
    if lanes > 1 and not threads.tiled:
        end = code.let(f"add i64 {start}, {code.let(f'mul i64 {many}, {each}')}")
        full = code.let(f"icmp ule i64 {end}, {extent}")
        done = code.let(f"and i1 {full}, {threads.aligned(lanes)}")
        with guarded(code, done), with_lanes(code, lanes):
            numbers = _numbers(code, start, beside, many, each // lanes, lanes)
            _write(_again(threads, outer), numbers, numbers, [""] * len(numbers))
    numbers = _numbers(code, start, beside, many, each)
    inside = [code.let(f"icmp ult i64 {number}, {extent}") for number in numbers]
    with guarded(code, code.let(f"and i1 {inside[0]}, {code.let(f'xor i1 {done}, true')}")):
        # an iteration behind the end of the row reads what the thread's first one reads, and computes nothing
        reads = [code.let(f"select i1 {within}, i64 {number}, i64 {numbers[0]}")
                 for within, number in zip(inside, numbers, strict=True)]
        _write(_again(threads, outer), numbers, reads, ["", *inside[1:]])


def _numbers(code: Code, start: str, beside: str, many: str, count: int, lanes: int = 1) -> list[str]:
    """The numbers of a thread's iterations along the row: each `many` pieces of so many lanes further."""
    found = []
    for k in range(count):
        piece = code.let(f"add i64 {code.let(f'mul i64 {many}, {k}')}, {beside}")
        found.append(code.let(f"add i64 {start}, {code.let(f'mul i64 {piece}, {lanes}')}"))
    return found


def _again(threads: Threads, outer: dict[int, str]) -> Threads:
    """The loop, to be written once more, at these indices of all dimensions but the innermost one."""
    found = Threads(threads.code, threads.block, threads.body, threads.kernel)
    found.bounds, found.index = threads.bounds, dict(outer)
    found.start()
    return found


def _write(threads: Threads, numbers: Sequence[str], reads: Sequence[str], inside: Sequence[str]) -> None:
    """Write the iterations of these numbers, each under its condition, if it has one.

    All are loaded, at the numbers that are given for that, before the first is stored.
    """
    code, picked, given = threads.code, threads.picked, threads.values
    early, hasty = (schedule.early(threads.body, threads.kernel),
                    schedule.hasty(threads.body, threads.kernel))
    rest, held = [i for i in picked if i not in early], []
    for number in reads:
        threads.values = dict(given)
        _ops(threads, number, [i for i in picked if i in early])
        held.append(threads.values)
    doubts = []
    for number, threads.values in zip(numbers, held, strict=True) if hasty else ():
        doubts.append(_guess(threads, number, rest))
    for k, (number, threads.values) in enumerate(zip(numbers, held, strict=True)):
        with guarded(code, inside[k]) if inside[k] else nullcontext():
            if hasty:
                _settle(threads, number, rest, doubts[k])
                continue
            threads.picked = rest
            threads.compute(_place(threads, number))


def _place(threads: Threads, number: str) -> str:
    """Go to the iteration of this number; returns its index."""
    if not threads.order:
        return number
    threads.index[threads.inner] = threads.at(threads.inner, number)
    return threads.index[threads.inner]


def _ops(threads: Threads, number: str, ops: Sequence[int]) -> None:
    """Write these ops of an iteration."""
    threads.picked = ops
    threads.write_ops(INNER, Step(_place(threads, number)))


def _stores(threads: Threads, ops: Sequence[int], wanted: bool) -> list[int]:
    """Select the ops that are stores, or those that are not."""
    return [i for i in ops if (threads.loop.ops[i].kind == "store") == wanted]


def _guess(threads: Threads, number: str, ops: Sequence[int]) -> str:
    """Write these ops of an iteration but for its stores, for ordinary operands; returns whether there are
    others."""
    code, doubt = threads.code, "false"
    code.doubts = []
    _ops(threads, number, _stores(threads, ops, False))
    for one in code.doubts:
        doubt = code.let(f"or i1 {doubt}, {one}")
    code.doubts = None
    return doubt


def _settle(threads: Threads, number: str, ops: Sequence[int], doubt: str) -> None:
    """Write the stores of an iteration, or all of these ops, if in doubt."""
    code = threads.code
    with guarded(code, code.let(f"xor i1 {doubt}, true")):
        _ops(threads, number, _stores(threads, ops, True))
    with guarded(code, doubt):
        _ops(threads, number, ops)
