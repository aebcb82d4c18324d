"""`diffuse run --ranks`: turns options into the command that starts a program on several ranks.

Each rank is `python -m diffuse run program`; the options are passed on as environment variables. This process
then becomes the launcher (launchers.py): signals and the exit status are the launcher's own.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import sys
import tempfile
from pathlib import Path

import click

from diffuse import settings
from diffuse.cli.job import NODE_FILE, JobOptions, override
from diffuse.runtime import machine
from diffuse.runtime.legate import prepare
from diffuse.runtime.mpi import prepare as mpi
from diffuse.runtime.ranks import launcher
from diffuse.settings import SETTINGS, config

TEMPORARY = ("PRTE_MCA_prte_tmpdir_base", "PRTE_MCA_prte_local_tmpdir_base")
"""Variables that tell Open MPI where to keep temporary files: those of all machines, those of this one."""


def apply(launch: JobOptions) -> None:
    """Apply the options to this process and, through its environment, to the ranks that it may start."""
    if launch.named and config.runtime not in ("legate", "mpi"):
        if settings.source("runtime") != "default":
            said = "DIFFUSE_RUNTIME=" if settings.source("runtime") == "environment" else "--runtime "
            raise click.UsageError(f"{launch.named[0]} is for the runtimes legate and mpi, but "
                                   f"{said}{config.runtime} names another: leave one of them out")
        config.runtime = "legate"
    over_mpi = config.runtime == "mpi"
    for name, value in (("threads", launch.cpus), ("output", launch.output)):
        if value is not None:
            setattr(config, name, value)
    if launch.memory is not None:
        override("--memory", "mpi_memory" if over_mpi else "legate_memory", launch.memory)
    _check_machines(launch)
    if launch.launcher == "none" and (launch.ranks or launch.nodes) and launcher.ranks() != launch.total:
        raise click.UsageError(f"--launcher none: expected to be one of {launch.total} ranks, but whatever "
                               f"started this process says {launcher.ranks()}")
    if launch.dry_run and not launch.outer:
        raise click.UsageError("--dry-run shows the command of a launcher: add --ranks, --nodes or --hosts")
    if launch.profile:
        if over_mpi:
            raise click.UsageError("--profile is for the runtime legate: leave it out")
        profile()


def _check_machines(launch: JobOptions) -> None:
    """Refuse machines that are named twice, or are not as many as asked for."""
    said = f"--hosts {launch.hosts}" if launch.hosts else f"--hostfile {launch.hostfile}"
    if launch.hosts and launch.hostfile:
        raise click.UsageError("--hosts and --hostfile both name machines: leave one of them out")
    if launch.hostfile and launch.launcher in ("srun", "pbs"):
        raise click.UsageError(f"--hostfile is for mpirun: leave it out, {launch.launcher} knows its "
                               "machines")
    if launch.hosts and launch.launcher == "pbs":
        raise click.UsageError("--hosts is for mpirun and srun: leave it out, PBS chooses the machines")
    if launch.hosts and "" in launch.names:
        raise click.UsageError(f"{said}: expected names of machines with commas between them")
    if launch.names and launch.nodes not in (None, launch.machines):
        if launch.launcher == "pbs":
            said = f"this job of PBS (file {os.environ[NODE_FILE]})"
        raise click.UsageError(f"--nodes {launch.nodes}, but {said} names {launch.machines}: leave one of "
                               "them out")


def profile() -> None:
    """Have Legate write a profile, and print where."""
    words = shlex.split(os.environ.get("LEGATE_CONFIG", ""))
    ours = {"--profile": [], "--provenance": [], "--profile-name": ["diffuse"], "--logdir": [os.getcwd()]}
    words += [word for name, rest in ours.items() if name not in words for word in (name, *rest)]
    os.environ["LEGATE_CONFIG"] = shlex.join(words)
    stem = Path(prepare.option(words, "--logdir") or "", prepare.option(words, "--profile-name") or "")
    print(f"Legate writes a profile for each rank; to see it, pip install legate-profiler and "
          f"legate_prof view {stem}_*.prof", file=sys.stderr)


def chosen() -> dict[str, str]:
    """The settings that options determine, as environment variables."""
    values = {setting.variable: getattr(config, name) for name, setting in SETTINGS.items()
              if settings.source(name) == "code"}
    return {name: str(int(x)) if isinstance(x, bool) else str(x) for name, x in values.items()}


def environment(launch: JobOptions) -> dict[str, str]:
    """The environment of the launcher and of every rank."""
    made = {**os.environ, **chosen()}
    # ranks that share a machine share its processors, and have to agree on the memory
    if config.threads == "auto":
        made["DIFFUSE_NUM_THREADS"] = str(max(1, machine.processors() // (launch.ranks or 1)))
    if config.runtime == "mpi":
        if not launch.distant and launch.launcher in (None, "mpirun"):
            # searching for other networks takes a second
            made.setdefault("OMPI_MCA_pml", "ob1")
            made.setdefault("OMPI_MCA_btl", "self,sm")
    elif config.legate_memory is None:
        share = int(prepare.SHARE * machine.memory_total()) // (launch.ranks or 1)
        made["DIFFUSE_LEGATE_MEMORY"] = str(share)
    made.setdefault("PYTHONHASHSEED", "0")  # so that sets of strings iterate alike
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        made.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return made


def folder_of_the_job() -> dict[str, str]:
    """Variables that make Open MPI keep the files of a job elsewhere than in ompi.PID, if that folder exists.

    mpirun, which takes over this process and its number, ends with status 213 if it finds files there, and a
    killed one of the same number has left them; one in another container that shares the folder may use them.
    """
    name = next((one for one in TEMPORARY if one in os.environ), TEMPORARY[-1])
    usual = os.environ.get(name) or tempfile.gettempdir()
    if not os.path.lexists(os.path.join(usual, f"ompi.{os.getpid()}")):
        return {}
    return {name: tempfile.mkdtemp(prefix="ompi-", dir=usual)}


def refusal(several: bool) -> str | None:
    """Describe what the runtime of the settings lacks here to run on one rank, or on `several`; None if
    nothing is missing."""
    if config.runtime == "mpi":
        return mpi.refusal()
    if config.runtime == "legate":
        return prepare.find().refusal(several)
    if config.runtime == "cuda":
        from diffuse.runtime.device.driver import LIBRARY, MISSING  # loads what no other runtime needs

        try:
            ctypes.CDLL(LIBRARY)
        except OSError as error:
            return MISSING.format(error)
    return None


def become(launch: JobOptions, words: list[str]) -> int:
    """Replace this process by the launcher of a program; returns 0 if its command was only printed."""
    if "OMPI_COMM_WORLD_RANK" in os.environ:
        raise click.UsageError(f"this process is already one of {launcher.ranks()} ranks: leave out "
                               f"{launch.named[0]}, or add --launcher none")
    from diffuse.cli import launchers  # only where ranks are started

    variables = environment(launch)
    line = launchers.command(launch, words, variables)
    if launch.dry_run:
        made = [f"{name}={shlex.quote(value)}" for name, value in sorted(variables.items())
                if os.environ.get(name) != value]
        print(*made, shlex.join(line))
        return 0
    if not os.path.isabs(line[0]):
        package = mpi if config.runtime == "mpi" else prepare
        raise click.ClickException(f"there is no {line[0]} here: " + (
            package.INSTALL if line[0] == "mpirun" else
            f"outside of {'Slurm' if line[0] == 'srun' else 'PBS'} use --launcher mpirun"))
    if said := refusal(launch.total > 1):
        raise click.ClickException(said)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(line[0], line, {**variables, **folder_of_the_job()})
