"""Results of large tasks are stored past the caches: same elements, and nothing beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.kernels.body.expr import Op
from diffuse.stream import engine, streaming
from tests import machine_code
from tests.test_llvm import LOAD, build, do, plus, put, run

PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda np, x, y: x + y,
    "rows": lambda np, x, y: x[1:, 3:] * y[:-1, :-3],
    "float32": lambda np, x, y: x.astype(np.float32),
    "integers": lambda np, x, y: (x * 9).astype(np.int32) + 1,
    "two": lambda np, x, y: (x + y, x - y),
    "chain": lambda np, x, y: np.sqrt(abs(-x)) * y + 1.0,
    "exp": lambda np, x, y: np.exp(-x) * y,
}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every result is stored past the caches.

    This is decided when a plan is made, so the window forgets the plans that earlier programs left
    behind, and afterwards the plans that were made here.
    """
    monkeypatch.setattr(streaming, "least", lambda: 0)
    monkeypatch.setattr(streaming, "ROW", 1)
    engine.current().window.forget()
    yield
    engine.current().window.forget()


def past_caches() -> dict[int, Any]:
    """The plans whose kernels store past the caches, by identity; only the newest plans are kept."""
    return {id(plan): plan for plan in engine.current().forwarder.plans
            if plan.kernel is not None and plan.kernel.body.streams}


@pytest.mark.not_device("kernels of processors")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", [(173, 131), (129, 264)])
def test_programs(name: str, shape: tuple[int, int], always: None) -> None:
    """With rows that begin at any address, aligned or not."""
    x, y = numpy.random.default_rng(1).random((2, *shape))
    before, ours = past_caches(), (np.array(x), np.array(y))
    found = PROGRAMS[name](np, *ours)
    expected = PROGRAMS[name](numpy, x, y)
    engine.fence()
    runtime = engine.current().runtime
    if runtime.addressed or not runtime.pipelines:
        assert past_caches().keys() - before.keys()
    for one, other in zip(found if name == "two" else [found], expected if name == "two" else [expected],
                          strict=True):
        numpy.testing.assert_allclose(numpy.asarray(one), other, rtol=1e-15 if name != "chain" else 1e-14)


@pytest.mark.not_device("kernels of processors")
@pytest.mark.parametrize("name", ["logaddexp", "power", "many"])
def test_results_of_much_arithmetic_stay_in_the_caches(name: str, always: None) -> None:
    programs: dict[str, Callable[[Any], Any]] = {
        "logaddexp": lambda x: np.logaddexp(x, 0.5), "power": lambda x: x ** x,
        "many": lambda x: sum([x * k + x for k in range(40)], x)}
    x = np.array(numpy.random.default_rng(4).random((129, 264)))
    before = past_caches()
    y = programs[name](x)
    engine.fence()
    assert past_caches().keys() <= before.keys() and y.shape == x.shape


@pytest.mark.not_device("kernels of processors")
def test_results_in_the_memory_of_an_operand_stay_in_the_caches(always: None) -> None:
    x = np.array(numpy.random.default_rng(5).random((129, 264)))
    y = np.array(x)
    engine.fence()
    before = past_caches()
    for _ in range(3):
        x = x * 0.5 + y     # the former x ends here
        engine.fence()
    assert past_caches().keys() <= before.keys() and y.shape == x.shape


@pytest.mark.not_device("kernels of processors")
def test_results_beside_what_a_task_reads_of_the_array_stay_in_the_caches(always: None) -> None:
    x = np.array(numpy.random.default_rng(6).random((129, 264)))
    engine.fence()
    before = past_caches()
    x[:, :100] = x[:, 100:200] * 0.5
    engine.fence()
    assert past_caches().keys() <= before.keys()


@pytest.mark.not_device("kernels of processors")
def test_results_that_a_recorded_task_reads_stay_in_the_caches(always: None) -> None:
    """The two tasks may run together, row by row."""
    x = np.array(numpy.random.default_rng(7).random((129, 264)))
    engine.fence()
    before = past_caches()
    for _ in range(3):
        work = x[:-2] - x[2:]
        x[1:-1] = work
    engine.fence()
    found = [plan.operations for number, plan in past_caches().items() if number not in before]
    assert ("subtract",) not in found and work.shape == (127, 264)


@pytest.mark.parametrize("offset", [0, 1, 7])
def test_kernels_write_nothing_beside_their_result(offset: int) -> None:
    body = build(LOAD[0], LOAD[1], do("add", 0, 1), put(2, 2), views=["R1", "R1", "W1"])
    body = replace(body, streams=True)
    assert "movnt" in machine_code.assembly(body)
    x = numpy.random.default_rng(2).random(200)
    for n in (1, 7, 8, 9, 24, 100):
        out = numpy.full(200, -1.0)
        run(body, [n], [x[:n], x[5:5 + n], out[offset:offset + n]], points=2, tile=max(1, n // 2 + n % 2))
        assert (out[offset:offset + n] == x[:n] + x[5:5 + n]).all()
        assert (out[:offset] == -1.0).all() and (out[offset + n:] == -1.0).all()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("offset", [0, 1, 2, 5])
def test_complex_results_at_any_address(dtype: str, offset: int) -> None:
    """A result that begins in the middle of a number's size has no aligned vectors."""
    body = replace(plus(dtype, "1"), streams=True)
    assert "movnt" in machine_code.assembly(body)
    part = numpy.dtype(dtype).type(0).real.dtype
    x = numpy.random.default_rng(2).random(400).astype(part).view(dtype)
    for n in (1, 4, 9, 25, 100):
        memory = numpy.full(400, -1.0, part)
        out = memory[offset:offset + 2 * n].view(dtype)
        run(body, [n], [x[:n], x[5:5 + n], out], points=2, tile=max(1, n // 2 + n % 2))
        assert (out == x[:n] + x[5:5 + n]).all()
        assert (memory[:offset] == -1.0).all() and (memory[offset + 2 * n:] == -1.0).all()


def test_what_a_kernel_reads_too_is_stored_as_ever() -> None:
    body = build(LOAD[0], do("add", 0, 0), Op("store", "float64", (1,), 0), views=["W1"])
    assert "movnt" not in machine_code.assembly(replace(body, streams=True))


def test_small_results_stay_in_the_caches() -> None:
    x = np.array(numpy.random.default_rng(3).random(70_001))
    before = past_caches()
    y = x + 1.0
    engine.fence()
    assert past_caches().keys() <= before.keys() and y.size == x.size
