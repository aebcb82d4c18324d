"""Operators on large arrays at hand: which write into an operand that is a temporary, and which must not."""

from __future__ import annotations

import functools
import itertools
import operator
import platform
import sys
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.ops.moving import TURNS
from diffuse.numpy.small import native
from diffuse.observe import trace

pytestmark = pytest.mark.local_only("nothing is at hand elsewhere")

SIZE = 40_000
X, Y = numpy.random.default_rng(5).random((2, SIZE)) + 0.5


@pytest.fixture(autouse=True)
def allowance() -> Iterator[None]:
    """Operations are done at once, as after a few waits for short chains (test_soon.py)."""
    if native is not None:
        native.set_allowance(1 << 40)
    yield
    if native is not None:
        native.set_allowance(0)


def peak(run: Callable[[], Any]) -> float:
    """The most memory that a call takes, in arrays."""
    tracemalloc.start()
    run()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / (8 * SIZE)


def right(x: Any, y: Any) -> Any:
    return x + y * 2.0


def left(x: Any, y: Any) -> Any:
    return (x * y - 3) / x


def product(x: Any, y: Any) -> Any:
    return x * y + y


def several(x: Any, y: Any) -> Any:
    return (x - y) * (x + y) + (x * 1.5)


@pytest.mark.skipif(native is None or platform.libc_ver()[0] != "glibc" or sys.version_info >= (3, 14),
                    reason="the extension finds out by glibc who the caller is")
@pytest.mark.parametrize("run, arrays, times", [(right, 1, 2), (left, 1, 3), (several, 2, 5)])
def test_results_take_the_memory_of_temporaries(run: Any, arrays: int, times: int) -> None:
    x, y = np.array(X), np.array(Y)
    before = trace.counters["single"]
    run(x, y)
    assert trace.counters["single"] - before == times
    assert peak(lambda: run(x, y)) < arrays + 0.5
    assert numpy.array_equal(run(x, y), run(X, Y))
    assert numpy.array_equal(x, X) and numpy.array_equal(y, Y)


@pytest.mark.skipif(native is None or platform.libc_ver()[0] != "glibc" or sys.version_info >= (3, 14),
                    reason="the extension finds out by glibc who the caller is")
def test_results_on_views_that_move_take_the_memory_of_temporaries() -> None:
    assert native is not None
    native.set_allowance(0)  # else these are done at once for another reason
    x, y = np.array(X), np.array(Y)
    for k in range(3 * TURNS):
        assert numpy.array_equal(product(x[k:], y[k:]), product(X[k:], Y[k:]))
    before = trace.counters["moving"]
    most = peak(lambda: product(x[k + 1:], y[k + 1:]))
    assert trace.counters["moving"] - before in (1, 2)  # one may be done at once otherwise
    assert most < 1.5
    assert numpy.array_equal(x, X) and numpy.array_equal(y, Y)


def test_what_somebody_holds_keeps_its_value() -> None:
    x, y = np.array(X), np.array(Y)
    holder: list[Any] = [None]

    def told(made: Any) -> Any:
        holder[0] = weakref.ref(made)
        return made

    for _ in range(4):
        arguments = (x * 2.0, y)
        assert numpy.array_equal(operator.add(*arguments), X * 2.0 + Y)
        assert numpy.array_equal(arguments[0], X * 2.0)
        items = [x * 2.0, y * 3.0]
        assert numpy.array_equal(items[0] + items[1], X * 2.0 + Y * 3.0)
        assert numpy.array_equal(items[0], X * 2.0) and numpy.array_equal(items[1], Y * 3.0)
        assert numpy.array_equal(functools.reduce(operator.mul, items), X * 2.0 * (Y * 3.0))
        sums = list(itertools.accumulate([x * 1.0, y * 1.0, x * 4.0]))
        assert numpy.array_equal(sums[1], X + Y) and numpy.array_equal(sums[0], X)
        assert numpy.array_equal(sum([x * 1.0, y * 1.0]), X + Y)
        mapped = list(map(operator.add, items, [1.0, 2.0]))
        assert numpy.array_equal(mapped[0], X * 2.0 + 1.0) and numpy.array_equal(items[0], X * 2.0)
        view = (x * 2.0)[1:]
        assert numpy.array_equal(view + view, (X * 4.0)[1:]) and numpy.array_equal(view, (X * 2.0)[1:])
        shown = numpy.asarray(x * 2.0)
        assert numpy.array_equal(shown + 1.0, X * 2.0 + 1.0) and numpy.array_equal(shown, X * 2.0)
        assert numpy.array_equal(told(x * 2.0) + y, X * 2.0 + Y)
        assert numpy.array_equal((x * 2.0) + (x * 2.0)[::-1], X * 2.0 + (X * 2.0)[::-1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("other", [numpy.float64(2.5), numpy.float32(2.5), 7, 2.5, True, 1j, Y[:, None][:3],
                                   Y.astype("f4"), numpy.arange(SIZE), Y > 1.0, Y[None], Y[:1]])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c8", "i8"])
def test_results_have_numpys_type_and_shape(other: Any, dtype: str) -> None:
    plain = (X * 100).astype(dtype)
    x = np.array(plain)
    theirs = np.array(other) if isinstance(other, numpy.ndarray) else other
    for apply in (operator.add, operator.sub, operator.mul, operator.truediv):
        found = [apply(x + x, theirs), apply(theirs, x + x), (x + x) * theirs, theirs + (x + x)]
        sums = plain + plain
        for one, expected in zip(found, [apply(sums, other), apply(other, sums), sums * other, other + sums],
                                 strict=True):
            assert one.dtype == expected.dtype and one.shape == expected.shape
            assert numpy.array_equal(one, expected, equal_nan=True)
