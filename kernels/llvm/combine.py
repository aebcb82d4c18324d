"""What completes a reduction when its loop is done: a function that folds the leaves and stores the results.

It does so for all results, or (`Body.whole`) for those of one point.
"""

from __future__ import annotations

from contextlib import ExitStack

from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, Module, counted, guarded
from diffuse.kernels.llvm.memory import Place, Step, store
from diffuse.kernels.llvm.ops.rules import cast
from diffuse.kernels.llvm.reduce import Partials, load_state, store_state


def combine(module: Module, body: Body, number: int) -> str:
    """Write the function that completes a reduction; returns the call of it."""
    code = Code(module, 1)
    code.label("entry")
    block, reduction = Block(code, body), abi.reductions(body)[number]
    p, name = Partials(block, number), f"combine{number}"
    some = code.let(f"icmp sgt i64 {p.leaves}, 0")
    if number in body.whole:
        bounds = block.bounds(body.loops[reduction.loop].space, block.coordinates())
        with guarded(code, some):
            _results(code, block, p, reduction.argument, bounds)
        form, call = "ptr %block, i64 %point", f"call void @{name}(ptr %block, i64 %point)"
    else:
        with guarded(code, some):
            if p.by_rows:
                with counted(code, "0", p.outputs) as output:
                    tree(code, p, output)
            else:
                tree(code, p, None)
            _results(code, block, p, reduction.argument, None)
        form, call = "ptr %block", f"call void @{name}(ptr %block)"
    code.do("ret void")
    head = f"define internal void @{name}({form}) nounwind {{"
    module.functions.append("\n".join([head, *code.lines, "}"]))
    return call


def tree(code: Code, p: Partials, output: str | None) -> None:
    """p[i] = op(p[i], p[i + s]) for s = 1, 2, 4, ...; of one output, or of all in turn."""
    count = code.let(f"sub i64 64, {_leading_zeros(code, p.leaves)}")
    with counted(code, "0", count) as level:
        apart = code.let(f"shl i64 1, {level}")
        pairs = code.let(f"shl i64 {apart}, 1")
        end = code.let(f"sub i64 {p.leaves}, {apart}")
        # leaves 0, pairs, 2 * pairs, ... below end
        up = code.let(f"add i64 {end}, {code.let(f'sub i64 {pairs}, 1')}")
        times = code.let(f"ashr i64 {up}, {code.let(f'add i64 {level}, 1')}")
        with ExitStack() as loops:
            step = loops.enter_context(counted(code, "0", times))
            leaf = code.let(f"mul i64 {step}, {pairs}")
            other = code.let(f"add i64 {leaf}, {apart}")
            which = output if output is not None else loops.enter_context(counted(code, "0", p.outputs))
            here, there = p.at(leaf, which), p.at(other, which)
            low, high = (load_state(code, place, Step("0")) for place in (here, there))
            store_state(code, here, Step("0"), p.operator.fold(code, low, high))


def _leading_zeros(code: Code, value: str) -> str:
    return code.intrinsic("llvm.ctlz", "int64", value, "i1 false")


def _results(code: Code, block: Block, p: Partials, argument: int,
             bounds: dict[int, tuple[str, str]] | None) -> None:
    """Store leaf 0 of every output to the argument; or fold the leaves and store them, within these bounds of
    the dimensions."""
    base, dtype = block.address(argument), block.body.arguments[argument].dtype
    strides = {d: block.stride(argument, d) for d in p.kept}
    with ExitStack() as loops:
        indices = []
        for d in p.kept:
            index = loops.enter_context(counted(code, *(bounds[d] if bounds else ("0", p.extents[d]))))
            indices.append(index)
            offset = code.let(f"mul nsw i64 {index}, {strides[d]}")
            base = code.let(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")
        output = p.flat(indices, [p.extents[d] for d in p.kept])
        if bounds:
            tree(code, p, output)
        state = load_state(code, p.at("0", output), Step("0"))
        source = p.operator.dtypes[-1]
        store(code, Place(dtype, "0", base), Step("0"), cast(code, source, dtype, state[-1]))

