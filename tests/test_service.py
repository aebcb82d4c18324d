"""The compile server: what a program asks of it, when it comes and goes, and what the two say."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from diffuse import settings
from diffuse.kernels.build import codegen, jit, server
from diffuse.kernels.build.server import Server
from diffuse.service import channel, code
from diffuse.service import client as client_module
from diffuse.service.channel import Answer
from diffuse.service.client import URGENT, Client
from tests.moments import interrupted
from tests.service import CONSTANTS, PROGRAM, ROOT, gone, run
from tests.test_jit import plus, works


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
    assert run(program, tmp_path) == "False False False\n"


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
    # 3 and 4 are a pipe between its threads
    assert run(program, tmp_path) == "True False True\n['0', '1', '2', '3', '4']\nno children\n"


# -- ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["pass", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_the_process_goes_with_the_program(tmp_path: Path, end: str) -> None:
    program = PROGRAM + textwrap.dedent(f"""
        patch("server.GRACE = 600.0")  # with nothing left to compile it does not wait
        results([3])
        print(client.process, flush=True)
        {end}
    """)
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=300,
                          cwd=ROOT, env={**os.environ, "DIFFUSE_COMPILE": "wait", "DIFFUSE_SMALL": "0",
                                         "DIFFUSE_CACHE_DIR": str(tmp_path)})
    assert gone(int(done.stdout))


def test_what_a_program_asked_for_is_compiled_when_it_has_ended(tmp_path: Path) -> None:
    run("""
        patch("server.GRACE = 600.0")  # a busy machine may take longer than usual
        from diffuse.kernels.build import jit
        from tests.test_jit import plus
        for k in range(5):
            jit.Compilation(plus(float(k))).compile()
    """, tmp_path)
    end = time.monotonic() + 120
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


@pytest.mark.not_gpu("a forked process has no GPU: see test_cuda.py")
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
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(found.addresses["last"])() == 29_999


def test_many_requests_at_once(folder: Path) -> None:
    """More than the socket's queue holds; the last one is waited for first."""
    ways = [jit.Compilation(plus(100.0 + k)) for k in range(60)]
    assert not any(way.compile() for way in ways)
    for k, way in reversed(list(enumerate(ways))):
        native = way.look(None)
        assert native is not None and works(native, 100.0 + k)


def test_what_the_program_wants_most_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For its length; of what is needed once, the shortest.  When the program has ended, what it asked for is
    still made."""
    made: list[str] = []

    def compiled(kind: str, content: str) -> bytes:
        made.append(content)
        return b"code"

    monkeypatch.setattr(server, "compiled", compiled)
    ours, theirs = channel.pair()
    for key, content in (("a", "a" * 9000), ("b", "b"), ("c", "c" * 9000), ("d", "d"), ("e", "e" * 9000),
                         ("f", "f"), ("g", "g")):
        channel.send(ours, channel.packed((channel.COMPILE, key, str(tmp_path), None, code.TEXT, content)))
    for key, weight in ("d", 4e6), ("c", URGENT), ("b", 5e6), ("e", 6e6), ("h", URGENT):
        channel.send(ours, channel.packed((channel.WANTED, key, weight)))
    ours.close()
    Server(theirs).serve()
    assert "".join(content[0] for content in made) == "cbdefga"
    assert {path.name for path in tmp_path.iterdir()} == {f"{key}.kernel" for key in "abcdefg"}


def test_a_reply_that_waits_for_room_is_sent_when_there_is_some(tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue is full when a kernel is compiled, and the program says nothing more."""
    class Full(Server):
        def say(self, *message: Any) -> None:
            if message[0] == channel.DONE:
                time.sleep(0.1)  # until the server's other thread waits
                with suppress(BlockingIOError):
                    while True:
                        channel.send(theirs, channel.packed((channel.BEGUN, "x" * 9000)))
            super().say(*message)
            if message[0] == channel.DONE:
                full.set()

    monkeypatch.setattr(server, "compiled", lambda kind, content: b"code")
    monkeypatch.setattr(server, "IDLE", 600.0)
    ours, theirs = channel.pair()
    full = threading.Event()
    serving = threading.Thread(target=Full(theirs).serve, daemon=True)
    serving.start()
    channel.send(ours, channel.packed((channel.COMPILE, "a", str(tmp_path), None, code.TEXT, "")))
    assert full.wait(120)
    message: tuple[Any, ...] = ()
    while message[:2] != (channel.DONE, "a"):
        assert select.select([ours], [], [], 30.0)[0], "the server waits for the program"
        message = channel.unpacked(channel.receive(ours))
    ours.close()
    serving.join()


def test_the_server_is_told_which_kernels_a_program_comes_back_to() -> None:
    """Not of those that it needs once, nor at every turn of a loop."""
    client, (ours, theirs) = Client(), channel.pair()
    client._end = ours
    for key in "abc":
        client.ask(key, lambda: ("folder", None, code.TEXT, ""))
    for turn in range(16):
        client.missed("a", 1000.0)
        if turn == 0:
            client.missed("b", 1e9)
    client.urge("c")
    client.missed("c", 1.0)
    told = []
    with pytest.raises(BlockingIOError):
        while True:
            told.append(channel.unpacked(channel.receive(theirs)))
    assert [message[:2] for message in told[:3]] == [(channel.COMPILE, key) for key in "abc"]
    assert told[3:] == [*((channel.WANTED, "a", 1000.0 * turn) for turn in (2, 4, 8, 16)),
                        (channel.WANTED, "c", URGENT)]


def test_an_answer_that_was_taken_twice_or_by_another_is_asked_for_again(folder: Path) -> None:
    jit.compile(plus(next(CONSTANTS)))                            # the server runs
    one, other = jit.Compilation(plus(3.25)), jit.Compilation(plus(3.25))
    os.kill(client_module.client.process, signal.SIGSTOP)         # so that both ask before it answers
    try:
        assert one.compile() is None and other.compile() is None
    finally:
        os.kill(client_module.client.process, signal.SIGCONT)
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


@pytest.mark.not_device("there is no thread pool, whose code would be the third file")
def test_a_folder_may_be_relative_and_the_program_may_go_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    assert run(f"""
        client._connect()
        os.chdir({str(tmp_path / "place")!r})
        assert all(results([3, 4]).values())
        print(os.path.realpath(f"/proc/{{client.process}}/cwd"))
    """, "cache") == "/\n"
    assert len(list((tmp_path / "place" / "cache").iterdir())) >= 3


def test_what_another_program_kept_meanwhile_is_not_compiled_again(folder: Path) -> None:
    body = plus(2.5)
    jit.compile(body)
    answer = Server(channel.pair()[0])._answer(jit.key_of(body), str(folder), None, code.BODY, ("nothing",))
    assert answer.image and not answer.compiled


# -- interrupts --------------------------------------------------------------------------------------------


def test_an_interrupt_at_any_line_leaves_kernels_to_be_had(folder: Path) -> None:
    files = {module.__file__ for module in (client_module, code, jit, channel)}
    waits = {"_circumstances", "answer", "poll", "wait", "_overdue", "_reap"}
    talks = {"_note", "_listen", "receive", "send"}
    for skipped, start, stride in ((waits, False, 5), (waits | talks, True, 25)):
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
            while jit.key_of(plus(7.25)) not in client._begun:
                time.sleep(0.01)
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _thread.start_new_thread(send, ())
        try:
            jit.compile(plus(7.25))
        except KeyboardInterrupt:
            print("interrupted")
        signal_server(signal.SIGKILL)
        assert works(jit.compile(plus(2.0)), 2.0)
        assert all(results([3]).values())
    """, tmp_path) == "interrupted\n"


def test_the_program_may_let_sigpipe_end_it(tmp_path: Path) -> None:
    assert run("""
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        results([3])
        signal_server(signal.SIGKILL)
        assert all(results([4]).values())
        print("whole")
    """, tmp_path) == "whole\n"


