"""Operators on arrays broadcast along short rows give what NumPy gives, its errors and warnings, too;
sums of short rows have the bits of the tree."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse.library import small_folds
from tests.each import for_each
from tests.outcomes import warned

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv]
SHAPES = [((9000, 1, 2), (1, 8, 2)), ((9000, 1, 2), (8, 2)), ((200, 150, 1), (3,)),
          ((200, 150, 1), (1, 150, 5)), ((1, 9000, 3), (6, 1, 3)), ((9000, 2), (8, 1, 2)),
          ((200, 30, 1, 3), (200, 1, 20, 1)), ((30000, 1), (1, 4)), ((9000, 8, 2), (9000, 8, 2)),
          ((9000, 8, 1), (8, 2))]


def pair(shape: tuple[int, ...], dtype: str, seed: int) -> tuple[Any, Any]:
    """Return an array of random numbers of NumPy's, and a Diffuse array of the same numbers, none pending."""
    plain = (numpy.random.default_rng(seed).standard_normal(shape) * 5.0).astype(dtype)
    return plain, np.array(plain)


@pytest.mark.parametrize("types", ["dd", "ff", "fd", "il", "?l", "??", "bd", "DD", "dD", "ee"])
@for_each("shapes", SHAPES)
def test_results_and_layouts_are_numpys(types: str, shapes: Any) -> None:
    (x, a), (y, b) = pair(shapes[0], types[0], 0), pair(shapes[1], types[1], 1)
    for apply in OPERATORS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                want = apply(x, y)
            except TypeError as error:
                with pytest.raises(TypeError) as found:
                    apply(a, b)
                assert str(found.value) == str(error)
                continue
            for ours in (apply(a, b), apply(a, y), apply(x, b)):
                got = diffuse.to_numpy(ours)
                assert (got.dtype, got.shape, ours.strides) == (want.dtype, want.shape, want.strides)
                assert got.tobytes() == want.tobytes()


def test_other_orders_of_memory() -> None:
    x, a = pair((9000, 2), "d", 1)
    y, b = pair((2, 8), "d", 2)
    back = slice(None, None, -1)
    for rows in ((slice(None), None), (back, None), (slice(None), None, back)):
        one, ours = x[rows], a[rows]
        for other, its in ((y.T[None], b.T[None]), (y.T.copy()[None, ::2], b.T.copy()[None, ::2])):
            want, got = one - other, ours - its
            assert diffuse.to_numpy(got).tobytes() == want.tobytes() and got.strides == want.strides
            want, got = one.T - other.T, ours.T - its.T
            assert diffuse.to_numpy(got).tobytes() == want.tobytes() and got.strides == want.strides


@pytest.mark.not_device("there are no floating-point flags")
def test_one_warning_and_one_error() -> None:
    x, a = pair((9000, 1, 3), "d", 3)
    x[:], a[:] = 1e308, 1e308
    y, b = numpy.full((8, 3), 1e308), np.full((8, 3), 1e308)
    found = []
    for one, other in ((x, y), (a, b)):
        with warned() as said:
            diffuse.to_numpy(one + other)
        found.append([str(each.message) for each in said])
    assert found[0] == found[1] == ["overflow encountered in add"]
    with pytest.raises(ValueError, match="broadcast"):
        a + np.ones((8, 4))
    with numpy.errstate(over="raise"), pytest.raises(FloatingPointError):
        a + b


@for_each("dtype", ["float64", "float32"])
@for_each("count", range(1, 10))
def test_sums_of_short_rows_have_the_bits_of_the_tree(dtype: str, count: int) -> None:
    pick = numpy.random.default_rng(count)
    spread = pick.standard_normal((20_000, count)) * 10.0 ** pick.integers(-8, 8, (20_000, count))
    special = pick.choice([numpy.inf, -numpy.inf, numpy.nan, 1.0, -0.0], spread.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for values in (spread, numpy.where(spread > 0, 0.0, -0.0), special):
            values = values.astype(dtype)
            tree = small_folds.interpreted("sum", values, (1,), dtype).tobytes()
            at_hand, pending = np.array(values), np.array(values) * 1
            for found in (pending.sum(axis=1), at_hand.sum(axis=1), np.sum(at_hand, axis=-1, keepdims=True),
                          at_hand.sum(-1, dtype=dtype), at_hand.copy("F").sum(1)):
                assert diffuse.to_numpy(found).tobytes() == tree


def test_sums_of_short_rows_warn_as_numpy_does() -> None:
    values = np.full((20_000, 3), 1e308)
    with pytest.warns(RuntimeWarning, match="overflow encountered in reduce"):
        values.sum(axis=1)
