"""Interrupts at any moment: no lock stays held, no array is lost, and LLVM never hears of them."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diffuse.numpy as np
from diffuse import library, worker
from diffuse.runtime.local.ahead import Ahead
from diffuse.stream.stores import Storage
from tests import interrupts


@pytest.mark.not_gpu("a forked process has no GPU: see test_cuda.py")
def test_the_program_never_loads_llvm(tmp_path: Path) -> None:
    """Compiling, loading, freeing, a kernel that fails, a fork, and the program's end."""
    program = """
        import gc, os, sys, warnings
        import numpy
        import diffuse.numpy as np
        from diffuse import settings
        from diffuse.stream import engine
        from diffuse.kernels.body import abi
        from diffuse.kernels.body.expr import Body, Loop, Op, Space
        from diffuse.kernels.build import jit
        from diffuse.service import code, loader
        from diffuse.kernels.build.compiler import compiler

        def compute(k):
            a = np.arange(20000.0) + k
            b = a.copy()
            b[1:-1] = a[2:] * 0.5 + a[:-2]
            assert float(np.sqrt(a).sum()) == float(np.sqrt(a + 0).sum())
            return numpy.array(b * 2 - np.cumsum(a))

        first = compute(1)
        engine.fence()
        with settings.using(small=16384):
            np.exp(np.arange(10.0))
        bodies = [body for body, _ in compiler.kernels]
        compiler.forget()
        engine.current().window.forget()
        gc.collect()
        natives = [jit.compile(body) for body in bodies]
        del natives
        gc.collect()
        plain = next(body for body in bodies if not abi.finishes(body))
        try:
            loader.load(code.disk().get(jit.key_of(plain)), ("k", "k_finish"))
        except RuntimeError as error:
            assert "lacks" in str(error)
            gc.collect()
        try:
            ops = Op("const", "float64", (), 1.0), Op("juggle", "float64", (0,))
            jit.compile(Body((Space(0, (-1,)),), (), (), (Loop(0, (), ops),)))
        except NotImplementedError as error:
            assert "juggle" in str(error)
        numpy.testing.assert_array_equal(compute(1), first)
        warnings.filterwarnings("ignore", "This process .* is multi-threaded")  # from Python 3.12 on
        child = os.fork()
        if not child:
            numpy.testing.assert_array_equal(compute(1), first)
            compute(2)[::2].sum()
            os._exit("llvmlite" in sys.modules)
        assert os.waitpid(child, 0)[1] == 0
        a = np.arange(20000.0)
        pending = (a * a - 1) / (a + 2) * (a - 3)
        engine.flush()
        assert "llvmlite" not in sys.modules
        """
    for compile in ("wait", "background"):
        interrupts.printed(program, tmp_path, DIFFUSE_COMPILE=compile)


def test_interrupts_while_kernels_load(tmp_path: Path) -> None:
    assert interrupts.loads(str(tmp_path), 1.0) == "whole"


def test_a_program_that_ends_before_its_output_is_read_is_heard(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "LOADS", """if True:
        import signal, sys
        signal.signal(int(sys.argv[3]), signal.SIG_IGN)
        sys.stdout.write("ready\\n")
        sys.stdout.flush()
        sys.stdout.write("done\\nwhole\\n")""")
    assert interrupts.loads(str(tmp_path)) == "whole"


class Clock:
    """A pool that takes a second for so many units of work, and time that passes only there."""

    def __init__(self, speed: float) -> None:
        self.speed, self.now, self.completed = speed, 0.0, 0
        self.work: list[int] = []
        self.waits: list[int] = []

    def submit(self, work: int) -> int:
        self.work.append(work)
        return len(self.work)

    def wait(self, sequence: int) -> None:
        self.waits.append(sequence)
        while self.completed < sequence:
            self.now += self.work[self.completed] / self.speed
            self.completed += 1

    def queued(self) -> float:
        """Seconds that all takes that is not done."""
        return sum(self.work[self.completed:]) / self.speed


@pytest.mark.parametrize("speed", [2e8, 1e9, 3e10])
@pytest.mark.parametrize("work", [3_000_000, 10_000_000, 1_000_000_000])
def test_the_program_runs_half_a_second_ahead(speed: float, work: int,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what it submits without looking, at most; and never does it wait for what it submitted last."""
    pool = Clock(speed)
    monkeypatch.setattr("time.perf_counter", lambda: pool.now)
    ahead = Ahead(pool)  # type: ignore[arg-type]
    most = 0.0
    launches = max(300, int(2 * speed / work))
    for _ in range(launches):
        pool.now += 1e-6
        ahead.add(pool.submit(work), work)
        assert not pool.waits or pool.waits[-1] < len(pool.work)
        most = max(most, pool.queued())
    assert most <= 0.5 + work / speed
    assert pool.completed
    if work / speed < 0.1:  # once measured, as far as is allowed: the threads are never idle
        assert most > 0.2


def test_a_group_that_would_take_long_makes_the_window_no_larger() -> None:
    from diffuse.stream.stores import Stores
    from diffuse.stream.window import FIRST_SIZE, Window

    window = Window(Stores())
    assert not window.heavy
    window.open.recorded = [None] * FIRST_SIZE  # type: ignore[list-item]
    window.open.shapes = {(1000, 1000)}
    assert not window.heavy
    window.open.shapes.add((10_000, 10_000))
    assert window.heavy


def test_what_an_interrupt_came_before_runs_when_it_is_asked_for(tmp_path: Path) -> None:
    """The pool's queue and the window, whose tasks donate memory to each other: each task runs once."""
    interrupts.printed("""
        import numpy
        import diffuse.numpy as np
        from diffuse.stream import engine, execute
        from diffuse.kernels.build.compiler import compiler

        def turn(x):
            x = x * 2 - 1
            engine.flush()
            return x

        x = np.full(20000, 3.0)
        for _ in range(3):
            x = turn(x)
        numpy.testing.assert_array_equal(numpy.array(x), 17.0)
        launch = execute.Forwarder._launch
        def before(*arguments):
            execute.Forwarder._launch = launch
            raise KeyboardInterrupt
        def after(*arguments):
            execute.Forwarder._launch = launch
            launch(*arguments)
            raise KeyboardInterrupt
        for moment in (before, after, before):
            y = x
            del x
            x = y * 2 - 1
            del y
            execute.Forwarder._launch = moment
            try:
                engine.flush()
            except KeyboardInterrupt:
                pass
            else:
                raise AssertionError
            x = turn(x)
        value = 17.0
        for _ in range(6):
            value = value * 2 - 1
        numpy.testing.assert_array_equal(numpy.array(x), value)
        from tests.outcomes import pending
        assert not pending() and not engine.current().stores.given
        """, tmp_path, DIFFUSE_COMPILE="wait")


def test_what_nobody_waits_for_any_more_does_not_begin() -> None:
    """An interrupted call takes its job back; what has begun comes to its end."""
    gate, begun, ran = threading.Lock(), threading.Event(), list[str]()

    def first() -> None:
        begun.set()
        with gate:
            ran.append("first")

    def interrupted(function: Callable[[], None]) -> None:
        def interrupt(lock: Any, *arguments: Any, **options: Any) -> bool:
            begun.wait(120)
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(worker.Job, "wait", interrupt)
            worker.call(function)

    with gate:
        interrupted(first)
        interrupted(lambda: ran.append("second"))
    worker.call(lambda: ran.append("third"))
    assert ran == ["first", "third"]


def test_an_error_of_a_job_keeps_nothing_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker holds a job a moment longer than its caller, whose frames an error has when it is raised."""
    class Held:
        pass

    def slow(job: worker.Job, run: Callable[[worker.Job], None] = worker._undisturbed) -> None:
        run(job)
        time.sleep(0.05)

    def call(held: Held) -> None:
        with pytest.raises(ZeroDivisionError):
            worker.call(lambda: 1 // 0)

    monkeypatch.setattr(worker, "_undisturbed", slow)
    held = Held()
    kept = weakref.ref(held)
    call(held)
    del held
    gc.collect()
    assert kept() is None


def test_a_handle_that_an_interrupt_left_unmade_goes_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    handle = Storage.__new__(Storage)
    del handle
    assert not said


def test_an_interrupt_comes_out_of_a_memoryview_and_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x, fetch, left = np.arange(100_000.0) + 1, library.fetch, [KeyboardInterrupt()]

    def interrupted(storage: Any) -> Any:
        if left:
            raise left.pop()
        return fetch(storage)

    monkeypatch.setattr(library, "fetch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        memoryview(x)
    assert memoryview(x)[7] == 8.0
