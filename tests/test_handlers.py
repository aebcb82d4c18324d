"""Handlers of signals that raise: their exceptions reach the program, and cost it no array and no kernel."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from diffuse.interrupts import deferred, of_handler, suppress
from diffuse.runtime import machine
from diffuse.service import fingerprint
from diffuse.service.cache import Cache
from tests import interrupts


@contextmanager
def handled(number: int, handler: Callable[..., Any]) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def late(number: int, frame: Any) -> None:
    raise TimeoutError("late")


def test_an_exception_of_a_handler_loses_no_task(tmp_path: Path) -> None:
    """Before a launch and after it, with code and interpreted; each task runs once."""
    program = """
        import signal
        import numpy
        import diffuse.numpy as np
        from diffuse.stream import engine, execute

        class Late(Exception):
            def __init__(self, *given):
                raise TimeoutError("a class that is a handler")

        def raises(error):
            def handler(*given):
                raise error("late")
            return handler

        def turn(x):
            x = x * 2 - 1
            engine.flush()
            return x

        x, value = np.full(20000, 3.0), 3.0
        for _ in range(3):
            x, value = turn(x), value * 2 - 1
        engine.fence()
        launch = execute.Forwarder._launch
        def before(*arguments):
            execute.Forwarder._launch = launch
            signal.raise_signal(signal.SIGALRM)
        def after(*arguments):
            execute.Forwarder._launch = launch
            launch(*arguments)
            signal.raise_signal(signal.SIGALRM)
        for handler, error in ((raises(TimeoutError), TimeoutError), (raises(Exception), Exception),
                               (raises(SystemExit), SystemExit), (Late, TimeoutError),
                               (lambda number, frame: 1 // 0, ZeroDivisionError)):
            signal.signal(signal.SIGALRM, handler)
            for moment in (before, after, before):
                y = x
                del x
                x, value = y * 2 - 1, value * 2 - 1
                del y
                execute.Forwarder._launch = moment
                try:
                    engine.flush()
                except error:
                    pass
                else:
                    raise AssertionError(error)
                x, value = turn(x), value * 2 - 1
                if moment is after:
                    x, value = x * 2.0 ** -6, value * 2.0 ** -6
        numpy.testing.assert_array_equal(numpy.array(x), value)
        from tests.outcomes import pending
        assert not pending() and not engine.current().stores.given
        assert not engine.current().stores.lost
        """
    for compile in ("wait", "off"):
        interrupts.printed(program, tmp_path, DIFFUSE_COMPILE=compile)


def test_an_exception_of_a_handler_is_no_failure_of_a_kernel(tmp_path: Path) -> None:
    """It comes while the program waits for the code of the thread pool and of a kernel."""
    interrupts.printed("""
        import signal
        import numpy
        import diffuse.numpy as np
        from diffuse.kernels.build.compiler import compiler
        from diffuse.service.client import client

        def late(number, frame):
            raise TimeoutError("late")

        signal.signal(signal.SIGALRM, late)
        poll, left = client.poll, [3, 2, 1]
        def polls():
            poll()
            if left:
                left.pop()
                signal.raise_signal(signal.SIGALRM)
        client.poll = polls
        x, n = np.arange(20000.0), 0
        while left:
            try:
                numpy.array(x * 3 + np.exp(x * 1e-6))
            except TimeoutError:
                n += 1
        assert n == 3, n
        found = numpy.array(x * 3 - 1)
        numpy.testing.assert_array_equal(found, numpy.arange(20000.0) * 3 - 1)
        compiler.wait()
        assert compiler.kernels and not any(kernel.failed for kernel in compiler.kernels.values())
        """, tmp_path, DIFFUSE_COMPILE="wait")


def test_handlers_that_raise_while_kernels_load(tmp_path: Path) -> None:
    assert interrupts.loads(str(tmp_path), 1.0, "TimeoutError") == "whole"


def test_a_handler_that_raises_while_an_entry_is_read(tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Cache(tmp_path / "cache", None)
    assert kept.put("a" * 64, b"content")
    fstat = os.fstat

    def signalled(handle: int) -> os.stat_result:
        monkeypatch.setattr(os, "fstat", fstat)
        signal.raise_signal(signal.SIGALRM)
        return fstat(handle)

    with handled(signal.SIGALRM, late):
        monkeypatch.setattr(os, "fstat", signalled)
        with pytest.raises(TimeoutError):
            kept.get("a" * 64)
        assert kept.get("a" * 64) == b"content"


@pytest.mark.parametrize("look", [lambda: machine._read("/proc/version"),
                                  lambda: fingerprint.described(fingerprint._cpuinfo())])
def test_a_handler_that_raises_while_a_file_of_the_system_is_read(look: Callable[[], str],
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def signalled(*given: Any) -> int:
        monkeypatch.setattr(os, "open", opened)
        signal.raise_signal(signal.SIGALRM)
        return opened(*given)

    with handled(signal.SIGALRM, late):
        monkeypatch.setattr(os, "open", signalled)
        with pytest.raises(TimeoutError):
            look()
        assert look() == look() != ""


def test_a_handler_that_raises_while_a_store_ends(tmp_path: Path) -> None:
    """What reports the exception holds the handle of the store, which had ended: it ends once."""
    interrupts.printed("""
        import gc, signal, sys
        import numpy
        import diffuse.numpy as np
        from diffuse.library import current

        def releases(stores, store):
            release(stores, store)
            signal.raise_signal(signal.SIGALRM)

        def late(number, frame):
            if asked:
                asked.pop()
                raise TimeoutError("late")

        held, asked = [], []
        sys.unraisablehook = lambda what: held.append(what.object)
        signal.signal(signal.SIGALRM, late)
        kind = type(current().stores)
        release, kind.release = kind.release, releases
        for keeps in (False, True):
            x = [np.arange(5000.0) + k for k in range(300)]
            numpy.array(x[-1])
            asked += [True] * 300
            del x
            assert len(held) > 100, len(held)
            asked.clear()
            if not keeps:
                held.clear()
        y = [np.arange(5000.0) + k for k in range(300)]
        held.clear()
        gc.collect()
        z = [np.arange(5000.0) - k for k in range(300)]
        for k in range(300):
            assert y[k][7] == 7.0 + k and z[k][7] == 7.0 - k
        """, tmp_path)


def test_errors_are_told_from_exceptions_of_handlers() -> None:
    class Handler:
        def __call__(self, *given: Any) -> None:
            raise ValueError

    def error_of(function: Callable[[], Any]) -> BaseException:
        with pytest.raises(Exception) as caught:
            function()
        return caught.value

    def interrupted() -> None:
        signal.raise_signal(signal.SIGALRM)

    for handler in (late, Handler(), lambda number, frame: 1 // 0):
        with handled(signal.SIGALRM, handler):
            assert of_handler(error_of(interrupted))
            assert of_handler(error_of(lambda: deferred(interrupted)))
    assert not of_handler(error_of(lambda: 1 // 0))
    assert not of_handler(error_of(lambda: late(14, None)))
    assert not of_handler(TimeoutError())
    with handled(signal.SIGALRM, late), pytest.raises(TimeoutError), suppress(OSError):
        interrupted()
    with suppress(OSError):
        raise TimeoutError


def test_handlers_wait_until_a_function_has_returned() -> None:
    """Each is called once, also if another one raises, and is the handler again."""
    said: list[Any] = []

    def note(number: int, frame: Any) -> None:
        said.append(number)

    def fails(number: int, frame: Any) -> None:
        said.append(number)
        raise TimeoutError

    def work() -> None:
        for number in (signal.SIGALRM, signal.SIGUSR1, signal.SIGALRM, signal.SIGUSR2):
            signal.raise_signal(number)
        signal.signal(signal.SIGUSR2, note)
        said.append("returned")

    with handled(signal.SIGALRM, fails), handled(signal.SIGUSR1, note), handled(signal.SIGUSR2, fails):
        with pytest.raises(TimeoutError):
            deferred(work)
        assert said == ["returned", signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2]
        assert [signal.getsignal(n) for n in (signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2)] == [
            fails, note, note]
