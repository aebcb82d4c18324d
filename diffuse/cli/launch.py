"""`diffuse run --ranks`: options in, the command that starts a program on several ranks out.

Each rank is `python -m diffuse run program`; what the options say travels as variables of the environment.
This process then becomes the launcher (launchers.py): signals and the exit status are the launcher's own.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from diffuse import settings
from diffuse.cli import launchers
from diffuse.runtime import machine
from diffuse.runtime.legate import prepare
from diffuse.runtime.mpi import prepare as mpi
from diffuse.runtime.ranks import launcher
from diffuse.settings import SETTINGS, config


@dataclass(frozen=True)
class JobOptions:
    """The options of `diffuse run` that say where a program runs."""

    ranks: int | None = None
    nodes: int | None = None
    hosts: str | None = None
    hostfile: str | None = None
    launcher: str | None = None
    launcher_extra: tuple[str, ...] = ()
    cpus: int | None = None
    memory: str | None = None
    output: str | None = None
    profile: bool = False
    dry_run: bool = False

    @property
    def named(self) -> list[str]:
        """The options given that only runtimes of several ranks can follow."""
        given = {"--ranks": self.ranks, "--nodes": self.nodes, "--hosts": self.hosts,
                 "--hostfile": self.hostfile, "--launcher": self.launcher,
                 "--launcher-extra": self.launcher_extra, "--memory": self.memory,
                 "--profile": self.profile, "--dry-run": self.dry_run}
        return [name for name, value in given.items() if value]

    @cached_property
    def names(self) -> list[str]:
        """The names of the machines to run on, as far as they are known."""
        if self.hosts:
            return self.hosts.split(",")
        if self.hostfile:
            return [host for host, _ in launchers.slots(self.hostfile)]
        return launchers.node_file()[:self.nodes] if self.launcher == "pbs" else []

    @property
    def machines(self) -> int:
        """Machines to run on."""
        return len(self.names) or self.nodes or 1

    @property
    def total(self) -> int:
        """Ranks on all machines together."""
        if self.hostfile and self.ranks is None:
            return sum(count for _, count in launchers.slots(self.hostfile))
        return (self.ranks or 1) * self.machines

    @property
    def distant(self) -> bool:
        """Does it run on other machines than this one, or may it?"""
        return bool(self.names) or self.machines > 1

    @property
    def outer(self) -> bool:
        """Does a launcher have to be started?"""
        return self.launcher != "none" and (self.total > 1 or bool(self.launcher or self.names))


def options(function: Any) -> Any:
    """The options of `JobOptions` on a command."""
    count = click.IntRange(min=1)
    for option in reversed((
        click.option("--ranks", type=count, metavar="N",
                     help="Processes on each machine, under Legate or MPI."),
        click.option("--nodes", type=count, metavar="N", help="Machines to run on."),
        click.option("--hosts", metavar="A,B", help="Their names."),
        click.option("--hostfile", metavar="FILE", help="Machines and their slots, as mpirun takes them."),
        click.option("--launcher", type=click.Choice(["mpirun", "srun", "pbs", "none"]),
                     help="What starts the ranks: mpirun, Slurm, PBS (qsub, and mpirun within its jobs); "
                     "none: something else has started this one."),
        click.option("--launcher-extra", multiple=True, metavar="WORDS",
                     help="More words for the launcher; may be repeated."),
        click.option("--cpus", type=count, metavar="N", help="Threads of each rank."),
        click.option("--memory", metavar="SIZE", help="What arrays may take in each rank."),
        click.option("--output", type=click.Choice(["rank0", "all"]), help="Whose output is shown."),
        click.option("--profile", is_flag=True, help="Let Legate write a profile."),
        click.option("--dry-run", is_flag=True, help="Print the launcher's command instead of running it."),
    )):
        function = option(function)
    return function


def taken(values: dict[str, Any]) -> JobOptions:
    """Take the options of `JobOptions` out of a command's values."""
    return JobOptions(**{field.name: values.pop(field.name) for field in fields(JobOptions)})


def apply(launch: JobOptions) -> None:
    """Set what the options ask of this process and, as its environment, of the ranks that it may start."""
    if launch.named and config.runtime not in ("legate", "mpi"):
        if settings.source("runtime") != "default":
            said = "DIFFUSE_RUNTIME=" if settings.source("runtime") == "environment" else "--runtime "
            raise click.UsageError(f"{launch.named[0]} is for the runtimes legate and mpi, but "
                                   f"{said}{config.runtime} names another: leave one of them out")
        config.runtime = "legate"
    over_mpi = config.runtime == "mpi"
    given = {"threads": launch.cpus, "mpi_memory" if over_mpi else "legate_memory": launch.memory,
             "output": launch.output}
    for name, value in given.items():
        if value is not None:
            setattr(config, name, value)
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
            said = f"this job of PBS (file {os.environ[launchers.NODE_FILE]})"
        raise click.UsageError(f"--nodes {launch.nodes}, but {said} names {launch.machines}: leave one of "
                               "them out")


def profile() -> None:
    """Let Legate profile, and say where it writes."""
    words = shlex.split(os.environ.get("LEGATE_CONFIG", ""))
    ours = {"--profile": [], "--provenance": [], "--profile-name": ["diffuse"], "--logdir": [os.getcwd()]}
    words += [word for name, rest in ours.items() if name not in words for word in (name, *rest)]
    os.environ["LEGATE_CONFIG"] = shlex.join(words)
    stem = Path(prepare.option(words, "--logdir") or "", prepare.option(words, "--profile-name") or "")
    print(f"Legate writes a profile for each rank; to see it, pip install legate-profiler and "
          f"legate_prof view {stem}_*.prof", file=sys.stderr)


def chosen() -> dict[str, str]:
    """The settings that options named, as variables."""
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
            # to look for other networks takes a second
            made.setdefault("OMPI_MCA_pml", "ob1")
            made.setdefault("OMPI_MCA_btl", "self,sm")
    elif config.legate_memory is None:
        share = int(prepare.SHARE * machine.memory_total()) // (launch.ranks or 1)
        made["DIFFUSE_LEGATE_MEMORY"] = str(share)
    made.setdefault("PYTHONHASHSEED", "0")  # sets of strings iterate alike
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        made.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return made


def become(launch: JobOptions, words: list[str]) -> int:
    """Replace this process by the launcher of a program; 0 if that was only shown."""
    if "OMPI_COMM_WORLD_RANK" in os.environ:
        raise click.UsageError(f"this process is already one of {launcher.ranks()} ranks: leave out "
                               f"{launch.named[0]}, or add --launcher none")
    variables = environment(launch)
    line = launchers.command(launch, words, variables)
    if launch.dry_run:
        made = [f"{name}={shlex.quote(value)}" for name, value in sorted(variables.items())
                if os.environ.get(name) != value]
        print(*made, shlex.join(line))
        return 0
    if not os.path.isabs(line[0]):
        raise click.ClickException(f"there is no {line[0]} here: " + (
            prepare.INSTALL if line[0] == "mpirun" else
            f"outside of {'Slurm' if line[0] == 'srun' else 'PBS'} use --launcher mpirun"))
    if refusal := mpi.refusal() if config.runtime == "mpi" else prepare.find().refusal(launch.total > 1):
        raise click.ClickException(refusal)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(line[0], line, variables)
