"""The job that the options of `diffuse run` describe: how many ranks run on which machines."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from diffuse import settings

NODE_FILE = "PBS_NODEFILE"
"""The variable in which a job of PBS finds the file with the names of its machines."""


@dataclass(frozen=True)
class JobOptions:
    """The options of `diffuse run` that determine where a program runs."""

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
        """The given options that need a runtime of several ranks."""
        given = {"--ranks": self.ranks, "--nodes": self.nodes, "--hosts": self.hosts,
                 "--hostfile": self.hostfile, "--launcher": self.launcher,
                 "--launcher-extra": self.launcher_extra, "--memory": self.memory,
                 "--profile": self.profile, "--dry-run": self.dry_run}
        return [name for name, value in given.items() if value]

    @cached_property
    def names(self) -> list[str]:
        """The names of the machines to run on, if they are known."""
        if self.hosts:
            return self.hosts.split(",")
        if self.hostfile:
            return [host for host, _ in slots(self.hostfile)]
        return node_file()[:self.nodes] if self.launcher == "pbs" else []

    @property
    def machines(self) -> int:
        """The number of machines to run on."""
        return len(self.names) or self.nodes or 1

    @property
    def total(self) -> int:
        """The number of ranks on all machines together."""
        if self.hostfile and self.ranks is None:
            return sum(count for _, count in slots(self.hostfile))
        return (self.ranks or 1) * self.machines

    @property
    def distant(self) -> bool:
        """Does, or may, the program run on other machines than this one?"""
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
        click.option("--hosts", metavar="A,B", help="Names of the machines, as A,B,C."),
        click.option("--hostfile", metavar="FILE", help="Machines and their slots, in mpirun's format."),
        click.option("--launcher", type=click.Choice(["mpirun", "srun", "pbs", "none"]),
                     help="The launcher of the ranks: mpirun, Slurm, PBS (qsub, and mpirun within its jobs); "
                     "none: something else has started this one."),
        click.option("--launcher-extra", multiple=True, metavar="WORDS",
                     help="Additional options for the launcher; may be repeated."),
        click.option("--cpus", type=count, metavar="N", help="Threads of each rank."),
        click.option("--memory", metavar="SIZE", help="Memory for the arrays of each rank."),
        click.option("--output", type=click.Choice(["rank0", "all"]), help="Ranks whose output is shown."),
        click.option("--profile", is_flag=True, help="Let Legate write a profile."),
        click.option("--dry-run", is_flag=True, help="Print the launcher's command instead of running it."),
    )):
        function = option(function)
    return function


def taken(values: dict[str, Any]) -> JobOptions:
    """Remove the options of `JobOptions` from a command's values, and return them."""
    return JobOptions(**{field.name: values.pop(field.name) for field in fields(JobOptions)})


def override(option: str, name: str, value: str | tuple[str, ...]) -> None:
    """Set a setting to the value of an option; raises UsageError, which names the option, for a wrong one."""
    try:
        setattr(settings.config, name, value)
    except ValueError as error:
        words = value if isinstance(value, str) else ",".join(value)
        raise click.UsageError(str(error).replace(f"diffuse.config.{name}={value!r}", f"{option} {words}")
                               ) from None


def node_file() -> list[str]:
    """The machines of this job of PBS, each once; none outside a job."""
    path = os.environ.get(NODE_FILE)
    if path is None:
        return []
    return list(dict.fromkeys(host for host, _ in slots(path, NODE_FILE)))


def slots(path: str, said: str = "--hostfile") -> list[tuple[str, int]]:
    """The machines of a host file, and the ranks that each takes: lines of `name` or `name slots=N`."""
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
