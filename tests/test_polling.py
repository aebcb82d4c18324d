"""How long idle threads poll for the next launch."""

from __future__ import annotations

import ctypes

import pytest

import diffuse.numpy
from diffuse.runtime.local import native
from diffuse.runtime.local.polling import LONG, SHORT, TURNS, Polling
from diffuse.runtime.local.runtime import Local
from diffuse.stream import engine
from tests.test_fuzz_stream import stream


class Program:
    """Iterations that wait for their results and then launch the next ones, at times of our choice."""

    def __init__(self) -> None:
        self.now = 0.0
        self.set: list[float] = []
        self.polling = Polling(self.set.append, lambda: self.now)

    def turn(self, microseconds: float, launches: int = 2) -> None:
        """One iteration that records for so long between its wait and its first launch."""
        self.polling.waited()
        self.now += microseconds / 1e6
        for _ in range(launches):
            if self.polling.idle:
                self.polling.launched()
            self.now += 1e-3


def test_threads_poll_longer_where_each_iteration_records_for_less_than_a_millisecond() -> None:
    program = Program()
    for _ in range(TURNS - 1):
        program.turn(500.0)
    assert program.set == []
    for _ in range(20):
        program.turn(500.0)
    assert program.set == [LONG]
    program.turn(2000.0)
    assert program.set == [LONG, SHORT]
    program.turn(2000.0)
    assert program.set == [LONG, SHORT]


@pytest.mark.parametrize("gaps", [[20.0], [5000.0], [500.0] * (TURNS - 1) + [5000.0]])
def test_threads_sleep_as_soon_as_before_in_other_programs(gaps: list[float]) -> None:
    program = Program()
    for _ in range(5):
        for gap in gaps:
            program.turn(gap)
    assert program.set == []


def test_the_pool_of_a_runtime_takes_the_time() -> None:
    with stream(points=2):
        runtime = engine.current().runtime
        if not isinstance(runtime, Local) or runtime._polling is None:
            pytest.skip("this runtime has no threads of its own, or more than processors")
        a = diffuse.numpy.ones(100_000)
        for _ in range(3):
            a = a * 2.0 + 1.0
            engine.fence()
        threads = runtime._pool.threads
        threads.poll(LONG)
        assert threads.spin == LONG
        if threads.started:
            at = threads.address + native.FIELDS["spin"]
            assert ctypes.c_uint64.from_address(at).value == int(LONG * threads.entry.pauses)
        a = a + 1.0
        assert float(a[0]) == 16.0
