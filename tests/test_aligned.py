"""The memory of NumPy's arrays: aligned to cache lines, kept for the next arrays of its size, not shared."""

from __future__ import annotations

import contextvars
import random
import threading
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.small import native
from tests.outcomes import run_all

pytestmark = pytest.mark.skipif(native is None, reason="Python's code leaves NumPy's memory to NumPy")
SIZES = (1, 100, 1023, 1024, 1025, 1152, 1153, 5000, 65_536, 262_144, 262_145, 1_000_000)
"""Bytes around those from which on arrays are aligned, and up to which their memory is kept."""


def address(x: Any) -> int:
    found: int = x.__array_interface__["data"][0]
    return found


@pytest.mark.parametrize("count", [128, 130, 1000, 5001, 16_383, 45_000])
def test_results_begin_at_a_cache_line(count: int) -> None:
    """But for zeros of more than 256 KB, whose pages the system clears when they are touched."""
    x, y = numpy.arange(float(count)), np.arange(float(count))
    made = [x + 1.0, numpy.sqrt(x), x[::2].copy(), numpy.zeros(min(count, 1 << 15)), x.astype(complex)]
    ours = [y * 2.0 + y, np.sqrt(y), np.empty(count), np.ones(count)]
    large = [one for one in made if one.nbytes >= 1024] + [numpy.asarray(one) for one in ours]
    assert [address(one) % 64 for one in large] == [0] * len(large)


def test_live_arrays_keep_their_elements() -> None:
    """Arrays are made, resized and dropped in random order, in larger numbers than are kept."""
    draws = random.Random(1)
    live: list[tuple[Any, int]] = []
    for turn in range(3000):
        size, mark, way = draws.choice(SIZES), turn % 251 + 1, draws.randrange(4)
        if way == 0:
            x = numpy.zeros(size, numpy.uint8)
            assert not x.any()
            x[:] = mark
        elif way == 1 and live:
            x, mark = live.pop(draws.randrange(len(live)))
            shared = min(size, x.size)
            x.resize(size, refcheck=False)
            assert (x[:shared] == mark).all() and not x[shared:].any()
            x[:] = mark
        else:
            x = numpy.full(size, mark, numpy.uint8)
        live.append((x, mark))
        del x
        if len(live) > 100 or draws.random() < 0.02:
            draws.shuffle(live)
            for array, value in live[40:]:
                assert (array == value).all()
            del live[40:]
            array = None


def test_arrays_that_grow_while_they_are_read() -> None:
    """NumPy gives back what it does not need of the memory that it has guessed; other arrays may take it."""
    for count in (100, 129, 1000, 20_000, 40_000):
        found = numpy.fromiter((k * 3 for k in range(count)), numpy.int64)
        others = [numpy.full(count, 7) for _ in range(4)]
        assert (found == numpy.arange(count) * 3).all() and all((one == 7).all() for one in others)
        shorter = found[: count // 2].copy()
        del found, others
        assert (shorter == numpy.arange(count // 2) * 3).all()


@pytest.mark.parametrize("count", [1000, 5001, 16_383])
def test_memory_of_arrays_that_grew_is_none_of_new_arrays(count: int) -> None:
    """It was moved by realloc, which does not align it."""
    grown = [numpy.zeros(3) for _ in range(40)]
    for one in grown:
        one.resize(count, refcheck=False)
    assert any([address(one) % 64 for one in grown])
    del one, grown
    assert not any([address(numpy.empty(count)) % 64 for _ in range(40)])
    assert not any([address(one) % 64 for one in [numpy.empty(count) for _ in range(40)]])


def test_memory_of_dropped_arrays_is_bounded() -> None:
    """Of arrays of many sizes a few megabytes are kept."""
    import resource

    arrays = [numpy.ones(20_000 + 100 * k) for k in range(100)]
    del arrays
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for turn in range(200):
        arrays = [numpy.ones(2_000 + 150 * k + turn) for k in range(100)]
        del arrays
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16_000


def test_threads_in_the_context_of_the_program_do_not_share_memory() -> None:
    wrong: list[float] = []

    def work(value: float) -> None:
        for _ in range(200):
            x, y = numpy.full(5000, value), numpy.full(5000, value + 0.5)
            if (x + y != 2 * value + 0.5).any():
                wrong.append(value)

    context = contextvars.copy_context()
    threads = [threading.Thread(target=context.copy().run, args=(work, float(k))) for k in range(4)]
    run_all(threads)
    assert not wrong
