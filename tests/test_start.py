"""What a program waits for before its first line: the modules and processes that importing Diffuse takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service import run

ROOT = Path(__file__).parent.parent

STANDARD = 30
"""Modules of Python's library beyond those that NumPy loads, at most."""
OURS = 157
"""Modules of Diffuse, at most."""
LATE = frozenset("""
    argparse asyncio click concurrent.futures csv ctypes.util difflib email hashlib importlib.metadata
    importlib.resources llvmlite logging multiprocessing numba numpy.fft numpy.random numpy.testing
    numpy.typing random scipy shutil socket subprocess tempfile traceback unittest urllib zipfile""".split())
"""Modules that take long to import, and of which a small program needs none."""


def loaded(code: str, folder: Path) -> set[str]:
    """The modules that are loaded once this code has run, beyond those of `import numpy`."""
    found = []
    for program in ("import numpy", code):
        program += "\nimport sys; print('modules', *sys.modules)"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=300, cwd=ROOT, env={**os.environ, "DIFFUSE_CACHE_DIR": str(folder)})
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        found.append(set(done.stdout.rpartition("modules ")[2].split()))
    return found[1] - found[0]


RUN = "from diffuse.cli import main; main(['run', {program!r}])"


@pytest.mark.parametrize("how", ["import", "run"])
def test_a_start_loads_few_modules(how: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import numpy as np; assert (np.arange(100.0) + 1).sum() == 5050.0")
    (tmp_path / "of_another_program.kernel").touch()
    found = loaded("import diffuse.numpy" if how == "import" else RUN.format(program=str(program)), tmp_path)
    assert not found & LATE, sorted(found & LATE)
    ours = {name for name in found if name.partition(".")[0] == "diffuse"}
    assert len(ours) <= OURS, len(ours)
    assert len(found - ours) <= STANDARD, sorted(found - ours)


def test_a_program_of_small_arrays_starts_no_server(tmp_path: Path) -> None:
    """The server would take a processor from the program for a tenth of a second."""
    loaded("""
import diffuse.numpy as np
from diffuse.service.client import Client
Client._connect = None
x = np.random.default_rng(1).random((50, 50))
assert np.linalg.norm(np.sqrt(x) @ x.T - np.exp(x).sum(axis=0)) > 0
assert float(np.sort(x.ravel())[::2].std()) > 0
import diffuse
diffuse.fence()
""", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.local_only("the first request starts the server")
@pytest.mark.parametrize("kept, changed, processors, starts", [
    (False, False, 2, ["True"]),
    (False, False, 1, ["False"]),
    (True, False, 2, ["False"]),
    (True, True, 2, ["True", "False"]),      # changed since a kernel was kept: its next run is as any other
])
def test_the_command_starts_the_server_for_programs_that_will_need_it(
        kept: bool, changed: bool, processors: int, starts: list[str], tmp_path: Path) -> None:
    """At once, if it has a processor for itself; the program has no child of it to wait for."""
    cache = tmp_path / "cache"
    cache.mkdir()
    if kept:
        (cache / "of_another_program.kernel").touch()
    program = tmp_path / "program.py"
    program.write_text("""if True:
        import os, time
        from diffuse.service.client import client
        end = time.monotonic() + 120
        while client._starter and time.monotonic() < end:
            time.sleep(0.01)
        try:
            os.wait()
        except ChildProcessError:
            print(client._end is not None, flush=True)""")
    if changed:
        os.utime(cache, (0, 0))
    else:
        os.utime(program, (0, 0))
    assert [run(f"""
        from diffuse.cli import main
        os.sched_getaffinity = lambda _: set(range({processors}))
        main(["run", {str(program)!r}])
    """, cache).strip() for _ in starts] == starts


@pytest.mark.local_only("the server starts early there alone")
def test_the_command_starts_the_server_before_it_imports_the_rest(tmp_path: Path) -> None:
    """The server should be ready when the program begins its work, which may take all processors."""
    program = tmp_path / "program.py"
    program.write_text("import numpy as np; print(np.arange(10).sum())")
    assert run(f"""
        import diffuse.cli
        os.sched_getaffinity = lambda _: {{0, 1}}
        def start(_):
            print([name for name in ("dataclasses", "diffuse.ir", "numpy") if name in sys.modules])
            return False
        client_module.Client.start = start
        diffuse.cli.main(["run", {str(program)!r}])
    """, tmp_path / "cache") == "[]\n45\n"


def test_a_start_that_fails_is_left_to_the_first_request(tmp_path: Path) -> None:
    """A program of small arrays is not warned of a server that it does not need."""
    assert run("""
        from diffuse.service import fingerprint
        fingerprint.llvmlite = lambda: None
        from diffuse import intercept
        intercept.run(["-c", "import numpy as np; print(np.arange(10).sum())"])
        print(client.refusal, warned)
    """, tmp_path, DIFFUSE_SMALL="16384") == "45\n []\n"


@pytest.mark.local_only("the first request starts the server")
def test_the_first_large_array_starts_the_server(tmp_path: Path) -> None:
    """The server takes a while to start, which the program may use to make its other arrays."""
    assert run("""
        import diffuse.numpy as np
        rng = np.random.default_rng(1)
        x = rng.random(100)
        print(client._end is not None)
        x = rng.random(100_000)
        print(client._end is not None)
    """, tmp_path, DIFFUSE_SMALL="16384") == "False\nTrue\n"


def test_a_program_whose_kernels_are_kept_loads_no_interpreter(tmp_path: Path) -> None:
    code = """
import diffuse, diffuse.numpy as np
diffuse.config.compile = "wait"
x = np.ones((200, 200))
assert float((x * 3.0 - 1.0).sum()) == 80_000.0
assert float(x.max(axis=0)[5]) == 1.0"""
    loaded(code, tmp_path)
    found = loaded(code.replace('"wait"', '"background"'), tmp_path)
    assert "diffuse.kernels.build.compiler" in found
    assert not found & {"diffuse.kernels.meaning.interpret", "diffuse.kernels.meaning.steps"}


@pytest.mark.parametrize("given", [None, "12"])
def test_threads_of_openblas_poll_for_a_short_time_unless_the_user_says_how_long(given: str | None) -> None:
    told = {} if given is None else {"OPENBLAS_THREAD_TIMEOUT": given}
    others = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    code = """if True:
        import ctypes, os, diffuse
        read = ctypes.CDLL(None).getenv
        read.restype = ctypes.c_char_p
        print(read(b"OPENBLAS_THREAD_TIMEOUT").decode(), os.environ.get("OPENBLAS_THREAD_TIMEOUT"))
    """
    done = subprocess.run([sys.executable, "-c", code], env={**others, **told}, text=True,
                          capture_output=True)
    assert done.stdout.split() == [given or "20", str(given)], done.stderr
