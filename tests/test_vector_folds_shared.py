"""Sums and dot products at hand that the extension computes together with the runtime's threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse import library
from diffuse.kernels.build import small_folds
from diffuse.kernels.build.compiler import compiler
from diffuse.numpy.arrays import soon
from diffuse.numpy.small import native
from diffuse.settings import using
from tests.around import around
from tests.outcomes import in_child

pytestmark = pytest.mark.skipif(native is None, reason="the extension is not there")
MOST = 50_000
"""Calls until one of them is shared, at most."""


def submitted() -> int:
    found: int = library.current().runtime.mark()
    return found


def shared(call: Callable[[], Any]) -> set[bytes]:
    """The results of many calls, one after another, of which some are shared with other threads."""
    for _ in range(3):
        call()
    compiler.wait()
    diffuse.fence()
    found, begun = set(), submitted()
    for _ in range(MOST):
        found.add(numpy.asarray(call()).tobytes())
        if submitted() > begun:
            return found
    raise AssertionError(f"none of {MOST} calls was shared")


two_threads = around(using, small=16_384, runtime="local", threads=2)


@pytest.mark.parametrize("size", [400_000, 524_288, 700_003])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bits_are_those_of_one_thread(size: int, dtype: str) -> None:
    pick = numpy.random.default_rng(size)
    one, other = ((pick.random(size) - 0.3).astype(dtype) for _ in range(2))
    x, y = np.array(one), np.array(other)
    for call, terms in ((x.sum, one), (lambda: x @ y, one * other), (lambda: x @ x, one * one)):
        assert shared(call) == {small_folds.interpreted("sum", terms, (0,), dtype).tobytes()}


def test_their_errors_are_not_reported_later() -> None:
    x = np.full(400_000, 1e-200)
    assert shared(lambda: x @ x) == {numpy.float64(0.0).tobytes()}
    assert library.current().runtime.flags() == 0


def test_results_that_are_not_finite_are_computed_again() -> None:
    x, y = np.ones(400_000), np.ones(400_000)
    shared(lambda: x @ y)
    x[70_000] = numpy.inf
    for _ in range(50):
        assert x @ y == numpy.inf
    x[70_000] = 1.0
    assert shared(lambda: x @ y) == {numpy.float64(400_000).tobytes()}


def test_long_calls_after_pauses_are_shared() -> None:
    """Each of them gains more than the wake of a thread takes, unless other programs leave no processor."""
    one = numpy.random.default_rng(8).random(6_000_000)
    x = np.array(one)
    for _ in range(3):
        x.sum()
    compiler.wait()
    expected = {small_folds.interpreted("sum", one, (0,), "float64").tobytes()}
    for _ in range(100):
        native.connect_team(soon._team)     # forget what earlier launches gained
        begun = submitted()
        for _ in range(30):
            assert {numpy.asarray(x.sum()).tobytes()} == expected
            time.sleep(0.001)
        if submitted() - begun > 15:
            return
    raise AssertionError("most calls run on one thread")


def test_another_number_of_threads() -> None:
    one = numpy.random.default_rng(5).random(400_000)
    x = np.array(one)
    expected = shared(x.sum)
    for threads in (1, 3):
        with using(threads=threads):
            y = np.array(one)
            assert {numpy.asarray(y.sum()).tobytes() for _ in range(200)} == expected
    with using(runtime="reference"):
        y = np.array(one)
        begun = submitted()
        assert {numpy.asarray(y.sum()).tobytes() for _ in range(200)} == expected
        assert submitted() == begun


def test_a_child_has_them_alone() -> None:
    x = np.array(numpy.random.default_rng(6).random(400_000))
    expected = shared(x.sum)
    assert in_child(lambda: {numpy.asarray(x.sum()).tobytes() for _ in range(500)} == expected)
    assert shared(x.sum) == expected
