"""Too little memory for one of several tasks that were fused: only what needs that memory is lost."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.stream import engine, execute
from tests.outcomes import pending

N = 200_000
HUGE = 1 << 18, 1 << 20
"""Two terabytes of float64."""


@pytest.fixture(params=["local", "simt"], autouse=True)
def stream(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "simt":
        pytest.importorskip("llvmlite", reason="kernels are compiled by llvmlite")
    # all tasks have one point, and so fuse
    with settings.using(runtime=request.param, window="auto", small=0, min_chunk=1 << 60):
        gc.collect()  # errors of the test before hold its arrays
        engine.fence()
        yield
        engine.fence()


def values() -> Any:
    return numpy.linspace(0.0, 1.0, N)


def in_use() -> int:
    """Bytes of the runtime's memory."""
    runtime: Any = engine.current().runtime
    return int(runtime.usage().in_use)


def test_what_comes_before_is_computed_and_what_follows_from_it_is_lost() -> None:
    x = np.array(values())
    engine.fence()
    y = x + 1.0
    x += 2.0
    huge = np.ones(HUGE)
    z = y * 3.0
    del y
    following = huge[0, :10] + z[:10]
    x += 1.0
    with pytest.raises(MemoryError, match="2199023255552 bytes requested") as raised:
        engine.fence()
    assert "needed by the operations recorded at" in raised.value.__notes__[0]
    assert numpy.array_equal(numpy.array(x), values() + 2.0 + 1.0)
    assert numpy.array_equal(numpy.array(z), (values() + 1.0) * 3.0)
    with pytest.raises(MemoryError, match="2199023255552 bytes requested"):
        numpy.array(following)
    del huge, following
    engine.fence()
    stores = engine.current().stores
    assert not stores.lost and not pending() and not stores.running


def test_the_results_that_there_is_memory_for_are_there() -> None:
    x = np.array(values())
    assert float((x + 1.0)[0]) == 1.0  # which allocates it on a device
    with settings.using(memory=in_use() + 3 * x.nbytes // 2):
        y = x + 1.0
        z = y * 2.0
        with pytest.raises(MemoryError, match="DIFFUSE_MEMORY"):
            engine.fence()
    assert numpy.array_equal(numpy.array(y), values() + 1.0)
    with pytest.raises(MemoryError, match="DIFFUSE_MEMORY"):
        numpy.array(z)
    assert numpy.array_equal(numpy.array(x * 2.0), values() * 2.0)


def test_operations_after_them_are_computed() -> None:
    """Those that are recorded already, in groups of their own: their stores count as pending all the time."""
    x = np.array(values())
    y = x + 1.0
    huge = np.ones(HUGE)
    with pytest.raises(MemoryError):
        np.sort(y[::-1])  # a host function, before which all is launched
    z = y * x + x
    y -= 1.0
    with pytest.raises(MemoryError):
        numpy.array(huge)
    assert numpy.array_equal(numpy.array(z), (values() + 1.0) * values() + values())
    assert numpy.array_equal(numpy.array(y), values() + 1.0 - 1.0)


def test_an_interrupt_between_the_tasks_loses_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array(values())
    engine.fence()
    y = x + 1.0
    huge = np.ones(HUGE)
    z = y * 3.0
    calls = []

    def run(self: Any, group: Any, run: Any = execute.Forwarder._run) -> None:
        calls.append(group)
        if len(calls) == 3:
            raise KeyboardInterrupt
        run(self, group)

    monkeypatch.setattr(execute.Forwarder, "_run", run)
    with pytest.raises(KeyboardInterrupt):
        engine.fence()
    assert len(calls) == 3 and len(calls[0].recorded) == 3
    monkeypatch.undo()
    with pytest.raises(MemoryError):
        engine.fence()
    assert numpy.array_equal(numpy.array(y), values() + 1.0)
    assert numpy.array_equal(numpy.array(z), (values() + 1.0) * 3.0)
    with pytest.raises(MemoryError):
        numpy.array(huge)


def test_it_is_told_where_values_are_read_and_not_by_blocks_of_warnings() -> None:
    huge = np.ones(HUGE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
    with pytest.raises(MemoryError):
        numpy.array(huge)
