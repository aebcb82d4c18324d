"""Programs whose own code runs in the middle of a call of the extension."""

from __future__ import annotations

import weakref
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.small import native


class Counted(type):
    """A metaclass that computes with arrays whenever one of its classes is looked up in a table."""

    large: Any = None
    found: list[Any] = []

    def __hash__(cls) -> int:
        Counted.found.append(Counted.large + Counted.large)
        return type.__hash__(cls)


class Fives(metaclass=Counted):
    """What NumPy makes an array of fives of."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return numpy.full(40_000, 5.0)


def test_operands_whose_class_computes_when_it_is_hashed() -> None:
    Counted.large, Counted.found = np.arange(40_000.0) * 1, []
    for _ in range(3):
        Counted.large + Counted.large
        numpy.testing.assert_array_equal(np.add(Fives(), Counted.large), numpy.arange(40_000.0) + 5)
        numpy.testing.assert_array_equal(np.add(Counted.large, Fives()), numpy.arange(40_000.0) + 5)
    for found in Counted.found:
        numpy.testing.assert_array_equal(found, numpy.arange(40_000.0) * 2)


@pytest.mark.skipif(native is None, reason="Python's code keeps the arrays in a list of its own")
def test_arrays_of_a_list_live_as_long_as_the_call_that_got_it() -> None:
    given = [np.full((10, 15), 1e300), np.full((15, 10), 1e300), np.full((10, 15), 1e300)]
    first, alive = weakref.ref(given[0]), []

    def clear(kind: str, flag: int) -> None:
        given.clear()
        alive.append(first() is not None)

    with numpy.errstate(over="call", invalid="ignore", call=clear):
        found = np.linalg.multi_dot(given)
    assert found.shape == (10, 15) and alive and all(alive) and first() is None


@pytest.mark.parametrize("mean", [np.mean, lambda x: x.mean()])
def test_means_that_underflow_say_so(mean: Any) -> None:
    x = np.zeros(300)
    x[0] = 5e-324
    with numpy.errstate(under="raise"), pytest.raises(FloatingPointError, match="underflow"):
        mean(x)
    with numpy.errstate(under="warn"), pytest.warns(RuntimeWarning, match="underflow"):
        assert float(mean(x)) == 0.0
