"""The machine code of a kernel's body, compiled and run in this thread, without a cache or a runtime."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.kernels.build import codegen, jit
from diffuse.service import loader


def native(body: Body) -> jit.Native:
    """Compile a body and load its code."""
    return jit._native(loader.load(codegen.object_code(body), jit._names(body)))


def assembly(body: Body) -> str:
    """The assembly text of a body's machine code."""
    compiler = codegen.machine()
    return str(compiler.emit_assembly(codegen._module(codegen.text(body), compiler)))


def run(native: jit.Native, body: Body, values: Sequence[int | float], points: int) -> None:
    """Run all points of a launch one after another, then `finish`."""
    block = ctypes.create_string_buffer(abi.layout(body).pack(*values))
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(native.address)
    for point in range(points):
        kernel(ctypes.addressof(block), point)
    if points > 1 and native.finish:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(native.finish)(ctypes.addressof(block))
