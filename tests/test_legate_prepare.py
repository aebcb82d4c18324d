"""What the runtime legate needs before it starts: the stand-in for the driver, and the environment."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from diffuse.runtime import machine
from diffuse.runtime.legate import libraries, prepare
from diffuse.runtime.ranks import launcher
from diffuse.settings import using
from tests.jobs import FILL, LAUNCHERS, diffuse, job, needs_legate, python
from tests.outcomes import run_all

CXX = libraries.compiler()
needs_compiler = pytest.mark.skipif(CXX is None, reason="no C++ compiler")


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No launcher around the tests, whatever started them."""
    for name in os.environ:
        if name.startswith(LAUNCHERS):
            monkeypatch.delenv(name)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with using(cache_dir=str(tmp_path)):
        yield tmp_path / "legate"


# -- libraries that are built once --------------------------------------------------------------------------


@needs_compiler
def test_the_stand_in_is_built_once_and_says_that_there_is_no_device(folder: Path) -> None:
    built = libraries.driver.build()
    before = built.stat().st_mtime_ns
    assert built.parent == folder and libraries.driver.build() == built
    assert built.stat().st_mtime_ns == before
    assert [path.name for path in folder.iterdir()] == [built.name]
    found = python("""
        import ctypes, sys
        ctypes.CDLL(sys.argv[1])
        driver = ctypes.CDLL("libcuda.so.1")  # found by its SONAME
        text, function, version = ctypes.c_char_p(), ctypes.c_void_p(), ctypes.c_int(-1)
        driver.cuGetErrorString(100, ctypes.byref(text))
        driver.cuGetProcAddress_v2(b"cuMemAlloc", ctypes.byref(function), 12000, ctypes.c_uint64(0), None)
        driver.cuDriverGetVersion(ctypes.byref(version))
        absent = ctypes.CFUNCTYPE(ctypes.c_int)(function.value)
        print(driver.cuInit(0), absent(), version.value, text.value.decode())
    """, str(built))
    assert found.stdout.split(maxsplit=3) == ["100", "100", "0", "this machine has no NVIDIA driver\n"], found


@needs_compiler
def test_many_may_build_a_library_at_once_and_one_of_them_compiles(
        folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting, count = tmp_path / "counting", tmp_path / "count"
    counting.write_text(f'#!/bin/sh\necho once >> "{count}"\nsleep 0.2\nexec {CXX} "$@"\n')
    counting.chmod(0o700)
    monkeypatch.setenv("CXX", str(counting))
    built: list[Path] = []
    together = threading.Barrier(4)

    def work() -> None:
        together.wait()
        built.append(libraries.driver.build())

    threads = [threading.Thread(target=work) for _ in range(4)]
    run_all(threads)
    assert len(built) == 4 and len(set(built)) == 1
    assert [path.name for path in folder.iterdir()] == [built[0].name], "a temporary file was left"
    assert count.read_text() == "once\n"


def test_without_a_compiler_the_error_says_what_to_install(folder: Path,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(RuntimeError, match="needs a C\\+\\+ compiler .* CXX='no-such-compiler' names none: "
                                           r"install g\+\+ or clang .*, or name one in CXX"):
        libraries.driver.build()


@needs_legate
def test_without_a_compiler_nothing_starts_and_info_says_why(folder: Path,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "")
    assert "needs a C++ compiler" in (prepare.find().refusal() or "")
    said = diffuse("info", DIFFUSE_CACHE_DIR=str(folder)).stdout
    assert "C++ compiler       none: needed once" in said
    assert "one rank           no: the runtime 'legate' needs a C++ compiler once" in said
    done = python("import diffuse.numpy as np; np.ones(100_000).sum()", DIFFUSE_RUNTIME="legate",
                  DIFFUSE_CACHE_DIR=str(folder))
    assert done.returncode == 1
    assert "RuntimeError: the runtime 'legate' needs a C++ compiler once" in done.stderr.splitlines()[-1]


@needs_legate
@needs_compiler
def test_where_everything_is_built_there_need_be_no_compiler(folder: Path,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    for library in prepare.find().built():
        library.path.parent.mkdir(exist_ok=True)
        library.path.touch()
    monkeypatch.setenv("CXX", "")
    assert prepare.find().compiler is None and prepare.find().refusal() is None
    assert "needs a C++ compiler" in (prepare.find().refusal(several=True) or ""), "they need one more"


@needs_compiler
def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="no-such-file.c"):
        libraries.run([*shlex.split(CXX or ""), "-shared", "no-such-file.c"], folder / "x.so")
    assert not list(folder.iterdir())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="DIFFUSE_CACHE_DIR"):
        libraries.run(["c++"], tmp_path / "file" / "legate" / "x.so")


def test_a_compiler_may_be_named_with_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", f"{sys.executable} -m cc")
    assert libraries.compiler() == f"{sys.executable} -m cc"
    monkeypatch.setenv("CXX", "")
    assert libraries.compiler() is None
    monkeypatch.delenv("CXX")
    monkeypatch.setattr(libraries, "COMPILERS", ("no-such-compiler", sys.executable))
    assert libraries.compiler() == sys.executable


# -- the thread that polls for messages ---------------------------------------------------------------------


COUNTING = "int yields; int sched_yield(void) { return yields++, 0; }"
POLLING = """
import ctypes, sys
yields = ctypes.c_int.in_dll(ctypes.CDLL(None), "yields")
library = ctypes.CDLL(sys.argv[1])
found = iter(24 * [0] + [2] + 24 * [0])
poll = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_void_p)(lambda worker: next(found))
library.diffuse_yield_around(poll)
polls = [(library.ucp_worker_progress(None), yields.value) for _ in range(49)]
print(polls[24][0], [k for k in range(1, 49) if polls[k][1] > polls[k - 1][1]])
print(*[ctypes.c_ulong.in_dll(library, f"diffuse_{name}").value for name in ("yields", "events")])
"""


@needs_compiler
def test_polling_yields_after_a_number_of_polls_that_found_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "counting.c").write_text(COUNTING)
    counting = libraries.Library(tmp_path / "counting.c", ("-x", "c", "-shared", "-fPIC")).build()
    found = python(POLLING, str(libraries.yielding.build()), LD_PRELOAD=str(counting))
    assert found.stdout == "2 [19, 20, 21, 22, 23, 44, 45, 46, 47, 48]\n10 1\n", found


# -- what the environment says ------------------------------------------------------------------------------


@pytest.mark.parametrize("variables, expected", [
    ({}, (1, 0, 1)),
    ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
     (4, 3, 2)),
    ({"MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_LOCAL_SIZE": "2"}, (2, 1, 2)),
    ({"SLURM_NTASKS": "6", "SLURM_PROCID": "5", "SLURM_TASKS_PER_NODE": "2(x3)"}, (6, 5, 2)),
    ({"SLURM_NTASKS": "6", "SLURM_PROCID": "5"}, (6, 5, 6)),
    ({"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0", "SLURM_NTASKS": "1"}, (1, 0, 1)),
    ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
      "SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, (2, 1, 2)),  # mpirun in a job of Slurm's
])
def test_ranks_are_what_the_launcher_says(variables: dict[str, str], expected: tuple[int, int, int],
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (launcher.ranks(), launcher.rank(), launcher.local_ranks()) == expected


def test_an_empty_configuration_gets_ours() -> None:
    with using(legate_memory="100M"):
        words = prepare.composed("", driver=False)
    assert shlex.join(words) == ("--cpus 1 --gpus 0 --omps 0 --utility 1 --sysmem 100 "
                                 "--logging gpu=none,threads=none")


@pytest.mark.parametrize("said, driver, kept", [
    ("--cpus 4", False, {"--cpus": "4", "--gpus": "0"}),
    ("--cpus=4 --sysmem 7", False, {"--cpus": "4", "--sysmem": "7"}),
    ("--gpus 2", False, {"--gpus": "2", "--cpus": "1"}),
    ("--logdir '/a b'", True, {"--logdir": "/a b", "--gpus": None, "--cpus": "1"}),  # a driver
])
def test_what_the_user_configures_is_kept(said: str, driver: bool, kept: dict[str, str | None]) -> None:
    words = prepare.composed(said, driver)
    assert words[:len(shlex.split(said))] == shlex.split(said)
    for name, value in kept.items():
        assert prepare.option(words, name) == value
        assert sum(word.partition("=")[0] == name for word in words) == (value is not None)


def test_an_option_that_is_repeated_counts_the_last_time() -> None:
    assert prepare.option(["--cpus", "1", "--cpus=3", "--profile"], "--cpus") == "3"
    assert prepare.option(["--cpus", "1", "--profile"], "--profile") == ""
    assert prepare.option(["--cpus", "1"], "--profile") is None


def test_ranks_on_a_machine_share_its_memory_and_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_total", lambda: 10 << 30)
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2")
    with using(legate_memory=None):
        monkeypatch.setattr("diffuse.runtime.machine.memory_available", lambda: pytest.fail("ranks differ"))
        assert prepare.memory() == 3 << 30
    with using(legate_memory="5G"):
        assert prepare.memory() == 5 << 30


@pytest.mark.parametrize("version, libucx, complaint", [
    (None, "1.20.0", "needs Legate 26.1.x, found none: pip install 'diffuse[legate]'"),
    ("26.6.1", "1.20.0", "needs Legate 26.1.x, found 26.6.1"),
    ("26.1.0", None, "several ranks need libucx-cu12"),
    ("26.1.0", "1.22.0", "libucx-cu12 1.20.0 or older, found 1.22.0"),
    ("26.1.0", "1.20.0", None),
])
def test_what_is_wrong_is_named_with_its_remedy(version: str | None, libucx: str | None,
                                                complaint: str | None) -> None:
    found = prepare.Installed(version, Path(), libucx, "5.0.11", "12", None, None, "/usr/bin/g++")
    refusal = found.refusal(several=True)
    assert refusal is None if complaint is None else complaint in (refusal or "")
    if version == "26.1.0":
        assert found.refusal() is None, "one rank needs no network"


def test_finding_loads_nothing() -> None:
    found = python("""
        import sys
        from diffuse.runtime.legate import prepare
        prepare.find()
        print(sorted({"legate", "libucx", "legate.core"} & set(sys.modules)))
        print("libcuda" in open("/proc/self/maps").read())
    """)
    assert found.stdout.split("\n")[:2] == ["[]", "False"], found.stderr


def test_only_the_main_thread_may_start_legate() -> None:
    caught: list[BaseException] = []

    def work() -> None:
        try:
            prepare.start()
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    thread.join()
    assert "main thread" in str(caught[0]) and "worker" in str(caught[0])


def test_info_says_what_there_is() -> None:
    found = diffuse("info").stdout
    assert "\nlegate\n  legate  " in found
    version = launcher.version("legate")
    assert (f" {version} (" if version else "not installed: pip install 'diffuse[legate]'") in found


# -- Legate itself ------------------------------------------------------------------------------------------


@needs_legate
def test_legate_starts_without_a_driver() -> None:
    done = python(FILL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 True True\n", "")
    assert python(FILL, LEGATE_CONFIG="--cpus 2").stdout == "1 False True\n"
    assert python(FILL, LEGATE_INLINE_TASK_LAUNCH="0").stdout == "1 False True\n"


@needs_legate
def test_legates_own_launcher_needs_nothing_of_ours(tmp_path: Path) -> None:
    program, legate = tmp_path / "x.py", Path(sys.prefix, "bin/legate")
    program.write_text(FILL)
    path = f"{legate.parent}{os.pathsep}{os.environ['PATH']}"
    done = job(str(legate), str(program), PATH=path)
    assert (done.returncode, done.stdout) == (0, "1 True True\n"), done.stderr


@needs_legate
def test_a_configuration_that_legate_refuses_is_quoted_with_its_reason() -> None:
    done = python(FILL, LEGATE_CONFIG="--omps 99")
    assert done.returncode and "did not start with LEGATE_CONFIG='--omps 99" in done.stderr
    assert "OpenMP" in done.stderr and "LEGATE ERROR" not in done.stderr


def test_memory_is_what_legate_was_told_or_what_we_would_have_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGATE_CONFIG", "--cpus 1 --sysmem 100")
    assert prepare.memory_given() == 100 << 20
    with using(legate_memory="512M"):
        for said in ("", "--cpus 1"):  # the program imported Legate before us
            monkeypatch.setenv("LEGATE_CONFIG", said)
            assert prepare.memory_given() == 512 << 20
        monkeypatch.delenv("LEGATE_CONFIG")
        assert prepare.memory_given() == 512 << 20
