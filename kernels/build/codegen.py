"""Compiles kernel bodies and LLVM IR to object code with LLVM, in the calling thread.

The compile server runs this (server.py), and so do tests of the emitter; the program itself does not.
llvmlite's package is imported only for assembly text, or if its version is unknown (llvm_c.py).
"""

from __future__ import annotations

from functools import cache
from threading import Lock, get_ident
from typing import Any

from diffuse.kernels.body.expr import Body
from diffuse.kernels.build import llvm_c
from diffuse.kernels.llvm import nest as emitter
from diffuse.kernels.targets.host import host

SPEED = 2
"""LLVM's optimisation level for instruction selection and scheduling.  Other passes run only on bodies with
scans."""


_writing = Lock()
"""Held while a module is written, so that one thread at a time uses the emitter."""


def start() -> None:
    """Prepare this thread for its first request."""
    here = host()
    _machine(here.triple, here.cpu, here.features, SPEED, get_ident())


@cache
def _package() -> Any:
    """The package llvmlite.binding, ready to compile for this processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def machine() -> Any:
    """A target machine of llvmlite's package for this processor."""
    llvm, here = _package(), host()
    return llvm.Target.from_triple(here.triple).create_target_machine(
        cpu=here.cpu, features=here.features, opt=SPEED, jit=True)


@cache
def _machine(triple: str, cpu: str, features: str, speed: int, thread: int = 0
             ) -> llvm_c.TargetMachine | None:
    """The target machine of a thread, through LLVM's C functions; None if only the package can be used."""
    found = llvm_c.library()
    return None if found is None else llvm_c.TargetMachine(found, triple, cpu, features, speed)


def text(body: Body) -> str:
    """The LLVM module of a body, as written for this machine."""
    with _writing:
        return emitter.emit(body, host())


def object_code(body: Body) -> bytes:
    """Compile a body to relocatable object code for this processor."""
    here = host()
    if not here.halves and "float16" in repr(body):
        raise NotImplementedError("this processor has no conversions between float16 and float32")
    scans = any(op.kind == "scan" for loop in body.loops for op in loop.ops)
    return _compiled(text(body), promote=scans)


def routine_code(name: str, dtype: str) -> bytes:
    """Compile a routine that orders, searches or counts (kernels/llvm/sorting) for this processor."""
    from diffuse.kernels.llvm.sorting import emit

    with _writing:
        source = emit.emit(name, dtype, host())
    return _compiled(source)


def grid_code(body: Body, target: str) -> bytes:
    """Compile a body's grid kernels for a target: "simt", or the architecture of a GPU, such as "sm_90"; with
    the word "tiles" behind it, kernels that run one point of a launch."""
    from diffuse.kernels.build import ptx
    from diffuse.kernels.grid import emit
    from diffuse.kernels.targets import nvptx, simt

    machine_name, _, tiles = target.partition(" ")
    if machine_name != "simt":
        return ptx.compile(emit.for_gpu(body, nvptx.Nvptx(machine_name, bool(tiles))), machine_name).encode()
    # compiling it takes longer than running it
    with _writing:
        source = emit.for_host(body, simt.simt(bool(tiles)))
    return _compiled(source, speed=0)


def common_code(source: str) -> bytes:
    """Compile LLVM IR to relocatable object code for the generic processor.

    It is not optimised, which takes a third of the time and costs a few nanoseconds a launch.
    """
    library = llvm_c.library()
    if library is not None:
        plain = _machine(library.string("GetDefaultTargetTriple").decode(), "", "", 0, get_ident())
        assert plain is not None
        return plain.object_code(source, verify=True)
    compiler = _package().Target.from_default_triple().create_target_machine(opt=0, jit=True)
    module = _module(source, compiler)
    module.verify()
    return bytes(compiler.emit_object(module))


def _compiled(source: str, speed: int = SPEED, promote: bool = False) -> bytes:
    """Compile LLVM IR to relocatable object code for this processor.  The level of optimisation is always
    `SPEED` where llvmlite's package compiles; `promote` keeps local variables in registers."""
    here = host()
    plain = _machine(here.triple, here.cpu, here.features, speed, get_ident())
    if plain is not None:
        return plain.object_code(source, promote=promote)
    compiler = machine()
    module = _module(source, compiler)
    if promote:
        _promote(module, compiler)
    return bytes(compiler.emit_object(module))


def _module(source: str, machine: Any) -> Any:
    module = _package().parse_assembly(source)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return module


def _promote(module: Any, machine: Any) -> None:
    """Keep the running values of scans in registers."""
    llvm = _package()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.run(module, builder)
