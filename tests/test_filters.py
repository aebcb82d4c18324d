"""Convolutions with a short operand, which threads compute in parts, have NumPy's bits."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.order import filters
from tests.each import for_each
from tests.test_fuzz_stream import stream

COUNT = 5 * filters.BLOCK + 17


def agree(name: str, *args: Any) -> None:
    found = getattr(np, name)(*[np.array(a) if isinstance(a, numpy.ndarray) else a for a in args])
    expected = getattr(numpy, name)(*args)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert numpy.asarray(found).tobytes() == expected.tobytes()


@for_each("length", [1, 2, 5, 11, 12, 64, 1000])
@for_each("mode", ["full", "same", "valid"])
def test_parts_of_a_convolution_are_those_of_the_whole(mode: str, length: int) -> None:
    rng = numpy.random.default_rng(length)
    x, v = rng.standard_normal(COUNT), rng.standard_normal(length)
    with stream(3):
        agree("convolve", x, v, mode)
        agree("convolve", v, x, mode)
        agree("correlate", x, v, mode)
        agree("correlate", v, x, mode)
        agree("convolve", x[::-1], v[::-1], mode)


@for_each("first", ["bool", "int8", "uint64", "float16", "float32", "complex64", "complex128"])
@for_each("second", ["bool", "int64", "float32", "complex128"])
def test_convolutions_of_several_types(first: str, second: str) -> None:
    rng = numpy.random.default_rng(3)
    x, v = rng.integers(0, 5, COUNT).astype(first), rng.integers(0, 5, 9).astype(second)
    with stream(3):
        agree("convolve", x, v, "same")
        agree("correlate", x, v * (1 + 1j) if second == "complex128" else v, "full")


def test_what_numpy_refuses() -> None:
    x = np.ones(COUNT)
    for args in ((x, []), (x, np.ones((2, 2))), (x, [1.0], "x"), (x.reshape(1, -1), [1.0])):
        for name in ("convolve", "correlate"):
            with pytest.raises(ValueError) as ours:
                getattr(np, name)(*args)
            with pytest.raises(ValueError) as theirs:
                getattr(numpy, name)(*[numpy.asarray(a) if isinstance(a, np.ndarray) else a for a in args])
            assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_products_are_added_in_numpys_order(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "FEWEST", 1)
    rng, count = numpy.random.default_rng(8), 2 * filters.BLOCK + 1
    line = rng.standard_normal(count).astype(dtype)
    line[1000:1020], line[[5, 700, -1]] = -0.0, numpy.finfo(dtype).max
    with stream(3), numpy.errstate(all="raise"):
        for taps in range(1, filters.TAPS + 2):
            short = rng.standard_normal(taps).astype(dtype)
            short[0] = 0.0
            for mode in ("full", "same", "valid"):
                agree("convolve", line, short, mode)
                agree("correlate", line, short, mode)
            agree("convolve", line[::-2], short[::-1], "same")
        line[9] = numpy.inf
        assert numpy.isnan(np.convolve(np.array(line), short[:2])[9])
