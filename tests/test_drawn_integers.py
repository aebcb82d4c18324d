"""Integers that the extension draws: NumPy's, with NumPy's state afterwards."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from tests.each import for_each
from tests.outcomes import fails_alike

RANGES = [(0, 2), (0, 40), (-5, 1000), (0, 3 << 30), (7, 8), (0, 1 << 32), (0, (1 << 32) - 1),
          (-5, (1 << 32) - 6), (-(1 << 62), 1 << 62), (10**12, 10**12 + 77), ((1 << 63) - 9, (1 << 63) - 1),
          (-(1 << 63), 9 - (1 << 63))]


def pair(kind: str, seed: int, halves: int) -> list[Any]:
    """Two equal generators, Diffuse's and NumPy's; after an odd number of halves of words one is left."""
    made = [module.random.Generator(getattr(module.random, kind)(seed)) for module in (np, numpy)]
    for generator in made:
        generator.integers(5, size=halves, dtype=numpy.int32)
    return made


@for_each("halves", [0, 1, 2])
@for_each("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_numbers_and_states_are_numpys(kind: str, halves: int) -> None:
    ours, plain = pair(kind, 5, halves)
    for low, high in RANGES:
        for size in (999, 1000, 1001, (40, 60), 3003, 120_001):
            found, want = numpy.asarray(ours.integers(low, high, size)), plain.integers(low, high, size)
            assert (found.dtype, found.shape, found.tobytes()) == (want.dtype, want.shape, want.tobytes())
            assert str(ours.bit_generator.state) == str(plain.bit_generator.state)
        for named in ({}, {"endpoint": True}, {"dtype": numpy.uint64}):
            if low >= 0:
                found = numpy.asarray(ours.integers(low, high, size=1500, **named))
                want = plain.integers(low, high, size=1500, **named)
                assert (found.dtype, found.tobytes()) == (want.dtype, want.tobytes())
    assert numpy.asarray(ours.integers(9, size=1500)).tobytes() == plain.integers(9, size=1500).tobytes()
    found, want = numpy.asarray(ours.integers(True, 9.5, 1500)), plain.integers(True, 9.5, 1500)
    assert found.tobytes() == want.tobytes()
    assert str(ours.bit_generator.state) == str(plain.bit_generator.state)


@pytest.mark.parametrize("call", [
    lambda g: g.integers(5, 5, 2000), lambda g: g.integers(5, 3, 2000), lambda g: g.integers(0, 9, -2000),
    lambda g: g.integers(0, 1 << 64, 2000), lambda g: g.integers(0, 9, (1 << 40, 1 << 40)),
    lambda g: g.integers(size=2000), lambda g: g.integers(0, 9, 2000, size=2000),
    lambda g: g.integers("a", 9, 2000)])
def test_errors_are_numpys(call: Any) -> None:
    ours, plain = pair("PCG64", 7, 1)
    fails_alike(lambda: call(ours), lambda: call(plain))
    assert ours.bit_generator.state == plain.bit_generator.state
