"""What may go wrong with the compile server, and that every program goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from diffuse import settings
from diffuse.kernels.build import jit
from tests.service import run
from tests.test_jit import plus, works

CRASH = """
import os, signal, time
compiled = server.compiled
def crash(kind, content):
    if {when}:
        os.kill(os.getpid(), signal.{how})
        time.sleep(60)  # another thread may take the signal
    return compiled(kind, content)
server.compiled = crash
"""


# -- crashes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how, compile", [("SIGSEGV", "wait"), ("SIGKILL", "background")])
def test_a_body_that_ends_the_process_twice_stays_interpreted_and_the_others_do_not(
        tmp_path: Path, how: str, compile: str) -> None:
    patch = CRASH.format(when="kind != 'text' and repr(content).count(\"'add'\") == 7", how=how)
    assert run(f"""
        patch({patch!r})
        found = results([3, 4, 7, 5, 6])
        bad = [body for body, native in found.items() if not native]
        assert [repr(body).count("'add'") for body in bad] == [7], bad
        assert client.deaths == 2 and not client.refusal
        assert len(warned) == 1 and "has died while it worked on it" in warned[0], warned
        assert "operations did not compile" in warned[0]
        print(len(found) - len(bad) >= 4)
    """, tmp_path, DIFFUSE_COMPILE=compile) == "True\n"


def test_without_the_code_of_the_thread_pool_everything_is_interpreted(tmp_path: Path) -> None:
    patch = CRASH.format(when="kind == 'text'", how="SIGSEGV")
    assert run(f"""
        patch({patch!r})
        assert len(results([3, 4])) >= 2
        ours = [text for text in warned if "thread pool" in text]
        assert len(ours) == 1 and "has died while it worked on it" in ours[0], warned
        print("whole")
    """, tmp_path) == "whole\n"


def test_a_process_that_dies_now_and_then_is_started_again_and_no_kernel_is_lost(tmp_path: Path) -> None:
    patch = CRASH.format(when="kind != 'text' and not os.path.exists(mark := "
                              f"'{tmp_path}/' + str(repr(content).count(\"'add'\") % 6)) "
                              "and not open(mark, 'w').close()", how="SIGSEGV")
    assert run(f"""
        patch({patch!r})
        found = results(range(3, 15))
        assert all(found.values()) and len(found) >= 12
        assert client.deaths == 6 and not warned, (client.deaths, warned)
        print("whole")
    """, tmp_path / "cache") == "whole\n"


def test_when_it_dies_too_often_everything_runs_interpreted_with_one_more_warning(tmp_path: Path) -> None:
    patch = CRASH.format(when="kind != 'text'", how="SIGABRT")
    assert run(f"""
        patch({patch!r})
        found = results(range(3, 15))
        assert not any(found.values()) and len(found) >= 12
        assert client.deaths == client_module.DEATHS
        ours = [text for text in warned if "does not run" in text]
        assert len(ours) == 1 and "it has died, 8 times" in ours[0], warned
        assert len(warned) <= 1 + client_module.DEATHS // client_module.TRIES
        print("whole")
    """, tmp_path) == "whole\n"


def test_an_idle_process_that_is_killed_is_started_again(tmp_path: Path) -> None:
    assert run("""
        from tests.service import gone
        results([3])
        first = client.process
        signal_server(signal.SIGKILL)
        assert gone(first)
        assert all(results([4, 5]).values())
        assert client.process not in (0, first) and not client.deaths and not warned
        print("whole")
    """, tmp_path) == "whole\n"


# -- folders -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", ["Not a directory", "No space left on device"])
def test_a_folder_that_cannot_be_written_to_costs_one_warning(tmp_path: Path, trouble: str) -> None:
    (tmp_path / "file").write_text("")
    full = """
        patch('''
        import os
        def full(*_): raise OSError(28, os.strerror(28))
        server.Cache._write = full
        '''.replace("        ", ""))
    """ if trouble.startswith("No ") else ""
    place = tmp_path / "cache" if full else tmp_path / "file" / "cache"
    assert run(full + """
        found = results([3, 4, 5])
        assert found and all(found.values())
        assert len(warned) == 1 and "not kept for the next run" in warned[0], warned
        print(warned[0].rpartition(": ")[2])
    """, place) == f"{trouble})\n"


def test_a_cache_of_no_bytes_is_no_trouble(tmp_path: Path) -> None:
    assert run("""
        assert all(results([3]).values()) and not warned
    """, tmp_path / "cache", DIFFUSE_CACHE_SIZE="0") == ""
    assert not (tmp_path / "cache").exists()


def test_who_has_no_home_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does where there is none
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    made = settings._cache_folder()
    assert made == str(tmp_path / f"diffuse-{os.getuid()}")
    with settings.using(cache_dir=made):
        assert works(jit.compile(plus(1.5)), 1.5) and jit.cached(plus(1.5))
    assert os.stat(made).st_mode & 0o777 == 0o700


# -- what keeps it from working ----------------------------------------------------------------------------


@pytest.mark.parametrize("patch, why", [
    ("sys.executable = '/no/such/python'", "No such file or directory"),
    ("sys.executable = ''", "path of the Python interpreter is unknown"),
    ("sys.frozen = True", "path of the Python interpreter is unknown"),
    ("os.environ[client_module.MARK] = '1'", "is no Python that could run it"),
    ("from diffuse.service import fingerprint; fingerprint.llvmlite = lambda: None", "not installed"),
    ("def refuse(*_, **__): raise BlockingIOError(11, os.strerror(11))\nos.posix_spawn = refuse",
     "Resource temporarily unavailable"),
    ("client_module.BOOT = client_module.BOOT.replace('import server', 'import nothing')", "ImportError"),
    ("client_module.BOOT = 'raise SystemExit'", "has died before it was ready"),
])
def test_where_it_cannot_start_the_program_runs_interpreted_with_one_warning(
        tmp_path: Path, patch: str, why: str) -> None:
    compile = "background" if "BOOT" in patch else "wait"
    assert run(f"""
        exec({patch!r})
        found = results([3, 4])
        assert found and not any(found.values())
        import numpy, diffuse.numpy as np
        x = numpy.linspace(0.0, 1.0, 40000)
        numpy.testing.assert_allclose(numpy.array(np.exp(np.array(x)) + 1), numpy.exp(x) + 1, rtol=1e-15)
        assert len(warned) == 1 and "runs interpreted" in warned[0], warned
        print({why!r} in warned[0] or warned[0])
    """, tmp_path, DIFFUSE_COMPILE=compile) == "True\n"


@pytest.mark.not_device("there is no thread pool")
def test_kernels_without_a_thread_pool_run_interpreted(tmp_path: Path) -> None:
    """All that is kept is the kernels, and nothing can be compiled."""
    program = """
        exec({patch!r})
        import numpy, diffuse.numpy as np
        a = np.arange(40000.0)
        for _ in range(3):
            b = a.copy()
            b[1:-1] = (a[2:] + a[:-2]) * 0.5
            a = b
        numpy.testing.assert_array_equal(numpy.array(a), numpy.arange(40000.0))
        from diffuse.runtime.local import native
        from diffuse.service import code
        print(code.text_key(native.text()), len(warned))
    """
    pool = run(program.format(patch=""), tmp_path).split()[0]
    (tmp_path / f"{pool}.kernel").unlink()
    assert run(program.format(patch="sys.executable = ''"), tmp_path) == f"{pool} 1\n"


def test_a_process_that_hangs_is_killed(tmp_path: Path) -> None:
    assert run("""
        results([3])
        first, kill = client.process, client._kill
        def killed():
            client_module.LIMIT = 60.0  # the next server may take long to start
            kill()
        client._kill = killed
        signal_server(signal.SIGSTOP)
        client_module.LIMIT = 0.5
        assert all(results([4, 5]).values())
        assert client.process not in (0, first) and client.deaths == 1 and not warned, warned
        print(first)
    """, tmp_path) != "0\n"


def test_an_interrupt_ends_the_waiting_for_a_process_that_hangs(tmp_path: Path) -> None:
    """Whether a task waits for its kernel or for a routine of the interpreter; and nothing is lost."""
    assert run("""
        import threading
        import numpy, diffuse.numpy as np
        results([3])
        client_module.LIMIT = 20
        signal_server(signal.SIGSTOP)
        x = numpy.linspace(0.0, 1.0, 40000)
        for compile in ("background", "off"):
            settings.config.compile = compile
            y = np.exp(np.array(x)) + np.sin(np.array(x))
            try:
                threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
                numpy.array(y)
            except KeyboardInterrupt:
                print(compile, client.deaths)  # before the process was given up
        signal_server(signal.SIGCONT)
        numpy.testing.assert_allclose(numpy.array(y), numpy.exp(x) + numpy.sin(x), rtol=1e-15)
        assert not warned, warned
    """, tmp_path) == "background 0\noff 0\n"


def test_where_warnings_are_errors_no_task_is_lost(tmp_path: Path) -> None:
    """The warning comes as an exception when the engine is in order again."""
    assert run("""
        import warnings
        import numpy, diffuse.numpy as np
        warnings.filters.insert(0, ("error", None, RuntimeWarning, None, 0))
        sys.executable = ""
        x = numpy.arange(40000.0)
        y = np.array(x) * 3 - np.sqrt(np.array(x))
        try:
            numpy.array(y)
        except RuntimeWarning as error:
            print("runs interpreted" in str(error))
        numpy.testing.assert_array_equal(numpy.array(y), x * 3 - numpy.sqrt(x))
        numpy.testing.assert_array_equal(numpy.array(np.array(x) + 1), x + 1)
    """, tmp_path, DIFFUSE_COMPILE="background") == "True\n"
