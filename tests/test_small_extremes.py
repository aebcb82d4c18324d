"""Maxima, minima, square roots and comparisons of small arrays, and operands that go backwards, have NumPy's
bits."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np

BITS = [0, 1 << 63, 0x7FF8000000000000, 0xFFF8000000000001, 0x7FF800000000BEEF, 0x7FF0000000000001,
        0x3FF0000000000000, 0xBFF0000000000000, 0x7FF0000000000000, 0xFFF0000000000000, 1, 0x8000000000000001]
SPECIAL = numpy.array(BITS, numpy.uint64).view(float)
"""Zeros, NaNs with several contents, one of them signalling, infinities and subnormal numbers."""


def same(x: Any, y: Any) -> None:
    """The same elements in the same order in memory."""
    x, y = numpy.asarray(x), numpy.asarray(y)
    assert x.shape == y.shape and x.dtype == y.dtype and x.strides == y.strides
    kind = numpy.uint64 if x.dtype == float else x.dtype
    assert numpy.array_equal(numpy.ascontiguousarray(x).view(kind), numpy.ascontiguousarray(y).view(kind))


def layouts(m: Any, values: Any) -> list[tuple[Any, Any]]:
    """Operands of many layouts, numbers among them."""
    whole = m.array(values)
    a, b = whole[0], whole[1]
    row, column = m.ascontiguousarray(a[:1]), m.ascontiguousarray(a[:, :1])
    return [(a, b), (a[:, 1:], b[:, 1:]), (a[:, ::2], b[:, ::2]), (a, row), (column, b), (a[:, :3], b[:, :3]),
            (a[:, :3], row[:, :3]), (0.0, a), (-0.0, a), (a, 0.0), (a, -0.0), (numpy.nan, a), (a, -numpy.nan),
            (1.0, a[:, 1:]), (a.ravel(), b.ravel()), (a[0, :1], b[0, :1]), (a, b[:, ::-1]), (a[::-1], b),
            (a[::-1], b[::-1]), (a[:, ::-1], row[0]), (a, row[0, ::-1]), (a[:, :4], row[0, 3::-1]),
            (2.0, a[::-1])]


@pytest.mark.parametrize("shape", [(40, 24), (12, 60), (9, 300), (300, 5)])
def test_zeros_and_nans_of_extremes(shape: tuple[int, int]) -> None:
    values = numpy.random.default_rng(7).choice(SPECIAL, (2, *shape))
    for name in ("maximum", "minimum", "fmax", "fmin"):
        expected = [getattr(numpy, name)(x, y) for x, y in layouts(numpy, values)]
        found = [getattr(np, name)(x, y) for x, y in layouts(np, values)]
        for x, y in zip(found, expected, strict=True):
            same(x, y)


@pytest.mark.parametrize("shape", [(40, 24), (12, 60), (9, 300), (300, 5)])
def test_roots(shape: tuple[int, int]) -> None:
    with numpy.errstate(all="ignore"), np.errstate(all="ignore"):
        powers = numpy.linspace(-150, 150, shape[1])
        for values in (numpy.random.default_rng(8).random((2, *shape)) * 10.0**powers,
                       numpy.random.default_rng(9).choice(SPECIAL, (2, *shape))):
            for (x, _), (a, _) in zip(layouts(np, values), layouts(numpy, values), strict=True):
                same(np.sqrt(x), numpy.sqrt(a))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "less", "arctan2", "power"])
def test_operands_that_go_backwards(name: str) -> None:
    for shape in [(40, 24), (12, 60), (300, 5)]:
        values = numpy.random.default_rng(10).random((2, *shape)) + 0.5
        with numpy.errstate(all="ignore"), np.errstate(all="ignore"):
            for (x, y), (a, b) in zip(layouts(np, values), layouts(numpy, values), strict=True):
                same(getattr(np, name)(x, y), getattr(numpy, name)(a, b))


def test_opposites_and_magnitudes_of_rows() -> None:
    for shape in [(40, 24), (12, 60), (300, 5)]:
        values = numpy.random.default_rng(11).choice(SPECIAL, (2, *shape))
        for (x, _), (a, _) in zip(layouts(np, values), layouts(numpy, values), strict=True):
            same(-x, -a)
            same(abs(x), abs(a))


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.eq, operator.ne, operator.gt,
                                     operator.ge])
def test_comparisons_of_rows(compare: Callable[[Any, Any], Any]) -> None:
    pick = numpy.random.default_rng(12)
    for shape in [(40, 24), (12, 60), (300, 5), (9, 300)]:
        for values in (pick.choice(SPECIAL, (2, *shape)), pick.integers(-3, 3, (2, *shape))):
            for (x, y), (a, b) in zip(layouts(np, values), layouts(numpy, values), strict=True):
                same(compare(x, y), compare(a, b))


def test_quotients_of_rows_of_medium_length() -> None:
    for shape in [(40, 32), (12, 60), (9, 255), (40, 31)]:
        values = numpy.random.default_rng(13).choice(SPECIAL, (2, *shape))
        with numpy.errstate(all="ignore"), np.errstate(all="ignore"):
            for (x, y), (a, b) in zip(layouts(np, values), layouts(numpy, values), strict=True):
                same(x / y, a / b)
                same((x + 1.0) / y, (a + 1.0) / b)
                same(x / (y + 1.0), a / (b + 1.0))


def test_warnings_of_quotients_of_rows_are_numpys() -> None:
    told = []
    for m in (numpy, np):
        x = m.array(numpy.linspace(0.0, 1.0, 4000).reshape(40, 100))[:, 3:70]
        y = m.array(numpy.linspace(-1.0, 0.0, 4000).reshape(40, 100))[:, 33:]
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            x[:, :1] / (y[:, :1] + 1.0)
            x / y
            (x + 0.0) / y
            x[-1:] / y[-1:]
        told.append([str(warning.message) for warning in found])
    assert told[0] == told[1] and len(told[0]) == 3


def test_warnings_of_roots_are_numpys() -> None:
    told = []
    for m in (numpy, np):
        x = m.array(numpy.linspace(-1.0, 1.0, 400).reshape(20, 20))
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            m.sqrt(x)
            m.maximum(m.full((20, 20), numpy.nan), 0.0)
            m.full((20, 20), numpy.nan)[:, 1:] < 0.0
        told.append([str(warning.message) for warning in found])
    assert told[0] == told[1] and len(told[0]) == 1


def test_assigned_rows_of_medium_length() -> None:
    for dtype in (bool, "u1", "f4", "i8", "f8", "c16"):
        for n in (8, 9, 17, 31):
            values = numpy.arange(30 * n).reshape(30, n).astype(dtype)
            for value in (1, values, values[0]):
                expected, found = numpy.zeros((40, n + 3), dtype), np.zeros((40, n + 3), dtype)
                expected[5:35, 2:2 + n] = value
                found[5:35, 2:2 + n] = value
                assert numpy.array_equal(numpy.asarray(found), expected)
