"""The compiling process: what a program asks of it, and everything that may go wrong with it."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from diffuse import settings
from diffuse.kernels.build import codegen, jit, server
from diffuse.kernels.build.server import Server
from diffuse.service import channel, code
from diffuse.service import client as client_module
from diffuse.service.channel import Answer
from diffuse.service.client import Client
from tests.moments import interrupted
from tests.test_jit import plus, works

ROOT = Path(__file__).parent.parent
CONSTANTS = itertools.count(1000.0)
"""Each makes a body that nobody has compiled."""

PROGRAM = """
import gc, os, signal, sys, time, warnings
from diffuse import settings
from diffuse.service import client as client_module
from diffuse.service.client import client

def patch(text):
    "Have the compiling process run this before it begins."
    boot = client_module.BOOT
    lines = "".join("    " + line + chr(10) for line in text.splitlines())
    client_module.BOOT = boot.replace("    server.main()", lines + "    server.main()")
    assert boot != client_module.BOOT

warned = []
warnings.showwarning = lambda message, *_, **__: warned.append(str(message))
warnings.simplefilter("always")

def results(lengths):
    "Run a kernel of so many additions for each of these lengths; which of all kernels are native?"
    import numpy
    import diffuse.numpy as np
    from diffuse.kernels.build.compiler import compiler
    x = np.arange(40000.0)
    for length in lengths:
        y = x
        for _ in range(length):
            y = y + x
        numpy.testing.assert_array_equal(numpy.array(y), numpy.arange(40000.0) * (length + 1))
    compiler.wait()
    return {kernel.body: kernel.native is not None for kernel in list(compiler._all)}
"""

CRASH = """
import os, signal
compiled = server.compiled
def crash(kind, content):
    if {when}:
        os.kill(os.getpid(), signal.{how})
    return compiled(kind, content)
server.compiled = crash
"""


def run(program: str, folder: Path | str, **environment: str) -> str:
    """What a program of its own prints; it says nothing else, and ends well."""
    done = subprocess.run([sys.executable, "-c", PROGRAM + textwrap.dedent(program)], capture_output=True,
                          text=True, timeout=120, cwd=ROOT,
                          env={**os.environ, "DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "1000",
                               "DIFFUSE_NUM_THREADS": "2", "DIFFUSE_COMPILE": "wait",
                               "DIFFUSE_CACHE_DIR": str(folder), **environment})
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def gone(process: int) -> bool:
    """Does a process end?"""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            with open(f"/proc/{process}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] in "ZX":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with settings.using(cache_dir=str(tmp_path)):
        yield tmp_path


# -- a run with kernels that are kept ----------------------------------------------------------------------


def test_with_a_warm_cache_there_is_neither_llvm_nor_a_process(tmp_path: Path) -> None:
    program = """
        found = results([3, 5])
        assert found and all(found.values())
        assert "llvmlite" not in sys.modules and not warned, warned
        from diffuse.observe import trace
        print(client.process > 0, trace.snapshot()["compilations"] > 0)
    """
    assert run(program, tmp_path) == "True True\n"
    assert run(program, tmp_path) == "False False\n"


def test_an_import_alone_loads_no_llvm(tmp_path: Path) -> None:
    program = """
        import diffuse.numpy
        print("llvmlite" in sys.modules, "numba" in sys.modules, client._end is not None)
    """
    assert run(program, tmp_path) == "False False True\n"  # an empty cache: there will be something to do
    (tmp_path / "x.kernel").write_text("")
    assert run(program, tmp_path) == "False False False\n"
    assert run(program, tmp_path / "other", DIFFUSE_COMPILE="off") == "False False False\n"


def test_the_process_has_llvm_and_no_numpy_and_the_terminal_is_not_its_own(tmp_path: Path) -> None:
    program = """
        results([3])
        with open(f"/proc/{client.process}/maps") as lines:
            text = lines.read()
        print("llvmlite" in text, "numpy" in text, os.getsid(client.process) != os.getsid(0))
        print(sorted(os.listdir(f"/proc/{client.process}/fd"), key=int))
        while client._starter:
            client.poll()
        try:
            os.wait()
        except ChildProcessError:
            print("no children")
    """
    assert run(program, tmp_path) == "True False True\n['0', '1', '2']\nno children\n"


# -- crashes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["SIGSEGV", "SIGKILL"])
@pytest.mark.parametrize("compile", ["wait", "background"])
def test_a_body_that_ends_the_process_twice_stays_interpreted_and_the_others_do_not(
        tmp_path: Path, how: str, compile: str) -> None:
    patch = CRASH.format(when="kind == 'body' and repr(content).count(\"'add'\") == 7", how=how)
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


def test_a_process_that_dies_now_and_then_is_started_again_and_no_kernel_is_lost(tmp_path: Path) -> None:
    patch = CRASH.format(when="kind == 'body' and not os.path.exists(mark := "
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
    patch = CRASH.format(when="kind == 'body'", how="SIGABRT")
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
        results([3])
        first = client.process
        os.kill(first, signal.SIGKILL)
        assert all(results([4, 5]).values())
        assert client.process not in (0, first) and client.deaths <= 1 and not warned
        print("whole")
    """, tmp_path) == "whole\n"


# -- ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["pass", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_the_process_goes_with_the_program(tmp_path: Path, end: str) -> None:
    program = PROGRAM + textwrap.dedent(f"""
        results([3])
        print(client.process, flush=True)
        {end}
    """)
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=120,
                          cwd=ROOT, env={**os.environ, "DIFFUSE_COMPILE": "wait", "DIFFUSE_SMALL": "0",
                                         "DIFFUSE_CACHE_DIR": str(tmp_path)})
    assert gone(int(done.stdout))


def test_what_a_program_asked_for_is_compiled_when_it_has_ended(tmp_path: Path) -> None:
    run("""
        from diffuse.kernels.build import jit
        from tests.test_jit import plus
        for k in range(5):
            jit.Compilation(plus(float(k))).compile()
    """, tmp_path)
    end = time.monotonic() + 30
    with settings.using(cache_dir=str(tmp_path)):
        while not all(jit.cached(plus(float(k))) for k in range(5)) and time.monotonic() < end:
            time.sleep(0.01)
        assert all(jit.cached(plus(float(k))) for k in range(5))


def test_a_process_that_nobody_needs_leaves_and_another_one_comes(tmp_path: Path) -> None:
    assert run("""
        patch("server.IDLE = 0.05")
        results([3])
        first = client.process
        while client._end is not None:
            client.poll()
            time.sleep(0.01)
        assert all(results([4]).values())
        assert client.process not in (0, first) and not client.deaths and not warned
        print("whole")
    """, tmp_path) == "whole\n"


def test_a_forked_child_starts_its_own(tmp_path: Path) -> None:
    assert run("""
        results([3])
        first, end = client.process, client._end.fileno()
        read, write = os.pipe()
        child = os.fork()
        if not child:
            assert client._end is None and client.process == 0
            try:
                os.fstat(end)
            except OSError:
                os.write(write, b"closed ")
            assert all(results([4]).values())
            assert client.process not in (0, first)
            os.write(write, b"whole")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(os.read(read, 100).decode())
        assert all(results([5]).values()) and client.process == first and not client.deaths
    """, tmp_path) == "closed whole\n"


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


def test_what_another_program_kept_meanwhile_is_not_compiled_again(folder: Path) -> None:
    body = plus(2.5)
    jit.compile(body)
    answer = Server(channel.pair()[0])._answer(jit.key_of(body), str(folder), None, code.BODY, ("nothing",))
    assert answer.image and not answer.compiled


# -- what keeps it from working ----------------------------------------------------------------------------


@pytest.mark.parametrize("patch, why", [
    ("sys.executable = '/no/such/python'", "No such file or directory"),
    ("sys.executable = ''", "Python does not know where it is itself"),
    ("from diffuse.service import fingerprint; fingerprint.llvmlite = lambda: None", "not installed"),
    ("def refuse(*_, **__): raise BlockingIOError(11, os.strerror(11))\nos.posix_spawn = refuse",
     "Resource temporarily unavailable"),
    ("client_module.BOOT = client_module.BOOT.replace('import server', 'import nothing')", "ImportError"),
    ("client_module.BOOT = 'raise SystemExit'", "has died before it was ready"),
])
@pytest.mark.parametrize("compile", ["wait", "background"])
def test_where_it_cannot_start_the_program_runs_interpreted_with_one_warning(
        tmp_path: Path, patch: str, why: str, compile: str) -> None:
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
        client_module.LIMIT = 0.5
        results([3])
        first = client.process
        os.kill(first, signal.SIGSTOP)
        assert all(results([4, 5]).values())
        assert client.process not in (0, first) and client.deaths == 1 and not warned, warned
        print(first)
    """, tmp_path) != "0\n"


# -- messages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [True, False])
def test_large_messages_go_through_a_file(memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not memory:
        monkeypatch.delattr(os, "memfd_create")
    ours, theirs = channel.pair()
    before = len(os.listdir("/proc/self/fd"))
    for size in (10, channel.PACKET - 100, channel.PACKET + 1, 5_000_000):
        packet = channel.packed((channel.COMPILE, "key", os.urandom(size)))
        channel.send(ours, packet)
        assert channel.receive(theirs, look=True) == packet
        assert channel.receive(theirs) == packet
        with pytest.raises(BlockingIOError):
            channel.receive(theirs)
    assert len(os.listdir("/proc/self/fd")) == before
    ours.close()
    assert channel.receive(theirs) == b""


def test_large_requests_and_answers(folder: Path) -> None:
    numbers = ", ".join(f"i64 {k}" for k in range(30_000))
    text = f"@table = constant [30000 x i64] [{numbers}]\ndefine i64 @last() {{\n" \
           "  %at = getelementptr [30000 x i64], ptr @table, i64 0, i64 29999\n" \
           "  %x = load i64, ptr %at\n  ret i64 %x\n}\n"
    assert len(text) > 4 * channel.PACKET
    found = code.fetch(code.text_key(text), ("last",), code.TEXT, lambda: text)
    import ctypes

    assert ctypes.CFUNCTYPE(ctypes.c_int64)(found.addresses["last"])() == 29_999


def test_many_requests_at_once(folder: Path) -> None:
    """More than the socket's queue holds; the last one is waited for first."""
    ways = [jit.Compilation(plus(100.0 + k)) for k in range(60)]
    assert not any(way.compile() for way in ways)
    for k, way in reversed(list(enumerate(ways))):
        native = way.look(None)
        assert native is not None and works(native, 100.0 + k)


def test_what_is_waited_for_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And when the program has ended, what it asked for is still made."""
    made: list[str] = []

    def compiled(kind: str, content: str) -> bytes:
        made.append(content)
        return b"code"

    monkeypatch.setattr(server, "compiled", compiled)
    ours, theirs = channel.pair()
    for key in "abcd":
        channel.send(ours, channel.packed((channel.COMPILE, key, str(tmp_path), None, code.TEXT, key)))
    channel.send(ours, channel.packed((channel.URGENT, "c")))
    ours.close()
    Server(theirs).serve()
    assert made == ["c", "a", "b", "d"]
    assert {path.name for path in tmp_path.iterdir()} == {f"{key}.kernel" for key in "abcd"}


def test_an_answer_that_was_taken_twice_or_by_another_is_asked_for_again(folder: Path) -> None:
    one, other = jit.Compilation(plus(3.25)), jit.Compilation(plus(3.25))
    assert one.compile() is None and other.compile() is None
    for way in (one, other):
        native = way.look(None)
        assert native is not None and works(native, 3.25)


def test_answers_that_nobody_takes_do_not_pile_up() -> None:
    client = Client()
    for k in range(1000):
        client._asked[str(k)] = client_module._Request(b"")
        client._note((channel.DONE, str(k), tuple(Answer(b"code"))))
    assert len(client._answers) <= client_module.ANSWERS and not client._asked
    client._note((channel.DONE, "never asked", tuple(Answer(b"code"))))
    assert not client.knows("never asked")


# -- several processes of one program ----------------------------------------------------------------------


def test_a_process_that_follows_takes_what_another_one_has_compiled(folder: Path) -> None:
    body = plus(next(CONSTANTS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code, "_follows", False)
        patch.setattr(code, "PATIENCE", 1000.0)
        code.follow()
        patch.setattr(client_module.client, "ask", lambda *_: pytest.fail("it asks by itself"))
        way = jit.Compilation(body)
        assert way.compile() is None and way.look() is None and way.look(0.01) is None
        code.disk().put(jit.key_of(body), codegen.object_code(body))
        native = way.look(None)
        assert native is not None and not code._others


def test_a_process_that_follows_asks_by_itself_when_nothing_comes(folder: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "_follows", True)
    monkeypatch.setattr(code, "PATIENCE", 0.01)
    first, second = next(CONSTANTS), next(CONSTANTS)
    assert works(jit.compile(plus(first)), first)
    assert not code._follows and not code._others  # it waits once, not for each kernel
    assert works(jit.compile(plus(second)), second)


# -- interrupts --------------------------------------------------------------------------------------------


def test_an_interrupt_at_any_line_leaves_kernels_to_be_had(folder: Path) -> None:
    files = {module.__file__ for module in (client_module, code, jit, channel)}
    waits = {"_circumstances", "answer", "poll", "wait", "_overdue", "_reap"}
    talks = {"_note", "_listen", "receive", "send"}
    for skipped, start, stride in ((waits, False, 2), (waits | talks, True, 12)):
        moment = 0
        while True:
            moment += stride
            constant = next(CONSTANTS)
            if start:
                client_module.client.reset()

            def work(constant: float = constant) -> None:
                jit.compile(plus(constant))

            over = not interrupted(work, moment, files, skipped)
            assert works(jit.compile(plus(constant)), constant), moment
            if over:
                break
        assert moment > 100


def test_a_real_interrupt_ends_the_waiting(tmp_path: Path) -> None:
    """While the process works on something for ever; what it was asked for before is there afterwards."""
    patch = "import time\ncompiled = server.compiled\n" \
            "server.compiled = lambda kind, content: " \
            "time.sleep(600) if '7.25' in repr(content) else compiled(kind, content)"
    assert run(f"""
        import _thread
        patch({patch!r})
        results([3])
        from diffuse.kernels.build import jit
        from tests.test_jit import plus, works
        def send():
            while client._begun != jit.key_of(plus(7.25)):
                time.sleep(0.01)
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _thread.start_new_thread(send, ())
        try:
            jit.compile(plus(7.25))
        except KeyboardInterrupt:
            print("interrupted")
        os.kill(client.process, signal.SIGKILL)
        assert works(jit.compile(plus(2.0)), 2.0)
        assert all(results([3]).values())
    """, tmp_path) == "interrupted\n"


def test_the_program_may_let_sigpipe_end_it(tmp_path: Path) -> None:
    assert run("""
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        results([3])
        os.kill(client.process, signal.SIGKILL)
        assert all(results([4]).values())
        print("whole")
    """, tmp_path) == "whole\n"


