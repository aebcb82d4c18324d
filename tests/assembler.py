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
    """NVIDIA's linker; None where the package nvidia-nvjitlink is not installed."""
    try:
        package: Any = import_module("nvidia.cu13")
    except ImportError:
        return None
    return next(Path(next(iter(package.__path__))).glob("lib/libnvJitLink.so.13"), None)


@cache
def library() -> Any:
    return ctypes.CDLL(str(path()))


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


def contracted(text: str) -> list[str]:
    """Additions and multiplications of floats that the linker may make one instruction of."""
    return re.findall(r"\t((?:add|sub|mul|mad)(?:\.ftz)?\.f(?:32|64)\b.*)", text)


def check(text: str, architecture: str) -> None:
    """PTX assembles, without spills, and nothing in it can be contracted."""
    made = assemble(text, architecture)
    assert made.registers and not any(made.spills), f"spills of {made.spills} bytes"
    assert not contracted(text), contracted(text)[0]
