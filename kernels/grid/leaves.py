"""The phases that combine the leaves of a reduction, in the order of its tree (see `abi.Reduction`)."""

from __future__ import annotations

from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.kernels.grid.schedule import CHUNK, THREADS, GridKernel
from diffuse.kernels.grid.threads import HERE
from diffuse.kernels.llvm import combine
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, guarded
from diffuse.kernels.llvm.memory import Place, store
from diffuse.kernels.llvm.ops.rules import cast
from diffuse.kernels.llvm.reduce import Partials, load_state, store_state

LEVELS = CHUNK.bit_length() - 1
"""The number of levels of the tree that one group combines."""


def level(code: Code, block: Block, kernel: GridKernel) -> None:
    """Write one level of the tree over the leaves of a chunk: leaf i is folded with the leaf 2 ** step
    strides after it, for each i that is a multiple of twice that distance."""
    p = Partials(block, kernel.reduction)
    chunk = code.let(f"mul i64 %argument, {CHUNK}")
    up = code.let(f"add i64 {p.leaves}, {code.let(f'sub i64 {chunk}, 1')}")
    chunks = code.let(f"udiv i64 {up}, {chunk}")
    output, here = code.let(f"udiv i64 %group, {chunks}"), code.let(f"urem i64 %group, {chunks}")
    with guarded(code, code.let(f"icmp ult i64 %thread, {code.let(f'lshr i64 {THREADS}, %step')}")):
        twice = code.let("shl i64 %thread, 1")
        within = code.let(f"mul i64 {code.let(f'shl i64 {twice}, %step')}, %argument")
        leaf = code.let(f"add i64 {code.let(f'mul i64 {here}, {chunk}')}, {within}")
        other = code.let(f"add i64 {leaf}, {code.let('shl i64 %argument, %step')}")
        with guarded(code, code.let(f"icmp ult i64 {other}, {p.leaves}")):
            places = p.at(leaf, output), p.at(other, output)
            low, high = (load_state(code, place, HERE) for place in places)
            store_state(code, places[0], HERE, p.operator.fold(code, low, high))


def tree(code: Code, block: Block, kernel: GridKernel) -> None:
    """Write all levels of the tree for one output, by one thread."""
    p = Partials(block, kernel.reduction)
    output = code.let(f"add i64 {code.let(f'mul i64 %group, {THREADS}')}, %thread")
    with guarded(code, code.let(f"icmp ult i64 {output}, {p.outputs}")):
        combine.tree(code, p, output)


def results(code: Code, block: Block, body: Body, kernel: GridKernel) -> None:
    """Store leaf 0 of each output to the argument."""
    p = Partials(block, kernel.reduction)
    output = code.let(f"add i64 {code.let(f'mul i64 %group, {THREADS}')}, %thread")
    with guarded(code, code.let(f"icmp ult i64 {output}, {p.outputs}")):
        argument = abi.reductions(body)[kernel.reduction].argument
        base, dtype, rest = block.address(argument), body.arguments[argument].dtype, output
        for k, d in reversed(list(enumerate(p.kept))):
            index = rest
            if k:
                index = code.let(f"urem i64 {rest}, {p.extents[d]}")
                rest = code.let(f"udiv i64 {rest}, {p.extents[d]}")
            offset = code.let(f"mul nsw i64 {index}, {block.stride(argument, d)}")
            base = code.let(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")
        state = load_state(code, p.at("0", output), HERE)
        value = cast(code, p.operator.dtypes[-1], dtype, state[-1])
        store(code, Place(dtype, "0", base), HERE, value)
