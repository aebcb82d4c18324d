"""Kernels of groups that wait behind another one are compiled beside its kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.service import run

TOGETHER = """
import threading
compiled, both = server.compiled, threading.Barrier(2)
def together(kind, content):
    if kind == "body":
        both.wait(60)
    return compiled(kind, content)
server.compiled = together
"""
"""Kernels are compiled in pairs only: the first one of a pair waits for the second one."""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor compiles one kernel at a time")
@pytest.mark.not_device("a reduction and what reads its result are one group")
def test_a_group_that_waits_is_planned_while_the_one_before_it_is_compiled(tmp_path: Path) -> None:
    assert run(f"""
        import numpy
        import diffuse.numpy as np
        x = np.array(numpy.arange(40000.0))
        patch({TOGETHER!r})
        y = x - x.max()  # two groups: every element needs the whole maximum
        numpy.testing.assert_array_equal(numpy.array(y), numpy.arange(40000.0) - 39999)
        from diffuse.observe import trace
        assert trace.counters["launched"] == 2 and trace.counters["compilations"] >= 2
        print(not warned and not client.deaths)
    """, tmp_path) == "True\n"


def test_a_result_that_is_dropped_while_another_kernel_is_compiled_gives_the_same_values(tmp_path: Path
                                                                                         ) -> None:
    assert run("""
        import numpy
        import diffuse.numpy as np
        rng = numpy.random.default_rng(5)
        settings.config.compile = "background"
        for turn in range(12):
            numbers = rng.random(30000)
            x = np.array(numbers)
            a = x - x.max()
            b = a * a - x.min()
            if turn % 3:
                del a
            c = b - b.max()
            if turn % 2:
                del b
            expected = (numbers - numbers.max()) ** 2 - numbers.min()
            numpy.testing.assert_array_equal(numpy.array(c), expected - expected.max())
        print(not warned)
    """, tmp_path) == "True\n"
