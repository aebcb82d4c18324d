"""How results lie in memory: as NumPy's do, whatever their operands' layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from tests.test_fuzz_numpy import pitches

pytestmark = pytest.mark.usefixtures("threshold")

LAYOUTS: dict[str, Callable[[Any, Any], Any]] = {
    "C": lambda m, x: x,
    "F": lambda m, x: x.copy("F"),
    "transposed": lambda m, x: x.T,
    "permuted": lambda m, x: x.transpose(1, 0, 2),
    "part": lambda m, x: x.copy("F")[::2, :, 1:],
    "reversed": lambda m, x: x[::-1, :, ::-1],
    "matrix": lambda m, x: x[0].copy("F"),
    "repeated": lambda m, x: m.broadcast_to(x[0], (3, 4, 5)),
    "repeated inside": lambda m, x: m.broadcast_to(x[:, :, :1], (3, 4, 5)).swapaxes(0, 1),
}
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "-x": lambda m, x: -x,
    "x + 1": lambda m, x: x + 1,
    "x > 3": lambda m, x: x > 3,
    "where": lambda m, x: m.where(x > 3, x, 0),
    "imag": lambda m, x: x.imag,
    "round": lambda m, x: x.round(),
    "astype": lambda m, x: x.astype("float32"),
    "copy": lambda m, x: x.copy("K"),
    "array": lambda m, x: m.array(x),
    "zeros_like": lambda m, x: m.zeros_like(x),
    "empty_like": lambda m, x: m.empty_like(x, dtype="int16"),
    "sum": lambda m, x: x.sum(axis=0),
    "sum of the last": lambda m, x: x.sum(axis=-1),
    "sum kept": lambda m, x: x.sum(axis=1, keepdims=True),
    "sum of two": lambda m, x: x.sum(axis=(0, 1), keepdims=True),
    "max": lambda m, x: x.max(axis=1),
    "all": lambda m, x: x.all(axis=0),
    "mean": lambda m, x: x.mean(axis=1),
    "var": lambda m, x: x.var(axis=0),
    "ptp": lambda m, x: m.ptp(x, axis=1),
    "argmax": lambda m, x: x.argmax(axis=0),
    "cumsum": lambda m, x: m.cumsum(x, axis=1),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["int64", "float64", "float32"])
def test_a_result_lies_as_numpys(layout: str, call: str, dtype: str) -> None:
    values = numpy.arange(60).reshape(3, 4, 5).astype(dtype)
    expected = CALLS[call](numpy, LAYOUTS[layout](numpy, values))
    found = CALLS[call](np, LAYOUTS[layout](np, np.array(values)))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert pitches(found) == pitches(expected)
    if call != "empty_like":
        assert numpy.allclose(numpy.array(found), expected)
    assert found.flags.c_contiguous == expected.flags.c_contiguous
    assert found.flags.f_contiguous == expected.flags.f_contiguous
