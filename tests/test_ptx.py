"""What LLVM writes for GPUs, assembled by NVIDIA's linker without a GPU: registers, spills, contraction."""

from __future__ import annotations

import pytest

from diffuse.kernels.build import codegen, ptx
from diffuse.kernels.grid import emit, schedule
from diffuse.kernels.llvm.math.table import TABLE
from diffuse.kernels.targets.nvptx import Nvptx
from diffuse.runtime.legate import copying
from tests import test_complex_math
from tests.assembler import ARCHITECTURES, assemble, check, path
from tests.bodies import Case
from tests.each import rounds
from tests.jobs import python
from tests.test_math import body

pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")
pytest.importorskip("nvidia.cu13", reason="nvidia-nvjitlink assembles PTX without a GPU")
pytestmark = pytest.mark.skipif(path() is None, reason="this linker says nothing of registers")
"""A mark, since processes that run tests together have to find the same ones, whatever each linker says."""


@pytest.mark.parametrize("first", range(0, rounds(10, 20), 5))
def test_random_bodies_assemble_for_every_architecture_and_spill_nothing(first: int) -> None:
    for seed in range(first, first + 5):
        case = Case(seed)
        try:
            text = ptx.compile(emit.for_gpu(case.body, Nvptx()), "sm_80")
        except schedule.Refused:
            continue
        for architecture in ARCHITECTURES:
            check(text, architecture)


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
    check(ptx.compile(emit.for_gpu(body(name, dtype), Nvptx()), "sm_80"), "sm_90")


@pytest.mark.parametrize("name, dtype", test_complex_math.WRITTEN)
def test_complex_functions_assemble_and_spill_nothing(name: str, dtype: str) -> None:
    check(ptx.compile(emit.for_gpu(test_complex_math.body(name, dtype), Nvptx()), "sm_80"), "sm_90")


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
    """The control: without the mark of rounding the linker makes one instruction of them, and the check of
    other tests sees it."""
    text = ptx.compile(multiply_add(), "sm_80")
    assert "mul.rn.f64" in text and "add.rn.f64" in text and "fma" not in text
    free = text.replace("mul.rn.f64", "mul.f64").replace("add.rn.f64", "add.f64")
    for architecture in ARCHITECTURES:
        assert assemble(text, architecture).cubin != assemble(free, architecture).cubin
        with pytest.raises(AssertionError, match="mul.f64"):
            check(free, architecture)


def test_spills_and_unresolved_names_are_seen() -> None:
    """The controls of the other two checks: few registers, and a function that is nowhere."""
    text = ptx.compile(emit.for_gpu(Case(3).body, Nvptx()), "sm_80")
    check(text, "sm_90")
    wide = ptx.compile(emit.for_gpu(body("pow", "float64"), Nvptx()), "sm_80")
    assert any(assemble(wide.replace(".maxntid 256", ".maxntid 256\n.maxnreg 16"), "sm_90").spills)
    head, entry, rest = text.partition(".visible .entry")
    calls = rest.replace("\tret;", "\tcall.uni nowhere, ();\n\tret;")
    lost = f"{head}.extern .func nowhere ();\n{entry}{calls}"
    with pytest.raises(AssertionError, match="nowhere"):
        check(lost, "sm_90")


def test_code_for_newer_gpus_is_that_for_the_newest_that_ptx_81_knows() -> None:
    """In a process of its own, which LLVM would end."""
    newer = "sm_100", "sm_103", "sm_110", "sm_120", "sm_121", "sm_130"
    program = ("from diffuse.kernels.build import codegen; from tests.bodies import Case; "
               f"print(*{{codegen.grid_code(Case(3).body, name).decode() for name in {newer}}})")
    done = python(program)
    assert done.returncode == 0 and done.stdout.count(".target sm_90") == 1, done.stderr
    for architecture in ("sm_100", "sm_120"):
        check(done.stdout, architecture)


def test_the_compile_service_takes_requests_for_grid_kernels() -> None:
    body = Case(3).body
    assert codegen.grid_code(body, "sm_90").startswith(b"//") and b".target sm_90" in codegen.grid_code(
        body, "sm_90")
    assert codegen.grid_code(body, "simt").startswith(b"\x7fELF")
