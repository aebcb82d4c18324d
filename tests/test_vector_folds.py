"""Sums, dot products and norms of vectors at hand, which the extension computes by laid-out machine code."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse.kernels.build import small_folds
from diffuse.kernels.build.compiler import compiler
from diffuse.numpy.ops import at_once
from diffuse.numpy.small import native
from diffuse.observe import trace
from diffuse.settings import using
from tests.around import around
from tests.outcomes import warned

pytestmark = pytest.mark.not_device("sums of vectors are recorded, or NumPy's")
SIZES = [16_384, 16_385, 20_000, 33_333, 65_536, 100_000, 212_000, 700_000]


at_hand = around(using, small=16_384)


def vectors(size: int, dtype: str) -> tuple[Any, Any]:
    pick = numpy.random.default_rng(size)
    return (pick.random(size) - 0.3).astype(dtype), (pick.random(size) - 0.3).astype(dtype)


def warm(call: Any) -> Any:
    """The result of a call whose machine code is there."""
    for _ in range(3):
        call()
    diffuse.fence()
    compiler.wait()
    return call()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("size", SIZES)
def test_they_follow_the_tree(size: int, dtype: str) -> None:
    one, other = vectors(size, dtype)
    x, y = np.array(one), np.array(other)
    total = small_folds.interpreted("sum", one, (0,), dtype)
    product = small_folds.interpreted("sum", one * other, (0,), dtype)
    length = numpy.sqrt(small_folds.interpreted("sum", one * one, (0,), dtype))
    for _ in range(2):
        for call, expected in ((lambda: x.sum(), total), (lambda: np.sum(x), total), (lambda: x @ y, product),
                               (lambda: np.linalg.norm(x), length)):
            found = warm(call)
            assert type(found) is type(expected[()]) and found.tobytes() == expected.tobytes()
    z = x + 0
    assert numpy.asarray(z @ y).tobytes() == product.tobytes()  # recorded


@pytest.mark.skipif(native is None, reason="the extension is not there")
def test_the_extension_does_them() -> None:
    x, y = (np.array(v) for v in vectors(50_000, "float64"))
    assert warm(lambda: native.dot(x, y)) == x @ y
    for one, other in ((x[::2], y[::2]), (x, y[1:]), (x.astype("float32"), y), (x[:100], y[:100]), (x, 1.0),
                       (x.reshape(500, 100), y.reshape(500, 100)), (x.astype(int), y.astype(int))):
        assert native.dot(one, other) is None
    with np.errstate(all="raise"):
        assert native.dot(x, y) is None
    with pytest.raises(TypeError):
        native.dot(x)


def test_layouts_take_their_own_way() -> None:
    one, other = vectors(100_000, "float64")
    x, y = np.array(one), np.array(other)
    odd = np.zeros(400_009, "uint8")[1:400_001].view("float64")  # not aligned
    odd[...] = x[:50_000]
    for _ in range(3):
        compiler.wait()
        assert (x[::2] @ y[::2]) == (np.array(one[::2]) @ np.array(other[::2]))
        assert (x[::-1] @ y) == (np.array(one[::-1].copy()) @ y)
        assert x[::-1].sum() == np.array(one[::-1].copy()).sum()
        assert odd.sum() == x[:50_000].sum() and (odd @ odd) == (x[:50_000] @ x[:50_000])


@pytest.mark.parametrize("bad, warns", [(numpy.inf, False), (numpy.nan, False), (1e308, True)])
def test_results_that_are_not_finite(bad: float, warns: bool) -> None:
    one, _ = vectors(50_000, "float64")
    one[[3, 70]] = bad
    x = np.array(one)
    warm(lambda: np.ones(50_000).sum())
    pairs: list[tuple[Any, Any]] = [(x.sum, one.sum), (lambda: float(x @ x), lambda: one @ one)]
    for ours, theirs in pairs:
        with warned() as said:
            found = float(ours())
        with numpy.errstate(all="ignore"):
            expected = float(theirs())
        assert numpy.array_equal(found, expected, equal_nan=True)
        assert bool(said) >= warns


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_more_real_floats_are_reduced_at_once(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array((numpy.random.default_rng(1).random((700, 1000)) * 9 - 3).astype(dtype))
    assert x[0, 0] == x[0, 0]
    calls = [lambda: x.sum(), lambda: x.mean(), lambda: x.max(), lambda: x.argmin(), lambda: x.std(),
             lambda: x.sum(axis=0), lambda: x.prod(axis=1), lambda: x.all(),
             lambda: x.reshape(-1) @ x.reshape(-1)]
    immediate = [numpy.asarray(warm(call)) for call in calls]
    before = trace.counters["recorded"]
    warm(lambda: (x.sum(), x.max(), x.reshape(-1) @ x.reshape(-1)))
    assert (trace.counters["recorded"] == before) == (dtype != "int64")
    monkeypatch.setattr(at_once, "FLOATS", 1)
    monkeypatch.setattr(at_once, "SHARED", 1)
    for call, expected in zip(calls, immediate, strict=True):
        found = numpy.asarray(warm(call))
        assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


@pytest.mark.skipif(native is None, reason="Python's code has no threads to share a sum with")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_long_vectors_are_added_by_all_threads_without_a_task(dtype: str, monkeypatch: pytest.MonkeyPatch
                                                              ) -> None:
    pick = numpy.random.default_rng(2)
    x, y = (np.array((pick.random(1_200_000) - 0.4).astype(dtype)) for _ in range(2))
    assert x[0] == x[0] and y[0] == y[0]
    calls: list[Any] = [lambda: x.sum(), lambda: np.sum(y), lambda: x @ y, lambda: np.linalg.norm(x)]
    immediate = [numpy.asarray(warm(call)) for call in calls]
    before = trace.counters["recorded"]
    warm(lambda: [call() for call in calls])
    assert trace.counters["recorded"] == before
    monkeypatch.setattr(at_once, "SHARED", 1)
    for call, expected in zip(calls, immediate, strict=True):
        found = numpy.asarray(warm(call))
        assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    assert trace.counters["recorded"] > before
