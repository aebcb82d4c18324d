"""Writes through many indices: in groups, packed, and by bisection of ascending ones, compiled or not."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse.kernels.llvm import scatter
from diffuse.numpy.arrays import indices
from diffuse.numpy.arrays.scatter import MANY
from diffuse.observe import trace
from diffuse.settings import using
from tests.around import around
from tests.outcomes import warned
from tests.test_fuzz_stream import stream

MODES = "wait", "off"
SIZES = 1, 7, scatter.SOME, scatter.SOME + 1, 3 * scatter.SOME - 1, 13 * scatter.SOME + 5


several = around(stream, 3, small=0, min_chunk=4)
"""Small arrays are recorded and shared by several points."""


def agree(write: Any, x: Any, *others: Any) -> None:
    """Check that a write to our array does what it does to NumPy's."""
    ours = np.array(x)
    write(np, ours, *[np.array(other) if isinstance(other, numpy.ndarray) else other for other in others])
    write(numpy, x, *others)
    assert numpy.asarray(ours).tobytes() == x.tobytes()


def assign(m: Any, x: Any, i: Any, v: Any) -> None:
    x[i] = v


def add(m: Any, x: Any, i: Any, v: Any) -> None:
    m.add.at(x, i, v)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", SIZES)
def test_writes_in_any_order(mode: str, count: int) -> None:
    rng = numpy.random.default_rng(count)
    extent = max(3, count)
    ties = rng.integers(0, extent, count)
    for chosen in (ties, numpy.sort(ties), numpy.sort(ties)[::-1].copy(), ties * 0 + extent - 1, ties // 3,
                   numpy.concatenate([numpy.sort(ties)[1:], ties[:1] * 0]), numpy.sort(ties) - extent // 2,
                   numpy.arange(count)):
        for values in (rng.standard_normal(count), 2.5, rng.integers(0, 9, count).astype("int32")):
            with using(compile=mode):
                agree(assign, numpy.zeros(extent), chosen, values)
                agree(add, numpy.ones(extent), chosen, values)
                agree(assign, numpy.zeros((extent, 2)).T[1], chosen, values)


@pytest.mark.local_only("what is known of arrays decides how the host's tasks run")
def test_indices_are_known_to_ascend_until_they_change() -> None:
    i = np.arange(5000)
    diffuse.fence()
    assert indices.ascending(i)
    i[2000] = 3
    diffuse.fence()
    assert not indices.ascending(i)
    x = np.zeros(5000)
    x[i] = np.arange(5000.0)
    assert float(x[3]) == 2000.0 and float(x[2000]) == 0.0
    assert not indices.ascending(np.array([-1, 0, 1]))  # the last element comes first
    assert indices.ascending(np.array([0, 0, 1, 1]))
    assert not indices.ascending(np.array([[0, 1], [2, 3]]))


@pytest.mark.local_only("other runtimes let NumPy write")
def test_many_indices_into_a_short_array_are_a_task() -> None:
    rng = numpy.random.default_rng(5)
    i, v = rng.integers(-1000, 1000, MANY), rng.standard_normal(MANY)
    with using(small=16384, compile="wait"):
        table = np.array(numpy.arange(1000.0))
        places, values = np.array(i), np.array(v)
        diffuse.fence()
        before = trace.counters["recorded"]
        np.add.at(table, places, values)
        np.maximum.at(table, places, 0.5)
        table[places[:MANY // 2]] = values[MANY // 2:]
        assert trace.counters["recorded"] >= before + 3
    expected = numpy.arange(1000.0)
    numpy.add.at(expected, i, v)
    numpy.maximum.at(expected, i, 0.5)
    expected[i[:MANY // 2]] = v[MANY // 2:]
    assert numpy.asarray(table).tobytes() == expected.tobytes()


@pytest.mark.local_only("what is known of arrays decides how the host's tasks run")
def test_positions_of_a_mask_ascend_without_a_look_at_them() -> None:
    mask = np.array(numpy.random.default_rng(0).random(300_000) > 0.5)
    found = np.flatnonzero(mask)
    assert indices._ascending[indices.name(found)]


@pytest.mark.local_only("other runtimes let NumPy write")
@pytest.mark.parametrize("compile", MODES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_extremes_of_nan_at_indices_are_invalid_where_numpy_says_so(compile: str, dtype: str) -> None:
    def reported(m: Any, ufunc: str, rank: int, nan: str) -> list[str]:
        i, v = m.arange(300) % 150, m.ones(300, dtype)
        x = m.zeros((300, 2)[:rank or 1], dtype)
        x[1], v[2] = math.nan if "x" in nan else 0, math.nan if "v" in nan else 1
        if rank == 0:  # indices and values with rows
            i, v = i.reshape(3, 100), v.reshape(3, 100)
        with warned() as found:
            getattr(m, ufunc).at(x, (i, i % 2) if rank == 2 else i, v)
            assert float(x.reshape(-1)[0]) in (0, 1)
        return [str(each.message) for each in found]

    with using(small=0, compile=compile):
        for ufunc, rank, nan in itertools.product(("maximum", "minimum"), (0, 1, 2), ("", "x", "v", "xv")):
            expected = reported(numpy, ufunc, rank, nan)
            assert reported(np, ufunc, rank, nan) == expected, (ufunc, rank, nan)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("points", [8, 16])
def test_points_beyond_the_last_tile_write_no_rows(mode: str, points: int) -> None:
    chosen = numpy.array([0, 0, 3, -1])
    with stream(points, small=0, min_chunk=2, compile=mode):  # there are 6 tiles, or 12
        for write in add, assign:
            agree(write, numpy.arange(156.0).reshape(12, 13), chosen, numpy.arange(13.0))
