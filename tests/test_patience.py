"""How long tasks wait for machine code: not where interpreting is quick, and never for what is optional."""

from __future__ import annotations

from pathlib import Path

import pytest

from diffuse import settings
from diffuse.service.patience import SOON, patience
from tests.service import run


@pytest.mark.parametrize("work, operations, interpretable, seconds", [
    (400_000, 4, True, 0.0),            # 0.8 ms
    (20_000_000, 4, True, 0.04),
    (20_000_000, 100, True, 0.04),
    (20_000_000, 400, True, 0.0),       # which takes longer to compile
    (400_000, 4, False, None),          # exp, whose routine has to be compiled, too
    (400_000, SOON + 1, False, 0.0),    # a long kernel, while exp alone is soon there
])
def test_a_task_waits_as_long_as_interpreting_takes(work: int, operations: int, interpretable: bool,
                                                    seconds: float | None) -> None:
    with settings.using(compile="background"):
        assert patience(work, operations, interpretable) == seconds
    with settings.using(compile="wait"):
        assert patience(work, operations, interpretable) is None


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
            os.kill(client.process, signal.SIGSTOP)
        x = np.arange(40000.0)
        for _ in range(3):
            y = numpy.array((x + 1) * x - x)
        numpy.testing.assert_array_equal(y, numpy.arange(40000.0) ** 2)
        print(code.text_key(native.text()), client.deaths)
        if {hangs}:
            os.kill(client.process, signal.SIGKILL)
    """
    pool, _ = run(program.format(hangs=False), tmp_path).split()
    (tmp_path / f"{pool}.kernel").unlink()
    assert run(program.format(hangs=True), tmp_path, DIFFUSE_COMPILE="background").split() == [pool, "0"]
