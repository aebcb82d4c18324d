"""Sums of small arrays along some of their axes have NumPy's bits, layouts and warnings."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from tests.outcomes import warned

EXTENTS = [1, 1, 2, 3, 4, 6, 7, 8, 9, 12, 33]
DTYPES = ["float64", "float32", "int64", "int32", "bool", "float16", "complex128", ">f8"]


def told(f: Any) -> tuple[Any, ...]:
    """The type, shape, layout, bytes and warnings of a result."""
    with warned() as seen:
        found = numpy.asarray(f())
    strides = [s for s, n in zip(found.strides, found.shape, strict=True) if n > 1]
    return found.dtype, found.shape, strides, found.tobytes(), sorted({str(one.message) for one in seen})


def values(random: numpy.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Elements of many magnitudes, some arrays with zeros, infinities, NaN or numbers that overflow."""
    if dtype in ("int64", "int32", "bool"):
        return random.integers(-2**62, 2**62, shape).astype(dtype)
    x = random.standard_normal(shape) * 10.0**random.integers(-6, 6, shape)
    kind = random.integers(0, 8)
    if kind == 0:
        x = -0.0 * abs(x)
    elif kind < 4:
        x.flat[::17] = (numpy.inf, numpy.nan, 1e308)[kind - 1]
    with numpy.errstate(all="ignore"):
        return x.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_along_axes(dtype: str) -> None:
    random = numpy.random.default_rng(7)
    seen = 0
    while seen < 150:
        shape = tuple(int(n) for n in random.choice(EXTENTS, random.integers(1, 6)))
        if not 128 <= numpy.prod(shape) < 10_000:
            continue
        seen += 1
        plain = values(random, shape, dtype)
        if random.random() < 0.2:
            plain = numpy.asfortranarray(plain)
        ours = np.array(plain)
        if random.random() < 0.2:
            plain, ours = plain[::-1], ours[::-1]
        axes = [int(a) for a in random.permutation(len(shape))[:random.integers(1, len(shape) + 1)]]
        axis: Any = axes[0] - len(shape) if len(axes) == 1 else tuple(axes)
        expected = told(lambda: numpy.sum(plain, axis=axis))
        assert told(lambda: np.sum(ours, axis=axis)) == expected, (shape, axis)
        assert told(lambda: np.sum(ours, axis)) == expected, (shape, axis)
        assert told(lambda: ours.sum(axis=axis)) == expected, (shape, axis)
        assert told(lambda: ours.sum(axis)) == expected, (shape, axis)


@pytest.mark.parametrize("axis", [(), (0, 0), 2, -3, (0, 5), True, 1.0, "0"])
def test_axes_that_are_none(axis: Any) -> None:
    plain = numpy.arange(300.0).reshape(100, 3)
    ours = np.array(plain)
    try:
        expected: Any = told(lambda: numpy.sum(plain, axis=axis))
    except Exception as error:
        with pytest.raises(type(error)) as raised:
            np.sum(ours, axis=axis)
        assert str(raised.value) == str(error)
    else:
        assert told(lambda: np.sum(ours, axis=axis)) == expected


def test_the_result_is_an_array_of_its_own() -> None:
    plain = numpy.arange(600.0).reshape(100, 3, 2)
    ours = np.array(plain)
    total = np.sum(ours, axis=2)
    total[:] = 0.0
    assert numpy.array_equal(numpy.asarray(ours), plain)
