"""Groups that are launched while the program records on (stream/early.py)."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.observe import trace
from diffuse.stream import engine


def launched() -> int:
    return trace.snapshot().get("launched", 0)


def turn(x: Any, keep: bool) -> tuple[Any, int]:
    """A heavy reduction, then a few tasks that depend on it; returns also what was launched before the end.
    If its operand is to be kept, it lives until then."""
    twice = x * 2 + 1
    total = twice.sum()
    if not keep:
        del twice
    before = launched()
    y = x * total
    for _ in range(20):
        y = y + 1
    early = launched() - before
    return y, early


@pytest.mark.not_legate("ranks would have to decide alike")
@pytest.mark.not_device("no group is launched early")
def test_a_heavy_group_is_launched_early_once_its_stores_are_those_of_the_last_one() -> None:
    plain = numpy.arange(1_000_000.0)
    engine.fence()
    with settings.using(compile="wait", small=0):
        x = np.array(plain)
        found = []
        for keep in (False, False, False, True, True, False):
            y, early = turn(x, keep)
            found.append(early)
            assert y[5] == 5 * (2 * 499999500000.0 + 1_000_000) + 20
    assert found[0] == 0 and found[1] == found[2] == 1
    assert found[3] == 0
