"""Assembles PTX by NVIDIA's linker, without a GPU, and checks what comes out."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

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
def path() -> Path | None:
    """NVIDIA's linker; None where the package nvidia-nvjitlink is not installed, or does not say how many
    registers a kernel takes."""
    try:
        package: Any = import_module("nvidia.cu13")
        found = next(Path(next(iter(package.__path__))).glob("lib/libnvJitLink.so.13"))
    except (ImportError, StopIteration):
        return None
    trial = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n"
    return found if assemble(trial, "sm_80", found).registers else None


@cache
def library(place: Path) -> Any:
    return ctypes.CDLL(str(place))


def assemble(text: str, architecture: str, place: Path | None = None) -> Assembled:
    """Link PTX to machine code; AssertionError with the linker's log if that fails."""
    found = place or path()
    assert found is not None, "nvidia-nvjitlink is not installed"
    linker = library(found)
    options = [f"-arch={architecture}".encode(), b"-Xptxas=-v"]
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    given = (ctypes.c_char_p * len(options))(*options)
    assert not linker.__nvJitLinkCreate_13_0(ctypes.byref(handle), len(options), given)
    source = text.encode()
    failed = linker.nvJitLinkAddData(handle, PTX, source, ctypes.c_size_t(len(source)), b"kernels")
    failed = failed or linker.nvJitLinkComplete(handle)
    log = ""
    for kind in ("Info", "Error"):
        getattr(linker, f"nvJitLinkGet{kind}LogSize")(handle, ctypes.byref(size))
        room = ctypes.create_string_buffer(size.value + 1)
        getattr(linker, f"nvJitLinkGet{kind}Log")(handle, room)
        log += room.value.decode()
    assert not failed, log
    linker.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    linker.nvJitLinkGetLinkedCubin(handle, cubin)
    linker.nvJitLinkDestroy(ctypes.byref(handle))
    return Assembled(cubin.raw, [int(n) for n in re.findall(r"Used (\d+) registers", log)],
                     [int(n) for n in re.findall(r"(\d+) bytes spill", log)])


def contracted(text: str) -> list[str]:
    """Additions and multiplications of floats that the linker may make one instruction of."""
    return re.findall(r"\t((?:add|sub|mul|mad)(?:\.ftz)?\.f(?:32|64)\b.*)", text)


def check(text: str, architecture: str) -> None:
    """PTX assembles, without spills, and nothing in it can be contracted."""
    made = assemble(text, architecture)
    assert made.registers and not any(made.spills), f"spills of {made.spills} bytes"
    assert not contracted(text), contracted(text)[0]
