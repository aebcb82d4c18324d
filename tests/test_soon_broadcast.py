"""Functions of several shapes and deviations of windows are computed at once, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.small import native
from diffuse.stream import engine
from tests.at_once import allowed, counted

pytestmark = [pytest.mark.local_only("every rank records the same, whatever is at hand there"),
              pytest.mark.skipif(native is None, reason="the extension does these operations")]

CALLS: list[Callable[[Any, Any], Any]] = [
    lambda m, x: m.maximum(x, x[0]), lambda m, x: m.subtract(x, x[:, :1]), lambda m, x: m.multiply(x[:1], x),
    lambda m, x: m.where(x > x[0], x, x[:, :1]), lambda m, x: m.clip(x, x[:, :1], x[0]),
    lambda m, x: m.add(x[:, 0, None], x[:90, 0]), lambda m, x: m.less(x, x[:3, None])]


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_functions_of_several_shapes_are_done_at_once(dtype: str) -> None:
    plain = (numpy.random.default_rng(3).random((400, 50)) * 100 - 50).astype(dtype)
    x = np.array(plain)
    for call in CALLS:
        engine.fence()
        recorded = numpy.asarray(call(np, x))
        results: list[Any] = []
        with allowed():
            assert counted(lambda: results.append(call(np, x)))[0] == 0  # noqa: B023
        theirs, found = call(numpy, plain), numpy.asarray(results[0])
        for one in (recorded, found):
            assert (one.dtype, one.shape) == (theirs.dtype, theirs.shape)
            assert one.tobytes() == theirs.tobytes()
        assert found.strides == theirs.strides


def test_broadcast_results_count() -> None:
    x = np.array(numpy.random.default_rng(3).random(5000))
    with allowed(4_000_000):
        assert counted(lambda: np.subtract(x[:, None], x[:90])) == (0, 1)
        assert 0 < native.allowance() <= 4_000_000
        assert counted(lambda: np.subtract(x[:, None], x[:90])) == (1, 0)


def test_shapes_that_do_not_fit_are_refused() -> None:
    x = np.array(numpy.ones((400, 50)))
    with pytest.raises(ValueError) as expected:
        numpy.maximum(numpy.ones((400, 50)), numpy.ones(3))
    with allowed(), pytest.raises(ValueError) as found:
        np.maximum(x, numpy.ones(3))
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("name", ["std", "var"])
def test_deviations_of_windows_are_computed_at_once(name: str) -> None:
    series = np.array(numpy.random.default_rng(3).random(4000) - 0.5)
    windows = np.lib.stride_tricks.sliding_window_view(series, 20)
    for view, axis in ((windows, 1), (windows.T, 0), (windows[::-1, ::2], 1)):
        found: list[Any] = []
        assert counted(lambda: found.append(getattr(view, name)(axis=axis)))[0] == 0  # noqa: B023
        packed = numpy.asarray(getattr(view.copy("C"), name)(axis=axis))
        assert numpy.asarray(found[0]).tobytes() == packed.tobytes()
