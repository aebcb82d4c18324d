"""Epilogues: what a program computes with the results of reductions joins the task that reduces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.observe import trace
from diffuse.stream import engine


@pytest.fixture(autouse=True, params=["wait", "off"])
def several_points(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run each test compiled and interpreted, over several points, with every task checked."""
    engine.fence()
    with settings.using(compile=request.param, min_chunk=1000, check=True):
        yield
        engine.fence()


def launches() -> int:
    return trace.snapshot()["launched"]


def vectors() -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
    draw = numpy.random.default_rng(0)
    return draw.standard_normal(60000), draw.standard_normal(60000)


def test_scalars_made_of_reductions_cost_no_launch() -> None:
    x, y = vectors()
    a, b = np.array(x) * 1.0, np.array(y) * 1.0
    engine.flush()
    before = launches()
    step = (a @ a) / (a @ b) * 2.0
    norm = np.sqrt(abs(step))
    engine.fence()
    assert launches() - before == 1
    alone = [numpy.float64(v) for v in (a @ a, a @ b)]
    assert float(step) == alone[0] / alone[1] * 2.0
    assert float(norm) == numpy.sqrt(abs(float(step)))


def test_an_epilogue_may_overwrite_what_the_points_read() -> None:
    x, _ = vectors()
    a, factor = np.array(x), np.array(3.0)
    expected = 3.0
    for _ in range(3):
        product = a * factor
        total = product @ product
        factor[...] = 1.0 / total
        exact = numpy.asarray(product)
        assert exact.tobytes() == (x * expected).tobytes()
        expected = 1.0 / float(np.array(exact) @ np.array(exact))
        assert float(factor) == expected


def test_a_step_of_conjugate_gradients_is_two_launches() -> None:
    x, y = vectors()
    diagonal = 1.0 + y * y

    def turns(numbers: Any, count: int) -> Any:
        d, p, r, s = (numbers.array(v) for v in (diagonal, x, x, 0.0 * x))
        rho = r @ r
        for _ in range(count):
            q = d * p
            alpha = rho / (p @ q)
            r -= alpha * q
            s += alpha * p
            fresh = r @ r
            p = r + (fresh / rho) * p
            rho = fresh
        return s

    turns(np, 3)
    engine.fence()
    before = launches()
    found = turns(np, 6)
    engine.fence()
    assert launches() - before <= 2 * 6 + 1
    assert numpy.allclose(found, turns(numpy, 6), rtol=1e-10, atol=1e-12)


def test_unused_epilogues_leave_nothing_behind() -> None:
    x, y = vectors()
    a, b = np.array(x), np.array(y)
    c = a + b
    unused = np.sqrt(c @ c)
    del unused
    assert numpy.asarray(c).tobytes() == (x + y).tobytes()


@pytest.mark.not_device("no floating-point flags are kept")
def test_errors_of_an_epilogue_are_told() -> None:
    x = np.zeros(40000)
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide"):
        inverse = 1.0 / (x @ x)
        assert float(inverse) == numpy.inf
