"""Identifies what machine code depends on besides its source: processor, C library, and version of LLVM.

LLVM itself is not asked: a program whose kernels are all cached never loads it.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from diffuse.interrupts import suppress

FIELDS = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags",
          "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features")
"""Fields of /proc/cpuinfo that identify a processor and its instruction sets, on x86 and on ARM."""


def machine() -> str:
    """Return the processor architecture, such as x86_64."""
    import platform  # not before the server is started, which takes as long as the program's imports

    return platform.machine()


@cache
def processor() -> str:
    """Describe the first processor, and the C library, which provides the vector functions."""
    try:
        library = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError):
        library = ""
    return f"{machine()} {library} {described(_cpuinfo())}"


def described(cpuinfo: str) -> str:
    """Extract these fields of the first processor."""
    first = cpuinfo.strip().partition("\n\n")[0]
    lines = [line.partition(":") for line in first.splitlines()]
    return "; ".join(f"{name.strip()} {value.strip()}" for name, _, value in lines if name.strip() in FIELDS)


def _cpuinfo() -> str:
    """Read the beginning of /proc/cpuinfo: reading all of it is slow on machines with many processors."""
    with suppress(OSError):
        handle = os.open("/proc/cpuinfo", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(handle, 1 << 14).decode(errors="replace")
        finally:
            os.close(handle)
    import platform

    return platform.processor()


@cache
def llvm() -> str:
    """Identify the installed llvmlite, which brings LLVM; empty if there is none."""
    from hashlib import sha256

    folder = llvmlite()
    if folder is None:
        return ""
    found = sha256()
    for name in ("_version.py", "__init__.py"):
        content = b"none"
        with suppress(OSError):
            content = (folder / name).read_bytes()
        found.update(content)
    with os.scandir(folder / "binding") as items:
        sizes = sorted(item.stat().st_size for item in items if item.name.startswith("libllvmlite"))
    return f"{found.hexdigest()} {sizes}"


@cache
def llvmlite() -> Path | None:
    """Find the folder of the package without importing it."""
    try:
        found = find_spec("llvmlite")
    except (ImportError, ValueError):
        found = None
    return None if found is None or found.origin is None else Path(found.origin).parent
