"""Programs in processes of their own, for tests: when their time is over they end, with all they started."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from diffuse.runtime.legate import prepare
from diffuse.runtime.mpi import prepare as mpi

ROOT = Path(__file__).resolve().parent.parent
LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "MV2_", "SLURM_", "PBS_", "LEGATE_", "REALM_", "UCX_")
SECONDS = 240
"""After so many seconds a job counts as hanging; most are over in 10, on a busy machine in 60."""
DISTRIBUTED = str(ROOT / "tests" / "distributed.py")
TINY: dict[str, Any] = {"DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "64", "DIFFUSE_LEGATE_MEMORY": "512M"}
"""Settings under which tests' small arrays are recorded and cut."""

ONE, SEVERAL = prepare.find().refusal(), prepare.find().refusal(several=True)
if SEVERAL is None and not Path(sys.prefix, "bin", "mpirun").exists():
    SEVERAL = "no mpirun beside this Python"
OVER_MPI = mpi.refusal()
if OVER_MPI is None and not Path(sys.prefix, "bin", "mpirun").exists():
    OVER_MPI = "no mpirun beside this Python"
"""Why no ranks run over MPI here."""
needs_legate = pytest.mark.skipif(ONE is not None, reason=str(ONE))

FILL = """
import os, sys
from diffuse.runtime.legate import prepare
from diffuse.runtime.ranks import launcher, process
core = prepare.start()
assert prepare.start() is core
process.settle_in(launcher.rank(), launcher.ranks())
import numpy
legate = core.get_legate_runtime()
store = legate.create_store(core.types.float64, (1000,))
store.fill(3.0)
assert numpy.asarray(store.get_physical_store())[999] == 3.0
print(legate.node_count, prepare.inline(), prepare.memory_given() > 0)
if sys.argv[1:] == ["fail"] and launcher.rank() == 1:
    raise ValueError("boo")
"""
"""A store of Legate's, filled and read back."""


def environment(**variables: str) -> dict[str, str]:
    """Ours, without what some launcher around the tests has said."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    # what somebody put on Python's path stays there, behind us
    found = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    return {**kept, "PYTHONPATH": os.pathsep.join(dict.fromkeys([str(ROOT), *found])), **variables}


@dataclass(frozen=True)
class Job:
    """A command that ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def tail(self) -> str:
        """The end of what it said, without the addresses of Legate's stack traces."""
        lines = [line for line in (self.stdout + self.stderr).splitlines() if "0x0000" not in line]
        return f"status {self.returncode}\n" + "\n".join(lines[-40:])


def job(*words: str, seconds: float = SECONDS, cwd: Path | None = None, **variables: Any) -> Job:
    """Run a command; if it takes too long end it with all of its group, and fail the test."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
                               env=environment(**variables), start_new_session=True, errors="replace")
    late = False
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        late = True
        process.terminate()  # a launcher then ends its ranks, which are in groups of their own
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    done = Job(process.returncode, out, err)
    if late:
        pytest.fail(f"not done after {seconds} seconds: {shlex.join(words)}\n{done.tail}")
    return done


def python(text: str, *words: str, **variables: Any) -> Job:
    """Run program text."""
    return job(sys.executable, "-c", textwrap.dedent(text), *words, **variables)


def diffuse(*words: str, **options: Any) -> Job:
    """Run the command line; what it predicts is of ranks, whichever runtime the tests run on."""
    if {"--predict", "--simulate"} & {*words}:
        options = {"DIFFUSE_RUNTIME": "mpi", **options}
    return job(sys.executable, "-m", "diffuse", *words, **options)


def over_mpi(ranks: int, *words: str, **options: Any) -> Job:
    """Run the command line on ranks over MPI, one thread each."""
    return diffuse("run", "--runtime", "mpi", "--ranks", str(ranks), "--cpus", "1", *words, **options)


def script(folder: Path, text: str) -> str:
    """Write the text of a program to a file in a folder, and return its path."""
    path = folder / "x.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def found_in(folder: Path) -> list[dict[str, Any]]:
    """What the processes of a run of distributed.py found."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def run(*words: str) -> tuple[str, ...]:
    """The command `diffuse run` with these words."""
    return sys.executable, "-m", "diffuse", "run", *words


# -- a network of two machines -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """Two network namespaces with one cable between them, each with an address."""

    names: tuple[str, str]
    addresses: tuple[str, str]
    agent: str
    """A program that runs a command on the machine of an address, as ssh would."""

    def within(self, number: int, *words: str) -> tuple[str, ...]:
        """A command, on one of the machines."""
        return "ip", "netns", "exec", self.names[number], *words

    def sent(self) -> list[int]:
        """Bytes that went out on the cable, at each end."""
        return [int(subprocess.run(self.within(k, "cat", f"/sys/class/net/{name}/statistics/tx_bytes"),
                                   capture_output=True, text=True, check=True).stdout)
                for k, name in enumerate(self.names)]


NO_NETWORK = ("network namespaces need root" if os.geteuid() else
              "network namespaces need iproute2" if shutil.which("ip") is None else "")


@contextmanager
def network(folder: Path) -> Iterator[Network]:
    """Make a network of two machines, and take it away again."""
    if NO_NETWORK:
        pytest.skip(NO_NETWORK)
    number = secrets.randbits(22)  # a process's number comes again, after one that was killed, too
    names = f"diff{number}a", f"diff{number}b"
    # a /30 of 10.64.0.0/10, for this network alone; in its namespaces nobody else could meet it anyway
    base = (10 << 24) + (64 << 16) + number % (1 << 20) * 4
    first, second = (".".join(str(base + k >> shift & 255) for shift in (24, 16, 8, 0)) for k in (1, 2))
    made = []
    try:
        for name in names:
            done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"no network namespaces here: {done.stderr.strip()}")
            made.append(name)
        ip("link", "add", names[0], "netns", names[0], "type", "veth", "peer", "name", names[1], "netns",
           names[1])
        for name, address in zip(names, (first, second), strict=True):
            ip("-n", name, "addr", "add", f"{address}/30", "dev", name)
            for device in ("lo", name):
                ip("-n", name, "link", "set", device, "up")
        agent = folder / "agent"
        agent.write_text("#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\n"
                         f"if [ \"$1\" = {second} ]; then name={names[1]}; else name={names[0]}; fi\n"
                         "shift\nexec ip netns exec $name unshare -u sh -c \"hostname $name; $*\"\n")
        agent.chmod(0o755)
        yield Network(names, (first, second), str(agent))
    finally:
        for name in made:  # its end of the cable goes with it
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert not done.returncode, f"ip {shlex.join(words)}: {done.stderr}"
