"""Object code in memory: the loader for x86-64, beside LLVM's own, and what it refuses."""

from __future__ import annotations

import ctypes
import gc
import platform
import struct
from functools import cache
from typing import Any

import pytest

from diffuse.service import elf, loader, mcjit
from diffuse.service.loader import LoadError
from tests.conftest import GOLDEN

ELF = pytest.mark.skipif(platform.machine() != "x86_64", reason="other machines load through LLVM")

SOURCE = """
@table = private constant [3 x double] [double 2.0, double 4.0, double 8.0]
declare double @{outside}(double)
define double @inner(double %x) noinline nounwind {{
  %y = call double @{outside}(double %x)
  ret double %y
}}
define double @first(double %x, i64 %i) nounwind {{
  %at = getelementptr [3 x double], ptr @table, i64 0, i64 %i
  %value = load double, ptr %at
  %y = call double @inner(double %value)
  %z = fadd double %x, %y
  ret double %z
}}
define double @second(double %x) {{
  %y = fmul double %x, 3.0
  ret double %y
}}
"""


@cache
def image(source: str = SOURCE, outside: str = "exp2") -> bytes:
    """Object code as the compile server makes it."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    module = llvm.parse_assembly(source.format(outside=outside))
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return bytes(machine.emit_object(module))


def call(loaded: loader.Loaded) -> list[float]:
    first = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64)(loaded.addresses["first"])
    second = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(loaded.addresses["second"])
    return [first(1.0, 0), first(1.0, 2), second(5.0)]


@pytest.mark.parametrize("load", [loader.load, mcjit.load])
def test_functions_constants_and_the_c_library_are_found(load: Any) -> None:
    assert call(load(image(), ("first", "second"))) == [5.0, 257.0, 15.0]


@pytest.mark.parametrize("load", [loader.load, mcjit.load])
def test_a_function_that_is_missing_is_named(load: Any) -> None:
    with pytest.raises(LoadError, match="lacks the function third, fourth"):
        load(image(), ("first", "third", "fourth"))


def mapped() -> str:
    with open("/proc/self/maps") as lines:
        return lines.read()


@ELF
def test_pages_are_executable_never_writable_and_go_with_the_code() -> None:
    loaded = loader.load(image(), ("first",))
    start = loaded.addresses["first"] & -4096
    line = next(line for line in mapped().splitlines()
                if int(line.split("-")[0], 16) <= start < int(line.split("-")[1].split()[0], 16))
    assert line.split()[1] == "r-xp"
    del loaded
    gc.collect()
    assert line not in mapped()


def test_nothing_unwinds_through_a_kernel() -> None:
    """The loader leaves out the tables by which exceptions unwind the stack."""
    lines = [line for path in GOLDEN.rglob("*.txt") for line in path.read_text().splitlines()
             if line.startswith("define ") and "ptx_kernel" not in line]
    assert len(lines) > 10 and all(" nounwind" in line for line in lines)


@ELF
def test_a_symbol_that_nobody_has_is_named() -> None:
    with pytest.raises(LoadError, match="neither this process nor .* has the function no_such_function_here"):
        loader.load(image(outside="no_such_function_here"), ("first",))


@ELF
def test_sections_that_are_written_to_are_refused() -> None:
    source = """
@counter = global i64 5
define i64 @first() {{
  %x = load i64, ptr @counter
  ret i64 %x
}}
"""
    with pytest.raises(LoadError, match=r"writes to its section \.l?data"):
        loader.load(image(source), ("first",))


@ELF
def test_a_relocation_of_another_type_is_refused() -> None:
    whole = bytearray(image())
    sections = elf._sections(bytes(whole))
    places, _ = elf._layout(bytes(whole), sections)
    table = next(s for s in sections if s.kind == elf.ADDENDS and s.info in places)
    struct.pack_into("<I", whole, table.offset + 8, 37)
    with pytest.raises(LoadError, match="relocation of the unknown type 37"):
        loader.load(bytes(whole), ("first",))


@ELF
@pytest.mark.parametrize("damage", ["", "empty", "cut", "other machine", "text"])
def test_what_is_no_object_code_is_refused(damage: str) -> None:
    whole = image()
    damaged = {"": whole[:10], "empty": b"", "cut": whole[:len(whole) // 2], "text": b"no object code" * 100,
               "other machine": whole[:18] + struct.pack("<H", 183) + whole[20:]}[damage]
    with pytest.raises(LoadError):
        loader.load(damaged, ("first",))


@ELF
def test_damage_anywhere_is_refused_or_loaded_but_never_reads_beyond_the_image() -> None:
    """The loader alone: the cache recognises damage before that."""
    whole = image()
    for at in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[at] ^= 0x81
        try:
            loader.load(bytes(damaged), ("first",))
        except (LoadError, MemoryError):
            pass
