"""Compiles LLVM IR to PTX with LLVM's own back end, through llvmlite's package."""

from __future__ import annotations

from functools import cache
from typing import Any

from diffuse.kernels.build import llvm_c
from diffuse.kernels.targets.nvptx import FEATURES, NEWEST, TRIPLE

SPEED = 3
"""LLVM's optimisation level: local memory is slow on a GPU, and phases have to be joined."""


@cache
def _machine(architecture: str) -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=architecture, features=FEATURES, opt=SPEED)


def compile(source: str, architecture: str) -> str:
    """Compile a module (kernels/grid/emit.py) to PTX, for GPUs of an architecture, such as "sm_90", and
    later.

    LLVM ends the process if the architecture is newer than the version of PTX, and does not know future
    ones, so code for those is that for `NEWEST`.
    """
    machine = _machine(f"sm_{min(int(architecture.removeprefix('sm_')), NEWEST)}")
    library = llvm_c.library()
    if library is not None:
        library.set_kernel_options(False)
    try:
        return _compiled(source, machine)
    finally:
        if library is not None:
            library.set_kernel_options(True)


def _compiled(source: str, machine: Any) -> str:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(source)
    module.triple, module.data_layout = TRIPLE, str(machine.target_data)
    # made anew each time: LLVM aborts the process if they run on a second module
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=SPEED))
    builder.getModulePassManager().run(module, builder)
    return str(machine.emit_assembly(module))
