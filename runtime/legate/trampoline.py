"""The native task: built once for each release of Legate against the headers in its wheel, then loaded.

A wheel of Legate has no CUDA headers, and what of Legate's headers wants them is not used here: a header
put in front of Legate's own turns that part off.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sysconfig
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from diffuse.runtime.legate import prepare
from diffuse.runtime.legate.task import COMPLAINTS
from diffuse.runtime.local import native
from diffuse.runtime.local.pool import Pool
from diffuse.settings import config

SOURCE = Path(__file__).with_name("trampoline.cc")
WITHOUT_CUDA = """#pragma once
#include_next <legate_defines.h>
#undef LEGATE_USE_CUDA
#define LEGATE_USE_CUDA 0
"""
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared")
SECONDS = 300


class Native:
    """The task as compiled code."""

    def __init__(self, library: ctypes.CDLL) -> None:
        pointer = ctypes.c_void_p
        library.diffuse_register.argtypes = [pointer]
        library.diffuse_register.restype = None
        library.diffuse_pool.argtypes = [pointer, pointer, pointer, pointer, ctypes.c_int64]
        library.diffuse_pool.restype = None
        library.diffuse_flags.restype = ctypes.c_uint
        library.diffuse_complaint.restype = ctypes.c_int64
        self._library = library
        self._pool: Pool | None = None

    def register(self, core: Any, library: Any) -> Any:
        self._library.diffuse_register(library.raw_handle)
        return core.LocalTaskID(0)

    def pool(self, pool: Pool) -> None:
        self._pool = pool
        pool.start()
        entry = pool.threads.entry
        submit, wait = (ctypes.cast(function, ctypes.c_void_p) for function in (entry.submit, entry.wait))
        room = pool.threads.field(ctypes.c_uint64, "mask").value // 2
        submitted = ctypes.addressof(pool.threads.submitted)
        self._library.diffuse_pool(pool.threads.address, submit, wait, submitted, room)

    def execute(self, task: Any) -> None:
        task.execute()

    def settled(self) -> None:
        pass

    def flags(self) -> int:
        seen = native.exceptions(int(self._library.diffuse_flags()))
        return seen | (self._pool.flags() if self._pool is not None else 0)

    def complaint(self) -> str | None:
        return COMPLAINTS.get(self._library.diffuse_complaint())


def load(site: Path, version: str) -> Native | None:
    """The task, built first if need be; None where there is no C++ compiler, or CXX is empty.

    `site` is Legate's folder.  A compiler that fails is an error with the compiler's words.
    """
    if os.environ.get("CXX") == "":
        return None
    built = _folder() / f"trampoline-{_key(site, version)}.so"
    if not built.is_file():
        compiler = cxx()
        if compiler is None:
            return None
        build(compiler, site, built)
    return Native(ctypes.CDLL(str(built)))


def cxx() -> str | None:
    """A C++ compiler: $CXX, else one of the usual names; None where there is none."""
    asked, found = os.environ.get("CXX"), prepare.compiler(*prepare.CXX)
    if asked and found is None:
        raise RuntimeError(f"CXX={asked!r} is no command: name a C++17 compiler there, unset it, or set it "
                           "to an empty string to do without one")
    return found


def build(compiler: str, site: Path, target: Path) -> None:
    """Compile the task; the result appears whole or not at all, whoever else builds it meanwhile."""
    target.parent.mkdir(parents=True, exist_ok=True)
    include, libraries = site / "include" / "legate", site / "lib64"
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        shadow, made = Path(folder), Path(folder, target.name)
        (shadow / "legate_defines.h").write_text(WITHOUT_CUDA, encoding="ascii")
        command = [*shlex.split(compiler), *FLAGS, "-o", str(made), str(SOURCE), f"-I{shadow}",
                   f"-I{include}", f"-I{include / 'deps'}", f"-I{include / 'deps' / 'realm'}",
                   f"-I{site / 'include' / 'rapids'}", str(libraries / "liblegate.so"),
                   f"-Wl,-rpath,{libraries}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            said = "\n".join(done.stderr.splitlines()[:20])
            raise RuntimeError(f"{compiler} could not build the task for Legate in {site}; it said:\n{said}\n"
                               "Set CXX to a C++17 compiler that works, or to an empty string to do without.")
        os.replace(made, target)


def _folder() -> Path:
    return Path(config.cache_dir) / "legate"


def _key(site: Path, version: str) -> str:
    """Everything that the built library depends on."""
    said = "\n".join((version, str(site), sysconfig.get_platform(), *FLAGS, WITHOUT_CUDA))
    return sha256(said.encode() + SOURCE.read_bytes()).hexdigest()[:24]
