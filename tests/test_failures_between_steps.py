"""What goes wrong between two steps of the program: interrupts, the garbage collector, threads, processes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.fusion import canonical
from diffuse.ir import template
from diffuse.kernels.build import compiler as compiling
from diffuse.stream import engine, execute, memo, queue, replay, stores, templates, window, zeros
from tests import interrupts
from tests.moments import interrupted
from tests.outcomes import pending, run_all
from tests.test_failures import ROOT, nothing_held, run, works  # noqa: F401 (a fixture)

# -- interruptions -----------------------------------------------------------------------------------------


def test_an_interrupt_loses_what_was_running_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.arange(3000.0)
    engine.fence()
    engine.current().window.forget()  # a plan of another test may have machine code, which is not interpreted
    compiling.compiler.forget()
    b = a + 1

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compiling.Kernel, "point", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.flush()
    with pytest.raises(RuntimeError, match="KeyboardInterrupt came before .*test_failures_between_steps.py"):
        numpy.array(b)
    with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
        numpy.array(b * 2)
    numpy.testing.assert_array_equal(numpy.array(a * 2), numpy.arange(3000.0) * 2)
    works()


STREAM = {module.__file__ for module in (canonical, engine, execute, memo, queue, template, templates, replay,
                                         stores, window, zeros)}
FINAL = {"__del__", "__init__", "release", "runtime", "current", "entered"}
"""What a finalizer runs, in which Python swallows exceptions; what makes a store, which then has one; and
what NumPy's error state asks in the middle of a task that is interpreted, where an interrupt waits."""


@pytest.mark.parametrize(("held", "raises"), [(1, KeyboardInterrupt), (3, TimeoutError), (100, Exception)])
def test_an_interrupt_at_any_line_leaves_a_stream_that_works(held: int, raises: type[BaseException]) -> None:
    stream = engine.current()
    x: Any = None

    def work() -> None:
        nonlocal x
        for _ in range(2):
            x += 1
            x = (x * 2)[::-1] - x
        engine.flush()

    with settings.using(window=held):
        moment = 1
        while True:
            x = np.zeros(10)
            if not interrupted(work, moment, STREAM, FINAL, raises):
                break
            z = x * 0.0 + 5.0
            engine.fence()
            assert not (stream.window.held or pending() or stream.stores.running), moment
            # nothing is lost: x is what the lines made it that were done
            try:
                assert set(numpy.array(x)) in ({0.0}, {1.0}, {2.0}) and set(numpy.array(z)) == {5.0}, moment
            except RuntimeError as error:  # Legate does not tell whether what was cut off had begun
                assert not stream.runtime.host_sees and f"{raises.__name__} came before" in str(error), moment
            moment += 1
    assert moment > 300
    assert set(numpy.array(x)) == {2.0}
    del x, z
    engine.fence()
    assert set(stream.stores.storages) == stream.stores.alive


@pytest.mark.not_legate("a launch that an interrupt cuts off is lost, and says so when it is read")
def test_a_real_interrupt_leaves_a_session_that_works(tmp_path: Path) -> None:
    """At a random moment of a loop, six times: nothing that was recorded is lost (tests/interrupts.py)."""
    assert interrupts.loop(str(tmp_path)) == "whole"


def test_recursion_to_the_limit() -> None:
    """The error may come anywhere inside of recording; what was recorded before it is whole."""
    def deeper(x: Any, depth: int) -> None:
        done.append((x, depth))
        deeper(x + 1, depth + 1)

    for shape in ((3000,), (60, 50), (3000,)):
        done: list[Any] = []
        with pytest.raises(RecursionError):
            deeper(np.zeros(shape), 0)
        for x, depth in done[-40:]:
            numpy.testing.assert_array_equal(numpy.array(x), numpy.full(shape, float(depth)))
        done.clear()
        works()


def test_a_group_that_was_half_numbered_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.arange(3000.0)
    engine.fence()
    b = a * 2

    def no_stack_left(*_: Any) -> None:
        raise RecursionError

    with monkeypatch.context() as patch:
        patch.setattr("diffuse.fusion.canonical._form", no_stack_left)
        with pytest.raises(RecursionError):
            b + np.arange(3000.0)
    numpy.testing.assert_array_equal(numpy.array(b + a), numpy.arange(3000.0) * 3)
    works()


# -- garbage, threads, processes ---------------------------------------------------------------------------


def test_the_garbage_collector_may_drop_arrays_at_any_moment() -> None:
    class Holder:
        pass

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for turn in range(20):
            a = np.arange(2000.0) + turn
            for _ in range(5):
                cycle = Holder()
                cycle.me, cycle.array = cycle, a * 2  # type: ignore[attr-defined]
                a = cycle.array + 1  # type: ignore[attr-defined]
                del cycle
            expected = numpy.arange(2000.0) + turn
            for _ in range(5):
                expected = expected * 2 + 1
            numpy.testing.assert_array_equal(numpy.array(a), expected)
    finally:
        gc.set_threshold(*before)
    del a
    gc.collect()
    works()


def test_memory_of_dropped_arrays_goes_back() -> None:
    def turn() -> None:
        a = np.arange(2000.0)
        cycle: list[Any] = [a * 2]
        cycle.append(cycle)
        float((a + 1).sum())

    turn()
    gc.collect()
    engine.fence()
    before = len(engine.current().stores.instances)
    for _ in range(10):
        turn()
    gc.collect()
    engine.fence()
    assert len(engine.current().stores.instances) == before


@pytest.mark.not_legate("work from another thread than the main one is an error: see test_legate.py")
def test_threads_of_the_program_record_together() -> None:
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(30):
                a = np.arange(3000.0) + number
                b = a.copy()
                b[1:-1] = (a[2:] + a[:-2]) * 0.5
                c = np.sqrt(b) + turn
                plain = numpy.arange(3000.0) + number
                expected = plain.copy()
                expected[1:-1] = (plain[2:] + plain[:-2]) * 0.5
                numpy.testing.assert_array_equal(numpy.array(c), numpy.sqrt(expected) + turn)
        except BaseException as error:
            failed.append(error)

    with settings.using(compile="background", window="auto"):
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        run_all(threads, 60)
        assert not any(thread.is_alive() for thread in threads)
    if failed:
        raise failed[0]
    compiling.compiler.wait()
    works()


@pytest.mark.parametrize("method", [
    pytest.param("fork", marks=[pytest.mark.not_legate("a forked process has no Legate: see test_legate.py"),
                                 pytest.mark.not_gpu("a forked process has no GPU: see test_cuda.py")]),
    "spawn"])
def test_multiprocessing(method: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(f"""
        import multiprocessing, warnings
        import numpy
        import diffuse.numpy as np
        warnings.simplefilter("ignore")
        def work(k):
            a = np.arange(20000.0) + k
            return float((a * 2 - np.sqrt(a)).sum())
        if __name__ == "__main__":
            here = np.arange(20000.0) * 3
            pending = here - 1
            first = [work(k) for k in range(4)]
            with multiprocessing.get_context("{method}").Pool(2) as pool:
                assert pool.map(work, range(4)) == first
            numpy.testing.assert_array_equal(numpy.array(pending), numpy.arange(20000.0) * 3 - 1)
            assert [work(k) for k in range(4)] == first
        """))
    for compile in ("background", "off"):
        subprocess.run([sys.executable, str(program)], check=True, timeout=240,
                       env={**os.environ, "PYTHONPATH": str(ROOT), "DIFFUSE_SMALL": "0",
                            "DIFFUSE_NUM_THREADS": "2",
                            "DIFFUSE_COMPILE": compile, "DIFFUSE_CACHE_DIR": str(tmp_path / compile)})


def test_pending_work_at_exit() -> None:
    """What nobody looked at need not be done, but the process ends, quietly and with its own status."""
    for ending in ("", "raise SystemExit(3)", "import os; os._exit(3)"):
        done = run(f"""
            import diffuse.numpy as np
            a = np.ones((400, 400))
            for _ in range(100):
                a = a * 1.5 + a[::-1]
            keep = a.sum()
            {ending}
            """, expect=3 if ending else 0, DIFFUSE_COMPILE="background")
        assert not done.stderr, done.stderr


def test_work_in_exit_handlers_and_finalisers() -> None:
    done = run("""
        import atexit
        import diffuse.numpy as np
        a = np.arange(5000.0) + 1
        atexit.register(lambda: print(float((a * 2).sum())))
        class Late:
            def __del__(self):
                try:
                    print(float((a + 0).sum()))
                except Exception as error:
                    print(type(error).__name__)
        late = Late()
        """, DIFFUSE_COMPILE="background")
    assert done.stdout.splitlines()[0] == repr(float((numpy.arange(5000.0) + 1).sum() * 2))
