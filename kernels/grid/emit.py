"""Emits the LLVM modules of a body's grid kernels: for a GPU, and for the host that simulates one."""

from __future__ import annotations

from collections.abc import Callable

from diffuse.ir import ITEMSIZE
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.kernels.grid import elements, entries, leaves, schedule, threads
from diffuse.kernels.grid.schedule import THREADS, WARP, GridKernel
from diffuse.kernels.llvm.block import Block
from diffuse.kernels.llvm.code import Code, Module
from diffuse.kernels.llvm.reduce import Operator
from diffuse.kernels.targets.base import Target
from diffuse.kernels.targets.nvptx import PARAMETERS as MOST
from diffuse.kernels.targets.nvptx import TRIPLE

Phase = Callable[[Code, Block, Body, GridKernel], None]

PARAMETERS = "ptr %block, ptr %shared, i64 %group, i64 %thread, i64 %argument, i64 %step"
"""The parameters of a phase; `step` counts its repetitions."""


def phases(kernel: GridKernel) -> list[tuple[Phase, int]]:
    """The functions that write the phases of a kernel, in order, each with its number of repetitions."""
    form = "columns" if kernel.form.startswith("columns") else kernel.form
    if form == "rows":
        return [(_folding, 1), (_halving, WARP.bit_length() - 2), (_leaf, 1)]
    if form == "chunks":
        return [(_leaves(leaves.pair), 1), (_leaves(leaves.halve), leaves.HALVINGS),
                (_leaves(leaves.finish), 1)]
    return [(_ALONE[form], 1)]


def _folding(code: Code, block: Block, body: Body, kernel: GridKernel) -> None:
    threads.RowReductions(code, block, body, kernel).fold_segment()


def _halving(code: Code, block: Block, body: Body, kernel: GridKernel) -> None:
    threads.RowReductions(code, block, body, kernel).fold_half()


def _leaf(code: Code, block: Block, body: Body, kernel: GridKernel) -> None:
    threads.RowReductions(code, block, body, kernel).write_leaf()


def _leaves(write: Callable[[Code, Block, GridKernel], None]) -> Phase:
    """A phase that combines leaves."""
    return lambda code, block, body, kernel: write(code, block, kernel)


_ALONE: dict[str, Phase] = {
    "elements": elements.elements, "columns": threads.columns, "scan": threads.scan,
    "trees": _leaves(leaves.tree), "results": _leaves(leaves.results),
}
"""The kernel forms that have one phase."""


def shared_bytes(body: Body, kernel: GridKernel) -> int:
    """Bytes of memory that a group of a kernel shares."""
    if kernel.form == "chunks":
        return THREADS * sum(ITEMSIZE[d] for d in Operator(abi.reductions(body)[kernel.reduction]).dtypes)
    if kernel.form != "rows":
        return 0
    first, ops = abi.first_reduction(body, kernel.loop), body.loops[kernel.loop].ops
    reductions = dict(zip([i for i, op in enumerate(ops) if op.kind == "reduce"],
                          abi.reductions(body)[first:], strict=False))
    used = [reductions[i] for i in kernel.folds if "0" in body.arguments[reductions[i].argument].classes]
    return THREADS * sum(ITEMSIZE[d] for r in used for d in Operator(r).dtypes)


def written(body: Body, target: Target) -> tuple[Module, dict[str, list[entries.Phase]]]:
    """Write all phases to a module; returns it and each kernel's phases."""
    module, found = Module(target), dict[str, list[entries.Phase]]()
    for kernel in schedule.kernels(body):
        if kernel.name in found:  # chunks with another stride
            continue
        found[kernel.name] = []
        for number, (write, times) in enumerate(phases(kernel)):
            code = Code(module, 1)
            code.label("entry")
            write(code, Block(code, body), body, kernel)
            code.do("ret void")
            name = f"{kernel.name}_{number}"
            module.functions.append("\n".join([
                f"define internal void @{name}({PARAMETERS}) nounwind alwaysinline {{", *code.lines, "}"]))
            alone = kernel.form == "rows"  # a leaf is a warp's own
            barrier = entries.WARP_BARRIER if alone else entries.BARRIER
            found[kernel.name].append(entries.Phase(name, times, barrier))
    return module, found


def for_host(body: Body, target: Target) -> str:
    """The module of kernels that the host runs: `void kernel(ptr block, i64 groups, i64 argument, i64 order)`
    runs all groups, phase by phase all threads of each, in one of the orders of `entries.HOST`."""
    module, found = written(body, target)
    planned = schedule.kernels(body)
    sizes = {kernel.name: shared_bytes(body, kernel) for kernel in planned}
    ends = [entries.host(name, names, sizes[name]) for name, names in found.items()]
    if joined := schedule.members(body, planned):
        ends.append(entries.host_together([(kernel.name, kernel.stride) for kernel in joined]))
    return "\n".join([str(module), *ends])


def for_gpu(body: Body, target: Target) -> str:
    """The module of kernels for a GPU: `kernel(block, i64 argument)`, with the block by value."""
    module, found = written(body, target)
    outside = [text for text in module.declarations if text.startswith("declare ") and "@llvm." not in text]
    if outside:
        name = outside[0].partition("@")[2].partition("(")[0]
        raise schedule.Refused(f"{name} is a function of the C library, which GPUs lack")
    size = abi.layout(body).size
    if size + 8 > MOST:
        raise schedule.Refused(f"its parameters take {size + 8} bytes, and a GPU's kernel has {MOST}")
    planned = schedule.kernels(body)
    sizes = {kernel.name: shared_bytes(body, kernel) for kernel in planned}
    ends = [entries.gpu(name, names, sizes[name], size // 8) for name, names in found.items()]
    if joined := schedule.members(body, planned):
        members = [(found[kernel.name], kernel.stride) for kernel in joined]
        room = max(sizes[kernel.name] for kernel in joined)
        ends.append(entries.gpu_together(members, schedule.CHUNK, room, size // 8))
    return "\n".join([f'target triple = "{TRIPLE}"', str(module), entries.GPU, *ends])
