"""Products of many floats that become zero on the way: NumPy's bits, errors and warnings."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse.numpy.ops import vanishing

COUNT = vanishing.MANY + 1001


def vector(dtype: str) -> numpy.ndarray[Any, Any]:
    return (numpy.random.default_rng(1).random(COUNT) + 0.1).astype(dtype)


def same(x: numpy.ndarray[Any, Any], shortened: bool) -> None:
    """Compare the product, its warnings, and whether it was found without multiplying all elements."""
    ours = np.array(x)
    diffuse.fence()
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        product = numpy.prod(x)
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        found = np.prod(ours)
    assert type(found) is type(product) and found.tobytes() == product.tobytes()
    assert [str(w.message) for w in met] == [str(w.message) for w in expected]
    with numpy.errstate(all="ignore"):
        assert (vanishing.product(x) is not None) == shortened


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sign_of_zero(dtype: str) -> None:
    x = vector(dtype)
    same(x, True)
    for place in 0, 100, COUNT // 2, COUNT - 1:
        x[place] = -x[place]
        same(x, True)
    x[COUNT - 2] = -0.0
    same(x, True)
    x[::3] *= -1
    same(x, True)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("number", [numpy.inf, -numpy.inf, numpy.nan])
def test_what_is_not_finite(dtype: str, number: float) -> None:
    for place in 0, 100, COUNT // 2, COUNT - 1:
        x = vector(dtype)
        x[place] = number
        same(x, False)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_products_that_do_not_vanish(dtype: str) -> None:
    x = numpy.ones(COUNT, dtype)
    same(x, False)
    same(x * 2, False)
    x[-1] = 0.0
    same(x, False)
    same(1 / vector(dtype), False)


def test_zero_late_among_the_first_elements() -> None:
    x = numpy.ones(COUNT)
    x[vanishing.MOST - 1] = 0.0
    same(x, True)
    x[3] = -1.0
    same(x, True)


def test_warnings_are_those_of_the_whole_product() -> None:
    x = vector("float64")
    x[:10] = 1e200
    same(x, False)          # overflows before it could vanish
    with numpy.errstate(under="warn"), np.errstate(under="warn"):
        same(vector("float64"), True)
    with np.errstate(under="raise"), pytest.raises(FloatingPointError, match="underflow"):
        np.prod(np.array(vector("float64")))


@pytest.mark.parametrize("layout", ["rows", "columns", "reversed", "gaps"])
def test_other_layouts_are_numpys(layout: str) -> None:
    views: dict[str, Any] = {
        "rows": lambda x: x.reshape(1000, -1), "columns": lambda x: x.reshape(1000, -1).T,
        "reversed": lambda x: x[::-1], "gaps": lambda x: x[::2]}
    x = numpy.random.default_rng(2).random(2 * vanishing.MANY // 1000 * 1000)
    found, expected = np.prod(views[layout](np.array(x))), numpy.prod(views[layout](x))
    assert numpy.asarray(found).tobytes() == expected.tobytes()
