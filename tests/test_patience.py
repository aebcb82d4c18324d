"""How long tasks wait for machine code: not where interpreting is quick, and never for what is optional."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from diffuse import settings
from diffuse.service import client as client_module
from diffuse.service.client import Client
from diffuse.service.patience import SOON, patience
from tests.service import run


@pytest.mark.parametrize("work, operations, loops, interpretable, seconds", [
    (400_000, 4, 1, True, 0.0),             # 0.4 ms
    (40_000_000, 4, 1, True, 0.04),
    (40_000_000, 100, 1, True, 0.04),
    (40_000_000, 400, 1, True, 0.0),        # which takes longer to compile
    (40_000_000, 20, 10, True, 0.0),        # as do many short loops
    (400_000, 4, 1, False, None),           # exp, whose routine has to be compiled, too
    (400_000, SOON + 1, 1, False, 0.0),     # a long kernel, while exp alone is soon there
])
def test_a_task_waits_as_long_as_interpreting_takes(work: int, operations: int, loops: int,
                                                    interpretable: bool, seconds: float | None) -> None:
    with settings.using(compile="background"):
        assert patience(work, operations, loops, interpretable) == seconds
    with settings.using(compile="wait"):
        assert patience(work, operations, loops, interpretable) is None


@pytest.mark.parametrize("delay, seconds", [(0.0, 0.04), (0.03, 0.04), (0.05, 0.0)])
def test_no_task_waits_for_a_server_that_begins_too_late(delay: float, seconds: float) -> None:
    with settings.using(compile="background"):
        assert patience(40_000_000, 4, 1, True, delay=delay) == seconds


def test_a_client_estimates_when_its_server_begins_a_request() -> None:
    client = Client()
    client._asked = {key: client_module._Request(b"") for key in "abc"}
    client._begun = {"a", "b"}
    assert [client.delay(key) for key in "abcd"] == [0.0, 0.0, client_module.ENDS, 0.0]
    client._asked.pop("a")
    assert client.delay("c") == 0.0
    client._opened = time.monotonic() + 60
    assert client.delay("c") > 60


@pytest.mark.parametrize("work, waited, seconds", [
    (40_000_000, 0.01, 0.03), (40_000_000, 0.04, 0.0), (40_000_000, 9.0, 0.0), (80_000_000, 0.04, 0.04)])
def test_tasks_of_one_kernel_wait_together_as_long_as_one(work: int, waited: float, seconds: float) -> None:
    """Otherwise a loop would wait in each iteration, and be hardly further when the machine code arrives."""
    with settings.using(compile="background"):
        assert patience(work, 4, 1, True, waited) == pytest.approx(seconds)


@pytest.mark.not_device("there is no thread pool")
def test_a_loop_waits_once_for_a_server_that_does_not_answer(tmp_path: Path) -> None:
    program = """
        import diffuse, numpy, diffuse.numpy as np
        from diffuse.kernels.build import algorithms, compiler
        from diffuse.kernels.build.compiler import Kernel
        client_module.LIMIT = 60
        x = np.arange(3e6)
        (x - 1)[0]
        compiler.compiler.wait()
        signal_server(signal.SIGSTOP)
        waits, wait = [], Kernel.wait
        Kernel.wait = lambda self, seconds: (waits.append(seconds), wait(self, seconds))
        for _ in range(3):
            y = (x + 1) * x - x
            diffuse.fence()
        sorting = ("encode", "float64"),
        found = [algorithms.routines(sorting, 0.05), algorithms.routines(sorting, 0.05)]
        numpy.testing.assert_array_equal(y, numpy.arange(3e6) ** 2)
        print(len(waits), found, algorithms._waited[sorting])
        signal_server(signal.SIGKILL)
    """
    said = run(program, tmp_path, DIFFUSE_COMPILE="background")
    assert said.split("\n")[0] == "1 [None, None] 0.05"


def test_nothing_is_asked_of_a_server_with_the_compiler_off(tmp_path: Path) -> None:
    program = """
        import numpy, diffuse.numpy as np
        x = np.arange(40000.0)
        y = numpy.array((x + 1) * x), numpy.array(np.roll(x, 3) - x)
        numpy.testing.assert_array_equal(y[0], (numpy.arange(40000.0) + 1) * numpy.arange(40000.0))
        z = x - 1j
        numpy.testing.assert_allclose(numpy.array(1 / (z / (z + 1))), 1 + 1 / (numpy.arange(40000.0) - 1j))
        print(client._asked, client._end, os.listdir(os.environ["DIFFUSE_CACHE_DIR"]))
    """
    assert run(program, tmp_path, DIFFUSE_COMPILE="off").strip() == "{} None []"


@pytest.mark.not_device("there is no thread pool")
def test_small_tasks_go_on_while_the_thread_pool_is_not_compiled(tmp_path: Path) -> None:
    """Their kernel is cached; the server, which has the pool to compile, does not answer."""
    program = """
        import numpy, diffuse.numpy as np
        from diffuse.runtime.local import native
        from diffuse.service import code
        client_module.LIMIT = 20
        if {hangs}:
            client._connect()
            while not client.process:
                client.poll()
            signal_server(signal.SIGSTOP)
        x = np.arange(40000.0)
        for _ in range(3):
            y = numpy.array((x + 1) * x - x)
        numpy.testing.assert_array_equal(y, numpy.arange(40000.0) ** 2)
        print(code.text_key(native.text()), client.deaths)
        if {hangs}:
            signal_server(signal.SIGKILL)
    """
    pool, _ = run(program.format(hangs=False), tmp_path).split()
    (tmp_path / f"{pool}.kernel").unlink()
    assert run(program.format(hangs=True), tmp_path, DIFFUSE_COMPILE="background").split() == [pool, "0"]
