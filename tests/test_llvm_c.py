"""LLVM's C functions in llvmlite's library, beside llvmlite's package: the same machine code, and errors."""

from __future__ import annotations

from collections.abc import Iterator

import llvmlite
import pytest

from diffuse.ir import Privilege
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.build import codegen, llvm_c
from diffuse.kernels.targets import host
from tests.jobs import python
from tests.test_jit import plus

ANSWER = "define i64 @answer() {\n  ret i64 42\n}\n"


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Through the package, as with a version of llvmlite that is not known."""
    codegen._machine.cache_clear()
    monkeypatch.setattr(llvmlite, "__version__", "1.0.0")
    llvm_c.library.cache_clear()
    yield
    monkeypatch.undo()
    llvm_c.library.cache_clear()
    codegen._machine.cache_clear()


SCANS = Body((Space(1, (-1,)),), (Argument(0, 0, "float64", 0, "1", Privilege.READ),
                                  Argument(1, 0, "float64", 0, "1", Privilege.WRITE)), (), (
    Loop(0, (0,), (Op("load", "float64", (), 0), Op("scan", "float64", (0,), ("sum", 0)),
                   Op("store", "float64", (1,), 1))),))
"""A running sum."""


def compiled() -> tuple[object, ...]:
    return (codegen.object_code(plus(7.25)), codegen.object_code(SCANS), codegen.common_code(ANSWER),
            host._asked())


FOUND = compiled()


def test_the_installed_version_is_known() -> None:
    assert llvm_c.library() is not None


def test_both_compile_to_the_same_code_for_the_same_machine(package: None) -> None:
    assert llvm_c.library() is None
    assert compiled() == FOUND


def test_text_that_llvm_refuses_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="expected"):
        codegen.common_code("define nothing")
    with pytest.raises(RuntimeError, match="does not dominate"):
        codegen.common_code("define i64 @answer() {\n  br label %c\nb:\n  %x = add i64 1, 2\n  br label %c\n"
                            "c:\n  ret i64 %x\n}\n")


def test_bodies_are_compiled_without_the_package() -> None:
    said = python("""
        import sys
        from diffuse.kernels.build import codegen
        from tests.test_jit import plus
        codegen.object_code(plus(7.25)), codegen.common_code("")
        print("llvmlite.binding" in sys.modules)""")
    assert (said.stdout, said.stderr) == ("False\n", "")


def test_options_for_kernels_leave_code_for_gpus_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled() -> bytes:
        return codegen.grid_code(plus(7.25), "sm_80")

    library = llvm_c.library()
    assert library is not None
    found = compiled()
    with monkeypatch.context() as unchanged:
        library.set_kernel_options(False)
        unchanged.setattr(llvm_c.Library, "set_kernel_options", lambda self, on: None)
        assert compiled() == found
    library.set_kernel_options(True)
    with monkeypatch.context() as unchanged:
        unchanged.setattr(llvm_c.Library, "set_kernel_options", lambda self, on: None)
        assert compiled() != found      # with them it would be other code
