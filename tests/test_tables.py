"""Tests do not depend on what the caches of the process keep from other tests (tables.py)."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.bounded import sweeps
from diffuse.numpy.ops import single
from diffuse.observe import trace
from diffuse.stream import engine
from tests import tables
from tests.each import for_each, fresh

pytestmark = pytest.mark.local_only("operations run where their data is")

NUMBERS = len(tables.bounded())
"""The number of tables of these modules; others may be imported later."""


def recorded() -> list[int]:
    """How many tasks each of some turns records that wait for one operation on a transposed array."""
    x: Any = np.array(numpy.ones((210, 190)))
    found = []
    with settings.using(compile="wait"):
        for _ in range(2 * single.OFTEN):
            before = trace.counters["recorded"]
            np.sin(x.T)
            engine.fence()
            found.append(trace.counters["recorded"] - before)
    return found


@for_each("number", range(NUMBERS))
def test_a_table_that_was_full_in_one_test_changes_nothing_in_the_next(number: int) -> None:
    fresh()
    recorded()
    tables.bounded()[number].clear()
    sweeps.begin()
    tables.make_room()
    fresh()
    assert recorded() == [1] * single.OFTEN + [0] * single.OFTEN
