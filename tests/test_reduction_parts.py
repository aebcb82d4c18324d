"""Reductions in parts: which subtrees of the tree lie within runs of leaves, and which nodes combine them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diffuse.ir.loops import roots
from diffuse.kernels.meaning.reduce import combine, combine_indexed, join, subtrees

RUNS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 33, 64, 100)


def parts(operator: str, values: Any, indices: Any, run: int) -> None:
    for low in range(0, len(values), run):
        subtrees(operator, values, indices, low, min(low + run, len(values)))
    join(operator, values, indices, run)


@pytest.mark.parametrize("run", RUNS)
def test_the_parts_are_the_whole_tree(run: int) -> None:
    random = np.random.default_rng(run)
    for count in range(1, 70):
        values = random.standard_normal((count, 2))
        found = values.copy()
        parts("sum", found, None, run)
        assert found[0].tobytes() == combine("sum", values).tobytes()
        values, places = np.floor(values), np.arange(count)[:, None] * np.ones(2, int)
        found, first = values.copy(), places.copy()
        parts("argmin", found, first, run)
        assert (first[0] == combine_indexed("argmin", values, places)).all()


@pytest.mark.parametrize("run", RUNS)
def test_the_rest_of_the_tree_reads_the_roots_alone(run: int) -> None:
    for count in range(1, 70):
        values = np.random.default_rng(count).standard_normal((count, 2))
        left, kept = values.copy(), np.full_like(values, np.nan)
        for low in range(0, count, run):
            high = min(low + run, count)
            subtrees("sum", left, None, low, high)
            here = roots(low, high, count)
            assert len(here) <= 2 * run.bit_length() and here[0] == low
            kept[here] = left[here]
        join("sum", kept, None, run)
        assert kept[0].tobytes() == combine("sum", values).tobytes()
