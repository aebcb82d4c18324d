"""What LLVM writes for GPUs, assembled by NVIDIA's linker without a GPU: registers, spills, contraction."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from diffuse.kernels.build import codegen, ptx
from diffuse.kernels.grid import emit, schedule
from diffuse.kernels.llvm.math.table import TABLE
from diffuse.kernels.targets.nvptx import Nvptx
from diffuse.runtime.legate import copying
from tests.bodies import Case
from tests.test_math import body

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")
linker = pytest.importorskip("nvidia.cu13", reason="nvidia-nvjitlink assembles PTX without a GPU")

ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
PTX = 2
"""nvJitLink's number for PTX."""


class Assembled(NamedTuple):
    """What the linker made of PTX."""

    cubin: bytes
    registers: list[int]
    """Of each kernel."""
    spills: list[int]
    """Bytes that each kernel stores and loads for want of registers."""


@cache
def library() -> Any:
    (path,) = Path(next(iter(linker.__path__))).glob("lib/libnvJitLink.so.13")
    return ctypes.CDLL(str(path))


def assemble(text: str, architecture: str) -> Assembled:
    """Link PTX to machine code; AssertionError with the linker's log if that fails."""
    options = [f"-arch={architecture}".encode(), b"-Xptxas=-v"]
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    given = (ctypes.c_char_p * len(options))(*options)
    assert not library().__nvJitLinkCreate_13_0(ctypes.byref(handle), len(options), given)
    source = text.encode()
    failed = library().nvJitLinkAddData(handle, PTX, source, ctypes.c_size_t(len(source)), b"kernels")
    failed = failed or library().nvJitLinkComplete(handle)
    log = ""
    for kind in ("Info", "Error"):
        getattr(library(), f"nvJitLinkGet{kind}LogSize")(handle, ctypes.byref(size))
        room = ctypes.create_string_buffer(size.value + 1)
        getattr(library(), f"nvJitLinkGet{kind}Log")(handle, room)
        log += room.value.decode()
    assert not failed, log
    library().nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    library().nvJitLinkGetLinkedCubin(handle, cubin)
    library().nvJitLinkDestroy(ctypes.byref(handle))
    return Assembled(cubin.raw, [int(n) for n in re.findall(r"Used (\d+) registers", log)],
                     [int(n) for n in re.findall(r"(\d+) bytes spill", log)])


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_bodies_assemble_for_every_architecture_and_spill_nothing(first: int) -> None:
    for seed in range(first, first + 10):
        case = Case(seed)
        try:
            text = ptx.compile(emit.for_gpu(case.body, Nvptx()), "sm_80")
        except schedule.Refused:
            continue
        for architecture in ARCHITECTURES:
            made = assemble(text, architecture)
            assert made.registers and not any(made.spills), f"seed {seed}, {architecture}\n{case.body}"


def test_kernels_of_single_points_assemble_and_spill_nothing() -> None:
    """Those that Legate runs on GPUs."""
    assembled = 0
    for seed in range(30):
        try:
            made = assemble(codegen.grid_code(Case(seed).body, "sm_80 tiles").decode(), "sm_90")
        except schedule.Refused:
            continue
        assembled += 1
        assert made.registers and not any(made.spills), f"seed {seed}\n{Case(seed).body}"
    assert assembled > 20


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernels_that_copy_boxes_assemble(architecture: str) -> None:
    made = assemble(ptx.compile(copying.for_gpu(), "sm_80"), architecture)
    assert len(made.registers) == len(copying.NAMES) and max(made.registers) <= 64 and not any(made.spills)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", TABLE)
def test_transcendental_functions_assemble_and_spill_nothing(name: str, dtype: str) -> None:
    made = assemble(ptx.compile(emit.for_gpu(body(name, dtype), Nvptx()), "sm_80"), "sm_90")
    assert made.registers and not any(made.spills)


def multiply_add() -> str:
    """A module that adds to a product, 256 times over."""
    from diffuse.ir import Privilege
    from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space

    arguments = tuple([Argument(k, 0, "float64", 0, "1", Privilege.READ) for k in range(3)]
                      + [Argument(3, 0, "float64", 0, "1", Privilege.WRITE)])
    ops = (*[Op("load", "float64", (), k) for k in range(3)], Op("multiply", "float64", (0, 1)),
           Op("add", "float64", (3, 2)), Op("store", "float64", (4,), 3))
    return emit.for_gpu(Body((Space(1, (0,)),), arguments, (), (Loop(0, (0,), ops),)), Nvptx())




def test_products_and_sums_are_rounded_one_by_one() -> None:
    """The control: without the mark of rounding the linker makes one instruction of them."""
    text = ptx.compile(multiply_add(), "sm_80")
    assert "mul.rn.f64" in text and "add.rn.f64" in text and "fma" not in text
    free = text.replace("mul.rn.f64", "mul.f64").replace("add.rn.f64", "add.f64")
    for architecture in ARCHITECTURES:
        assert assemble(text, architecture).cubin != assemble(free, architecture).cubin


def test_the_compile_service_takes_requests_for_grid_kernels() -> None:
    body = Case(3).body
    assert codegen.grid_code(body, "sm_90").startswith(b"//") and b".target sm_90" in codegen.grid_code(
        body, "sm_90")
    assert codegen.grid_code(body, "simt").startswith(b"\x7fELF")
