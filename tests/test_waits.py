"""Short chains that the program waits for: NumPy and SciPy do them at once, with the bits of the tasks."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import scipy.sparse

import diffuse.numpy as np
import diffuse.scipy.sparse as sparse
from diffuse.library import fence
from diffuse.observe import trace
from diffuse.settings import using

ROWS = 40_000
LINE = scipy.sparse.diags([-numpy.ones(ROWS - 1), numpy.full(ROWS, 2.5), -numpy.ones(ROWS - 1)], [-1, 0, 1])

pytestmark = pytest.mark.local_only("every rank records the same, whatever is at hand there")


def solved(turns: int, counts: list[int]) -> Any:
    """Conjugate gradients, written out; `counts` gets the tasks recorded in each turn."""
    matrix = sparse.csr_array(LINE.tocsr())
    x, r = np.zeros(ROWS), np.array(numpy.cos(numpy.arange(ROWS)))
    p, square = r.copy(), float(r @ r)
    fence()
    for _ in range(turns):
        before = trace.snapshot()["recorded"]
        q = matrix @ p
        step = square / float(p @ q)
        x += step * p
        r -= step * q
        square, last = float(r @ r), square
        p = r + square / last * p
        counts.append(trace.snapshot()["recorded"] - before)
    return x


def test_conjugate_gradients_of_a_small_matrix_are_done_at_once_with_the_same_bits() -> None:
    counts: list[int] = []
    found = solved(40, counts)
    assert counts[0] == 9 and counts[-1] == 0
    with using(small=0):
        recorded: list[int] = []
        expected = solved(40, recorded)
        assert recorded == [9] * 40
        assert numpy.array_equal(numpy.asarray(found), numpy.asarray(expected))


def test_a_product_that_a_task_uses_stays_a_task() -> None:
    """Between two waits there is too much work for NumPy to do it at once."""
    matrix = sparse.csr_array(LINE.tocsr())
    x = np.array(numpy.cos(numpy.arange(ROWS)))

    def turn(x: Any) -> float:
        for _ in range(20):
            x = (matrix @ x) * 0.25 + x
        return float(x.sum())

    turn(x)
    before = trace.snapshot()["recorded"]
    turn(x)
    assert trace.snapshot()["recorded"] - before == 61
