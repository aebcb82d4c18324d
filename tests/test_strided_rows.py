"""Sums, differences and products of small arrays in short rows or with gaps between elements."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy

import diffuse.numpy as np
from tests.each import for_each

SPECIAL = numpy.array([0.0, -0.0, 1.5, -3.25, numpy.inf, -numpy.inf, numpy.nan, 1e308, 5e-324, 2.0**-1022])
SHAPES = (40, 1), (40, 2), (20, 9, 3), (9, 11, 4), (7, 8, 5), (12, 37), (200,)


def pairs(m: Any, values: Any) -> list[tuple[Any, Any]]:
    """Operands of one shape in many layouts."""
    whole = m.array(values)
    a, b = whole[0, ..., -1], whole[1, ..., 0]
    return [(a, b), (b, m.ascontiguousarray(a)), (m.ascontiguousarray(a), b), (a, b[..., :1]), (a, 2.5),
            (-0.0, b), (a[::-1], b), (a[1:], b[:-1])]


@for_each("function", [lambda m, x, y: x + y, lambda m, x, y: x - y, lambda m, x, y: x * y,
                       lambda m, x, y: m.subtract(x, y)])
@for_each("special", [False, True])
def test_rows_of_any_length_and_step(function: Callable[[Any, Any, Any], Any], special: bool) -> None:
    pick = numpy.random.default_rng(3)
    for shape in SHAPES:
        for step in (1, 2, 3):
            size = 2, *shape, step
            values = pick.choice(SPECIAL, size) if special else pick.random(size) - 0.5
            with numpy.errstate(all="ignore"), np.errstate(all="ignore"):
                expected = [function(numpy, x, y) for x, y in pairs(numpy, values)]
                found = [numpy.asarray(function(np, x, y)) for x, y in pairs(np, values)]
            for x, y in zip(found, expected, strict=True):
                assert numpy.array_equal(x, y, equal_nan=True)
                number = ~numpy.isnan(y)
                assert numpy.array_equal(numpy.signbit(x[number]), numpy.signbit(y[number]))


def test_warnings_come_as_numpys() -> None:
    whole = numpy.full((40, 3, 2), 1e308)
    for function in (operator.add, operator.mul):
        told = []
        for x in (whole, np.array(whole)):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                function(x[..., 0], x[..., 1])
            told.append([str(warning.message) for warning in found])
        assert told[0] == told[1] and len(told[0]) == 1


@for_each("special", [False, True])
def test_rows_in_place(special: bool) -> None:
    pick = numpy.random.default_rng(5)
    for shape in SHAPES:
        for step in (1, 2, 3):
            size = 2, *shape, step
            values = pick.choice(SPECIAL, size) if special else pick.random(size) - 0.5
            made = []
            for m in (numpy, np):
                library: Any = m
                with library.errstate(all="ignore"):
                    x = library.array(values)
                    x[0, ..., 0] += x[1, ..., -1]
                    x[0, ..., :1] *= x[1, ..., :1]
                    x[1, :, ..., -1] -= x[1, :, ..., 0]
                    x[0] -= x[1] * 2.0
                    x[1][1:] += x[0][:-1]
                    x[0][1:] += x[0][:-1]
                made.append(numpy.asarray(x))
            assert numpy.array_equal(made[0], made[1], equal_nan=True)
