"""Assignments between rows of one array at different strides, in which NumPy reads elements that it wrote."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse.numpy as np

N = 40_000
HALF = slice(N // 4, N // 4 + N // 2)
ROWS = [(HALF, slice(0, N, 2)), (slice(0, N, 2), HALF), (slice(0, N, 2), slice(0, N // 2)),
        (slice(None, None, -2), slice(N // 2, 0, -1)), (slice(0, N // 2), slice(0, N, 2)),
        (slice(0, N // 2), slice(N - 1, N // 2 - 1, -1)), (slice(0, N, 2), slice(1, N, 2))]


def item(x: Any, library: Any, to: slice, source: slice) -> None:
    x[to] = x[source]


def through_views(x: Any, library: Any, to: slice, source: slice) -> None:
    row, other = x[to], x[source]
    row[...] = other


def copied(x: Any, library: Any, to: slice, source: slice) -> None:
    library.copyto(x[to], x[source])


def masked(x: Any, library: Any, to: slice, source: slice) -> None:
    library.copyto(x[to], x[source], where=x[to] % 3 > 0)


@pytest.mark.local_only("the host sees copies of stores, of which NumPy overwrites nothing")
@pytest.mark.parametrize("write", [item, through_views, copied, masked])
def test_large_arrays_get_what_numpy_writes(write: Any) -> None:
    for to, source in ROWS:
        x, wanted = np.arange(N) * 1, numpy.arange(N)
        for _ in range(2):
            write(x, np, to, source)
            write(wanted, numpy, to, source)
        numpy.testing.assert_array_equal(x, wanted)
