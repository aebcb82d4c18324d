"""How kernels access a view depends on the iteration space, so plans are shared only where both agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.stream import engine

pytestmark = pytest.mark.usefixtures("planned_anew")
ROWS = 600
RANDOM = numpy.random.default_rng(5)
COLUMN, PAIRS, WIDE = RANDOM.random(ROWS), RANDOM.random((ROWS, 2)), RANDOM.random((ROWS, 40))


def repeated(xp: Any, width: int) -> tuple[Any, Any]:
    """Multiply the rows of two arrays by the same numbers; kernels read these in a way of their own where
    rows have two or four elements."""
    values = numpy.random.default_rng(width).random((ROWS, width))
    column, pairs, others = xp.array(COLUMN), xp.array(PAIRS), xp.array(values)
    return pairs + column[:, None], others * column[:, None]


def strided(xp: Any, width: int) -> tuple[Any, Any]:
    """Multiply rows and numbers by a column of an array; kernels read columns of two to four in a way of
    their own, but only along the last dimension."""
    values = numpy.random.default_rng(width).random((ROWS, width))
    column, wide, line = xp.array(values)[:, 1], xp.array(WIDE), xp.array(COLUMN)
    return wide * column[:, None], line * column


@pytest.mark.parametrize("program", [repeated, strided])
@pytest.mark.parametrize("widths", [(4, 3, 5, 2), (2, 4, 7, 3)], ids=str)
def test_a_known_view_in_another_space(program: Callable[[Any, int], Any], widths: tuple[int, ...]) -> None:
    for width in widths:
        found = program(np, width)
        engine.flush()
        for ours, theirs in zip(found, program(numpy, width), strict=True):
            assert numpy.array_equal(numpy.asarray(ours), theirs), width
