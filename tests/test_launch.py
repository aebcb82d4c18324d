"""`diffuse run --ranks`: the launcher's command line, and options that clash."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from diffuse import settings
from diffuse.cli import launch, launchers
from diffuse.cli.job import JobOptions
from diffuse.runtime import machine
from tests.jobs import OVER_MPI, diffuse, job, run, script


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime that the tests run on is none that somebody asked for."""
    monkeypatch.delenv("DIFFUSE_RUNTIME", raising=False)


def printed(*words: str, **variables: Any) -> tuple[dict[str, str], list[str]]:
    """The variables and the words of the launcher's command line."""
    done = diffuse("run", "--dry-run", *words, **variables)
    assert done.returncode == 0, done.stderr
    line = shlex.split(done.stdout)
    count = next(k for k, word in enumerate(line) if not re.match(r"\w+=", word))
    return dict(word.split("=", 1) for word in line[:count]), line[count:]


def shown(*words: str, **variables: Any) -> list[str]:
    """The words of a command line that ends with Python's."""
    _, line = printed(*words, **variables)
    assert line[line.index(sys.executable):][:4] == [sys.executable, "-m", "diffuse", "run"]
    return line


def test_mpirun_starts_the_ranks_with_the_settings() -> None:
    line = shown("--ranks", "2", "--window", "5", "--explain", "program.py", "--ranks", "9", LEGATE_X="1")
    assert Path(line[0]).name == "mpirun" and line[1:3] == ["-n", "2"]
    assert "-H" not in line
    names = {name for before, name in zip(line, line[1:]) if before == "-x"}
    assert {"DIFFUSE_RUNTIME", "DIFFUSE_WINDOW_SIZE", "DIFFUSE_NUM_THREADS", "DIFFUSE_LEGATE_MEMORY",
            "LEGATE_X", "PYTHONHASHSEED", "PATH"} <= names
    assert "HOME" not in names
    assert line[line.index("run"):] == ["run", "--explain", "program.py", "--ranks", "9"]


def test_threads_of_one_core_count_once(tmp_path: Path) -> None:
    for k in range(machine.processors()):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{k}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text("0\n")
        (folder / "core_id").write_text(f"{k // 2}\n")
    assert machine.cores(str(tmp_path)) == (machine.processors() + 1) // 2
    more = tmp_path / f"sys/devices/system/cpu/cpu{machine.processors()}/topology"
    more.mkdir(parents=True)  # a processor that this process may not use
    assert machine.cores(str(tmp_path)) == 0 == machine.cores(str(tmp_path / "nothing"))


def test_hosts_get_as_many_ranks_each() -> None:
    line = shown("--ranks", "3", "--hosts", "a,b", "--launcher-extra", "--prtemca plm_ssh_agent 'my ssh'",
                 "--launcher-extra=-q", "-m", "module", "word")
    assert line[1:5] == ["-n", "6", "-H", "a:3,b:3"]
    at = line.index("--prtemca")
    assert line[at:at + 4] == ["--prtemca", "plm_ssh_agent", "my ssh", "-q"]
    assert line[-3:] == ["-m", "module", "word"]
    line = shown("--nodes", "2", "--ranks", "3", "--cpus", "4", "x.py")
    assert line[1:5] == ["-n", "6", "--map-by", "ppr:3:node:PE=4"]


def test_the_variables_that_ranks_need_are_shown_too() -> None:
    variables, line = printed("--runtime", "mpi", "--ranks", "2", "--cpus", "3", "x.py")
    assert variables["DIFFUSE_RUNTIME"] == "mpi" and variables["DIFFUSE_NUM_THREADS"] == "3"
    assert variables["PYTHONHASHSEED"] == "0" and variables["OMPI_MCA_btl"] == "self,sm"
    assert "OMPI_MCA_btl" not in printed("--runtime", "mpi", "--hosts", "a,b", "x.py")[0]


def test_ranks_are_bound_to_cores_on_other_machines_and_where_legate_polls() -> None:
    unbound = {"--oversubscribe", "--bind-to"}
    assert unbound <= set(shown("--runtime", "mpi", "--ranks", "2", "--cpus", "1", "x.py"))
    many = machine.processors() + 1
    assert unbound <= set(shown("--runtime", "legate", "--ranks", str(many), "--cpus", "1", "x.py"))
    if machine.cores() >= 2:
        line = shown("--runtime", "legate", "--ranks", "2", "--cpus", "1", "x.py")
        assert "ppr:2:node:PE=1" in line and not unbound & set(line)
        line = shown("--ranks", "2", "--cpus", "1", "--launcher-extra=--bind-to none", "x.py")
        assert line.count("--bind-to") == 1 and "--map-by" not in line
    line = shown("--ranks", "2", "--hosts", "a,b", "--cpus", "4", "x.py")
    assert "ppr:2:node:PE=4" in line and not {"--oversubscribe", "--bind-to"} & set(line)
    line = shown("--ranks", "2", "--hosts", "a,b", "--launcher-extra=--bind-to socket", "x.py")
    assert line.count("--bind-to") == 1 and "--map-by" not in line


def test_a_host_file_names_machines_and_slots(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# two machines\na slots=3\n\nb\n")
    line = shown("--hostfile", str(path), "--cpus", "2", "x.py")
    assert line[1:7] == ["-n", "4", "--hostfile", str(path), "--map-by", "slot:PE=2"]
    line = shown("--hostfile", str(path), "--ranks", "2", "--cpus", "2", "x.py")
    assert line[1:7] == ["-n", "4", "--hostfile", str(path), "--map-by", "ppr:2:node:PE=2"]
    for text, said in (("a slots=3\nb c\n", "line 2: 'b c': expected the name of a machine"),
                       ("a slots=0\n", "line 1"), ("# none\n", "names no machine")):
        path.write_text(text)
        done = diffuse("run", "--dry-run", "--hostfile", str(path), "x.py")
        assert done.returncode == 2 and said in " ".join(done.stderr.split()), done.stderr
    done = diffuse("run", "--dry-run", "--hostfile", str(tmp_path / "none"), "x.py")
    assert done.returncode == 2 and "No such file" in done.stderr


def test_srun_starts_the_ranks() -> None:
    variables, line = printed("--launcher", "srun", "--hosts", "a,b", "--ranks", "2", "--cpus", "4", "x.py")
    assert Path(line[0]).name == "srun"
    assert shlex.join(line[1:line.index(sys.executable)]) == (
        "-N 2 -n 4 --ntasks-per-node 2 --cpus-per-task 4 --nodelist a,b --mpi=pmix --kill-on-bad-exit=1")
    assert variables["DIFFUSE_NUM_THREADS"] == "4" and line[-2:] == ["run", "x.py"]


def test_qsub_submits_a_job_that_starts_the_ranks(tmp_path: Path) -> None:
    words = ("--launcher", "pbs", "--nodes", "2", "--ranks", "3", "--cpus", "4", "--launcher-extra",
             "-q short", "x.py", "an argument")
    _, line = printed(*words, cwd=tmp_path)
    assert Path(line[0]).name == "qsub"
    assert line[1:7] == ["-W", "block=true", "-j", "oe", "-l", "select=2:ncpus=12:mpiprocs=3"]
    assert {"DIFFUSE_NUM_THREADS", "PATH"} <= set(line[line.index("-v") + 1].split(","))
    assert line[-6:-1] == ["-q", "short", "--", "/bin/sh", "-c"]
    assert line[-1] == (f"cd {tmp_path} && exec {sys.executable} -m diffuse run --launcher pbs --nodes 2 "
                        "--ranks 3 x.py 'an argument'")


def test_within_a_job_of_pbs_mpirun_starts_the_ranks_on_its_machines(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("a\na\nb\nb\n")
    standin(tmp_path / "bin", "pbs_tmrsh", "")
    job = {"PBS_NODEFILE": str(tmp_path / "nodes"), "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    line = shown("--launcher", "pbs", "--nodes", "2", "--ranks", "3", "--cpus", "4", "x.py", **job)
    assert Path(line[0]).name == "mpirun"
    assert line[1:10] == ["-n", "6", "-H", "a:3,b:3", "--prtemca", "plm_ssh_agent", "pbs_tmrsh", "--map-by",
                          "ppr:3:node:PE=4"]
    done = diffuse("run", "--launcher", "pbs", "--nodes", "3", "x.py", **job)
    assert done.returncode == 2 and "names 2: leave one of them out" in " ".join(done.stderr.split())


def standin(folder: Path, name: str, text: str) -> None:
    """Put a program in the place of one of a cluster's: it writes down how it is called, then does more."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport json, os, subprocess, sys\n"
                    f"with open({str(folder / 'called')!r}, 'w') as file:\n"
                    f"    json.dump([sys.argv[1:], dict(os.environ)], file)\n{text}")
    path.chmod(0o755)


def called(folder: Path) -> tuple[list[str], dict[str, str]]:
    words, variables = json.loads((folder / "called").read_text())
    return words, variables


@pytest.mark.ranks("mpi")
@pytest.mark.skipif(OVER_MPI is not None, reason=str(OVER_MPI))
@pytest.mark.parametrize("variable", ["TMPDIR", *launch.TEMPORARY])
def test_a_job_starts_where_a_killed_one_of_its_number_left_files(
        variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in launch.TEMPORARY:
        monkeypatch.delenv(each, raising=False)
    path = script(tmp_path, "import numpy as np; print(np.ones(10).sum())")
    shell = (f"mkdir -m 700 {tmp_path}/ompi.$$ && touch {tmp_path}/ompi.$$/pmix.$(hostname).tool.$$ && "
             f"exec {shlex.join(run('--runtime', 'mpi', '--ranks', '2', '--cpus', '1', path))}")
    variables: dict[str, Any] = {variable: str(tmp_path)}
    done = job("sh", "-c", shell, **variables)
    assert (done.returncode, done.stdout) == (0, "10.0\n"), done.tail


@pytest.mark.ranks("mpi")
def test_srun_gets_the_program_and_its_variables(tmp_path: Path) -> None:
    """The one in its place starts a single task, as Slurm would."""
    standin(tmp_path, "srun", "words = sys.argv[sys.argv.index('--kill-on-bad-exit=1') + 1:]\n"
            "os.execve(words[0], words, {**os.environ, 'SLURM_NTASKS': '1', 'SLURM_PROCID': '0'})\n")
    (tmp_path / "x.py").write_text("import numpy as np; print((np.ones(100000) + 1).sum())\n")
    done = diffuse("run", "--runtime", "mpi", "--launcher", "srun", "--cpus", "2", "--window", "7", "x.py",
                   cwd=tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout) == (0, "200000.0\n"), done.tail
    words, variables = called(tmp_path)
    assert words[:4] == ["-N", "1", "-n", "1"] and words[-2:] == ["run", "x.py"]
    assert (variables["DIFFUSE_RUNTIME"], variables["DIFFUSE_WINDOW_SIZE"]) == ("mpi", "7")


@pytest.mark.ranks("mpi")
def test_a_job_of_pbs_runs_on_two_ranks(tmp_path: Path) -> None:
    """The one in the place of qsub runs the job here; mpirun is the real one."""
    nodes = tmp_path / "nodes"
    nodes.write_text("localhost\n" * 2)
    standin(tmp_path, "qsub", f"os.environ['PBS_NODEFILE'] = {str(nodes)!r}\nos.chdir('/')\n"
            "sys.exit(subprocess.call(sys.argv[sys.argv.index('--') + 1:]))\n")
    (tmp_path / "x.py").write_text("import os, numpy as np; x = np.ones(100000) + 1; print(x.sum(), "
                                   "os.environ['OMPI_COMM_WORLD_SIZE'])\n")
    done = diffuse("run", "--runtime", "mpi", "--launcher", "pbs", "--ranks", "2", "--cpus", "1", "x.py",
                   cwd=tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout) == (0, "200000.0 2\n"), done.tail
    assert "block=true" in called(tmp_path)[0]


@pytest.mark.ranks("mpi")
@pytest.mark.skipif(shutil.which("ssh") is None, reason="mpirun needs ssh to reach other machines")
def test_an_unknown_host_is_named() -> None:
    done = diffuse("run", "--runtime", "mpi", "--hosts", "nosuchhost.invalid", "-c", "pass")
    assert done.returncode and "nosuchhost.invalid" in done.stderr, done.tail


@pytest.mark.parametrize("words, variables, complaint", [
    (["--ranks", "2", "--runtime", "local"], {},
     "--ranks is for the runtimes legate and mpi, but --runtime local"),
    (["--ranks", "2", "--runtime", "mpi", "--profile"], {}, "--profile is for the runtime legate"),
    (["--ranks", "2", "--runtime", "mpi", "--memory", "much"], {}, "--memory much: expected none"),
    (["--hosts", "a,b"], {"DIFFUSE_RUNTIME": "local"}, "but DIFFUSE_RUNTIME=local names another"),
    (["--hosts", "a,b", "--nodes", "3"], {}, "--nodes 3, but --hosts a,b names 2"),
    (["--hosts", "a,b", "--hostfile", "f"], {}, "--hosts and --hostfile both name machines"),
    (["--hosts", "a,b", "--launcher", "pbs"], {}, "PBS chooses the machines"),
    (["--hostfile", "f", "--launcher", "srun"], {}, "--hostfile is for mpirun"),
    (["--ranks", "0"], {}, "0 is not in the range"),
    (["--launcher", "rsh"], {}, "'rsh' is not one of"),
    (["--launcher", "none", "--ranks", "2"], {}, "expected to be one of 2 ranks"),
    (["--ranks", "2"], {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, "already one of 2 ranks"),
    (["--ranks", "2", "--compare"], {}, "--compare runs one process, without --ranks"),
    (["--dry-run"], {}, "add --ranks"),
    (["--ranks", "2", "--memory", "much"], {}, "--memory much: expected none or a number of bytes"),
])
def test_options_that_clash_are_named(words: list[str], variables: dict[str, Any],
                                      complaint: str) -> None:
    done = diffuse("run", *words, "x.py", **variables)
    assert done.returncode == 2 and complaint in done.stderr


def test_options_without_several_ranks_set_settings(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("from diffuse.settings import config as c\nprint(c.threads, c.runtime)\n")
    assert diffuse("run", "--cpus", "3", "x.py", cwd=tmp_path).stdout == "3 local\n"


def test_a_missing_launcher_is_named() -> None:
    done = diffuse("run", "--launcher", "srun", "x.py", PATH="/nonexistent")
    assert done.returncode == 1 and "no srun" in done.stderr
    done = diffuse("run", "--launcher", "pbs", "x.py", PATH="/nonexistent")
    assert done.returncode == 1 and "no qsub here: outside of PBS use --launcher mpirun" in done.stderr


@pytest.mark.parametrize("runtime", ["mpi", "legate"])
def test_a_missing_mpirun_comes_with_what_the_runtime_needs(runtime: str, monkeypatch: pytest.MonkeyPatch
                                                            ) -> None:
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK", raising=False)
    monkeypatch.setattr(launchers, "found", lambda name: name)
    # As where the environment names it.  To set `config.runtime` would start it if there is an engine.
    monkeypatch.setenv("DIFFUSE_RUNTIME", runtime)
    monkeypatch.setitem(vars(settings.config), "runtime", runtime)
    with pytest.raises(click.ClickException) as caught:
        launch.become(replace(JobOptions(), ranks=2), ["x.py"])
    assert caught.value.message == f"there is no mpirun here: pip install 'diffuse[{runtime}]'"
