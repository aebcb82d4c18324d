"""Quotients of 64-bit integers: those of small numbers are computed as floats, and have to be exact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.kernels.llvm.ops.integers import EXACT
from tests.test_fuzz_stream import stream

FUNCTIONS = ("floor_divide", "remainder", "fmod")


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    with stream(2, small=0, compile="wait"), numpy.errstate(all="ignore"), np.errstate(all="ignore"):
        yield


def same(a: Any, b: Any) -> None:
    for name in FUNCTIONS:
        expected = getattr(numpy, name)(a, b)
        found = getattr(np, name)(np.array(a), np.array(b) if isinstance(b, numpy.ndarray) else b)
        assert numpy.array_equal(found.__array__(), expected), name


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 10, 12_345, 2**25 + 1, 2**50 - 1, EXACT, EXACT + 1])
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_multiples_and_their_neighbours(dtype: str, divisor: int) -> None:
    some = numpy.random.default_rng(divisor)
    times = some.integers(0, EXACT // divisor + 1, 1000, dtype=numpy.int64)
    for beside in (-1, 0, 1):
        a = times * divisor + beside
        signs = (1, -1) if dtype == "int64" else (1,)
        for sign in signs:
            numbers = (sign * a[a >= 0]).astype(dtype)
            same(numbers, numbers.dtype.type(sign * divisor))
            same(numbers, numbers.dtype.type(divisor))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_small_and_large_numbers_side_by_side(dtype: str) -> None:
    some, of = numpy.random.default_rng(2), numpy.iinfo(dtype)
    low = max(of.min, -EXACT - 3)
    parts = [some.integers(max(low, -5), 6, 1000), some.integers(low, EXACT + 3, 1000),
             EXACT + some.integers(-2, 3, 1000), some.integers(of.min, of.max, 1000, dtype, endpoint=True)]
    numbers = [part.astype(dtype) for part in parts]
    if of.min:
        numbers.append(-numbers[2])
    for a in numbers:
        for b in numbers:
            same(a, b)
