"""`diffuse run --ranks`: the launcher's command line, and options that clash."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import diffuse


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime that the tests run on is none that somebody asked for."""
    monkeypatch.delenv("DIFFUSE_RUNTIME", raising=False)


def shown(*words: str, **variables: Any) -> list[str]:
    """The launcher's command line, cut before Python."""
    done = diffuse("run", "--dry-run", *words, **variables)
    assert done.returncode == 0, done.stderr
    line = shlex.split(done.stdout)
    assert line[line.index(sys.executable):][:4] == [sys.executable, "-m", "diffuse", "run"]
    return line


def test_mpirun_starts_the_ranks_with_the_settings() -> None:
    line = shown("--ranks", "2", "--window", "5", "--explain", "program.py", "--ranks", "9", LEGATE_X="1")
    assert Path(line[0]).name == "mpirun" and line[1:3] == ["-n", "2"]
    assert {"--oversubscribe", "--bind-to"} <= set(line) and "-H" not in line
    names = {name for before, name in zip(line, line[1:]) if before == "-x"}
    assert {"DIFFUSE_RUNTIME", "DIFFUSE_WINDOW_SIZE", "DIFFUSE_NUM_THREADS", "DIFFUSE_LEGATE_MEMORY",
            "LEGATE_X", "PYTHONHASHSEED", "PATH"} <= names
    assert "HOME" not in names
    assert line[line.index("run"):] == ["run", "--explain", "program.py", "--ranks", "9"]


def test_hosts_get_as_many_ranks_each() -> None:
    line = shown("--ranks", "3", "--hosts", "a,b", "--launcher-extra", "--prtemca plm_ssh_agent 'my ssh'",
                 "--launcher-extra=-q", "-m", "module", "word")
    assert line[1:5] == ["-n", "6", "-H", "a:3,b:3"]
    at = line.index("--prtemca")
    assert line[at:at + 4] == ["--prtemca", "plm_ssh_agent", "my ssh", "-q"]
    assert line[-3:] == ["-m", "module", "word"]
    assert shown("--nodes", "2", "--ranks", "3", "x.py")[1:5] == ["-n", "6", "--npernode", "3"]


def test_srun_starts_the_ranks() -> None:
    line = shown("--launcher", "srun", "--hosts", "a,b", "--ranks", "2", "x.py")
    assert Path(line[0]).name == "srun"
    assert shlex.join(line[1:line.index(sys.executable)]) == (
        "-N 2 -n 4 --ntasks-per-node 2 --nodelist a,b --mpi=pmix")


@pytest.mark.parametrize("words, variables, complaint", [
    (["--ranks", "2", "--runtime", "local"], {},
     "--ranks is for the runtimes legate and mpi, but --runtime local"),
    (["--ranks", "2", "--runtime", "mpi", "--profile"], {}, "--profile is for the runtime legate"),
    (["--ranks", "2", "--runtime", "mpi", "--memory", "much"], {}, "mpi_memory='much': expected none"),
    (["--hosts", "a,b"], {"DIFFUSE_RUNTIME": "local"}, "but DIFFUSE_RUNTIME=local names another"),
    (["--hosts", "a,b", "--nodes", "3"], {}, "--nodes 3, but --hosts a,b names 2"),
    (["--ranks", "0"], {}, "0 is not in the range"),
    (["--launcher", "rsh"], {}, "'rsh' is not one of"),
    (["--launcher", "none", "--ranks", "2"], {}, "expected to be one of 2 ranks"),
    (["--ranks", "2"], {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, "already one of 2 ranks"),
    (["--ranks", "2", "--compare"], {}, "--compare runs one process, without --ranks"),
    (["--dry-run"], {}, "add --ranks"),
    (["--ranks", "2", "--memory", "much"], {}, "legate_memory='much': expected none or a number of bytes"),
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
