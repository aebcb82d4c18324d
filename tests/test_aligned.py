"""The memory of NumPy's arrays begins with a cache line, and is used again for arrays of the same size."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.small import native

pytestmark = pytest.mark.skipif(native is None, reason="the extension says where NumPy's arrays lie")

LINE = 64
SIZES = [1024, 1025, 2000, 10_000, 16_383, 20_000, 100_000, 400_001]


def begins(x: numpy.ndarray[Any, Any]) -> bool:
    """Does the memory of an array begin with a cache line?"""
    return x.ctypes.data % LINE == 0


@pytest.mark.parametrize("size", SIZES)
def test_results_begin_with_a_cache_line(size: int) -> None:
    x = numpy.arange(size, dtype=float)
    for _ in range(3):
        held = [numpy.empty(size), x + 1.0, numpy.sin(x), x.copy(), x[::-1] * 2.0]
        assert all(map(begins, held))
        y = np.array(x)
        assert begins(numpy.asarray(y + 1.0))


@pytest.mark.parametrize("size", SIZES)
def test_zeros_are_zero_in_memory_that_was_used_before(size: int) -> None:
    for _ in range(3):
        used = [numpy.full(size, 7.0) for _ in range(4)]
        del used
        held = [numpy.zeros(size) for _ in range(3)]
        assert not any(x.any() for x in held)
        assert len({x.ctypes.data for x in held}) == 3


def test_arrays_that_are_resized_keep_their_elements() -> None:
    for size in SIZES:
        x = numpy.arange(size)
        x.resize(3 * size, refcheck=False)
        assert (x[:size] == numpy.arange(size)).all() and not x[size:].any()
        x.resize(size // 2, refcheck=False)
        assert (x == numpy.arange(size // 2)).all()


def test_many_arrays_of_many_sizes_do_not_overlap() -> None:
    pick = numpy.random.default_rng(5)
    held: list[tuple[float, numpy.ndarray[Any, Any]]] = []
    for turn in range(2000):
        held.append((float(turn), numpy.full(int(pick.choice(SIZES[:6])), float(turn))))
        if len(held) > 24:
            value, x = held.pop(int(pick.integers(len(held))))
            assert x[0] == value == x[-1] and (x == value).all()


def test_threads_in_the_context_of_the_program_do_not_share_memory() -> None:
    wrong: list[float] = []

    def work(value: float) -> None:
        for _ in range(200):
            x, y = numpy.full(5000, value), numpy.full(5000, value + 0.5)
            if (x + y != 2 * value + 0.5).any():
                wrong.append(value)

    context = contextvars.copy_context()
    threads = [threading.Thread(target=context.copy().run, args=(work, float(k))) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
