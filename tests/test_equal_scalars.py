"""Equal scalars become one scalar of a kernel, and yet values stay data: programs that tell the two apart."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.observe import trace
from diffuse.stream import engine
from tests.around import around, fenced

Array = Any


fresh = around(fenced, compile="wait", window="auto", small=0)


def plans(run: Callable[[], object]) -> int:
    before = trace.snapshot()["plans"]
    run()
    engine.fence()
    return trace.snapshot()["plans"] - before


def step(xp: Any, x: Array, a: float, b: float, c: float) -> Array:
    return (x * a + b) * c + x * b


VALUES = [(0.5, 0.5, 0.5), (0.5, 2.0, 0.5), (2.0, 2.0, 0.5), (0.0, -0.0, 0.0), (-0.0, 0.0, 0.0),
          (math.nan, 1.0, math.nan), (1.0, math.nan, math.nan), (math.inf, -math.inf, 1.0), (1.0, 1.0, 1.0)]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_coincides_results_are_numpys(seed: int) -> None:
    values = random.Random(seed).sample(VALUES, len(VALUES))
    x = numpy.linspace(-2.0, 2.0, 9000)
    for given in values:
        with numpy.errstate(all="ignore"):
            expected = step(numpy, x, *given)
            found = numpy.asarray(step(np, np.array(x), *given))
        assert numpy.array_equal(found, expected, equal_nan=True), given
        assert (numpy.signbit(found) == numpy.signbit(expected))[~numpy.isnan(expected)].all(), given


def test_equal_scalars_are_one_parameter() -> None:
    x = np.ones(9000)
    engine.fence()
    y = step(np, x, 0.5, 0.25, 0.5)
    engine.fence()
    assert len(engine.current().forwarder.plans[-1].composition.body.scalars) == 2
    assert float(y[0]) == (0.5 + 0.25) * 0.5 + 0.25


def test_values_that_change_in_step_are_replayed() -> None:
    x = np.ones(9000)
    engine.fence()

    def run(first: int) -> None:
        for k in range(first, first + 20):
            kept = step(np, x, k + 1.5, 0.125, k + 1.5)
            engine.flush()
        del kept

    run(1)
    assert plans(lambda: run(21)) == 0


def test_values_that_meet_by_chance_cost_a_plan_once() -> None:
    """Eleven scalars, 1 or -1 at random: each new plan takes fewer of them for one."""
    x, draw = np.ones(9000), random.Random(3)
    engine.fence()

    def run() -> None:
        for _ in range(60):
            y = x
            for _ in range(11):
                y = y * draw.choice([1.0, -1.0]) + 0.5
            kept = y
            engine.flush()
        del kept

    assert plans(run) <= 11
    assert plans(run) == 0
