"""What machine code depends on besides its source: the processor, the C library, and the version of LLVM.

All of it is found without LLVM, for a program whose kernels are kept never loads that.
"""

from __future__ import annotations

import os
import platform
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

FIELDS = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags",
          "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features")
"""What the system's description of a processor says about its instructions, for x86 and for ARM."""


def machine() -> str:
    """The kind of processor, as x86_64."""
    return platform.machine()


@cache
def processor() -> str:
    """The first processor's kind and instruction sets, and the C library with its vector functions."""
    try:
        library = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError):
        library = ""
    return f"{machine()} {library} {described(_cpuinfo())}"


def described(cpuinfo: str) -> str:
    """The fields of the first processor."""
    first = cpuinfo.strip().partition("\n\n")[0]
    lines = [line.partition(":") for line in first.splitlines()]
    return "; ".join(f"{name.strip()} {value.strip()}" for name, _, value in lines if name.strip() in FIELDS)


def _cpuinfo() -> str:
    """The beginning of the system's list of processors: many of them take a while to describe."""
    try:
        handle = os.open("/proc/cpuinfo", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(handle, 1 << 14).decode(errors="replace")
        finally:
            os.close(handle)
    except OSError:
        return platform.processor()


@cache
def llvm() -> str:
    """The version of llvmlite, which brings LLVM; empty if it is not installed."""
    folder = llvmlite()
    if folder is None:
        return ""
    found = sha256()
    for name in ("_version.py", "__init__.py"):
        try:
            found.update((folder / name).read_bytes())
        except OSError:
            found.update(b"none")
    with os.scandir(folder / "binding") as items:
        sizes = sorted(item.stat().st_size for item in items if item.name.startswith("libllvmlite"))
    return f"{found.hexdigest()} {sizes}"


@cache
def llvmlite() -> Path | None:
    """The folder of the package, which is not imported."""
    try:
        found = find_spec("llvmlite")
    except (ImportError, ValueError):
        found = None
    return None if found is None or found.origin is None else Path(found.origin).parent
