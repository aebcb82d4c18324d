"""Numbers with a normal distribution that the extension draws: NumPy's, from every kind of generator."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from tests.outcomes import fails_alike

KINDS = ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"]
MANY = 120_000
"""More numbers than are drawn by NumPy before the extension knows NumPy's function."""


def pair(kind: str, seed: int) -> list[Any]:
    """Two equal generators, Diffuse's and NumPy's, that have drawn many numbers and keep half a word."""
    made = [module.random.Generator(getattr(module.random, kind)(seed)) for module in (np, numpy)]
    for generator in made:
        generator.standard_normal(MANY)
        generator.integers(5, size=3, dtype=numpy.int32)
    return made


def same(ours: Any, plain: Any) -> bool:
    """Have two arrays the same type, shape and bits?"""
    ours, plain = numpy.asarray(ours), numpy.asarray(plain)
    return (ours.dtype, ours.shape, ours.tobytes()) == (plain.dtype, plain.shape, plain.tobytes())


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_and_states_are_numpys(kind: str) -> None:
    ours, plain = pair(kind, 5)
    for size in (0, 1, 130, (4, 5000), 20_000, 60_001, (), None, (0, 3), numpy.int64(200), [3, 50]):
        assert same(ours.standard_normal(size), plain.standard_normal(size))
        assert same(ours.standard_normal(size=size), plain.standard_normal(size=size))
        for given in ((1.5, 2.0), (3, 1), (0.0, 1.0), (-1, 5e-324), (0.0, 0.0), (numpy.float32(2), 1.0)):
            assert same(ours.normal(*given, size), plain.normal(*given, size))
        assert same(ours.normal(2.0, size=size), plain.normal(2.0, size=size))
        assert same(ours.normal(size=size), plain.normal(size=size))
        assert same(ours.normal(scale=2.0, size=size), plain.normal(scale=2.0, size=size))
    assert str(ours.bit_generator.state) == str(plain.bit_generator.state)
    assert same(ours.random(9), plain.random(9))
    assert same(ours.integers(9, size=9, dtype=numpy.int32), plain.integers(9, size=9, dtype=numpy.int32))


@pytest.mark.parametrize("call", [
    lambda g: g.standard_normal(200, numpy.float32), lambda g: g.standard_normal(200, dtype="f"),
    lambda g: g.standard_normal(out=numpy.empty(200)), lambda g: g.normal([0.0, 1.0], 1.0, (100, 2)),
    lambda g: g.normal(numpy.zeros(200), 1.0), lambda g: g.normal(float("inf"), 1.0, 200),
    lambda g: g.normal(0.0, float("inf"), 200), lambda g: g.normal(True, 2, 200)])
def test_other_calls_are_numpys(call: Any) -> None:
    ours, plain = pair("PCG64", 6)
    assert same(call(ours), call(plain))
    assert str(ours.bit_generator.state) == str(plain.bit_generator.state)


@pytest.mark.parametrize("call", [
    lambda g: g.standard_normal(-1), lambda g: g.standard_normal((3, -1)), lambda g: g.standard_normal("a"),
    lambda g: g.normal(0.0, -1.0, 200), lambda g: g.normal(0.0, -0.0, 200),
    lambda g: g.normal(10**400, 1.0, 9), lambda g: g.standard_normal(1 << 62),
    lambda g: g.standard_normal((1 << 40, 1 << 40)),
    lambda g: g.standard_normal(9, size=9), lambda g: g.normal(0.0, 1.0, 9, 9), lambda g: g.normal(a=9)])
def test_errors_are_numpys(call: Any) -> None:
    ours, plain = pair("PCG64", 7)
    fails_alike(lambda: call(ours), lambda: call(plain))
    assert str(ours.bit_generator.state) == str(plain.bit_generator.state)


def test_generators_share_the_state_of_their_source() -> None:
    ours, plain = pair("PCG64", 8)
    other, its = np.random.Generator(ours.bit_generator), numpy.random.Generator(plain.bit_generator)
    for _ in range(3):
        assert same(ours.standard_normal(300), plain.standard_normal(300))
        assert same(other.standard_normal(20_000), its.standard_normal(20_000))


def test_generators_of_classes_of_the_program() -> None:
    class Mine(numpy.random.Generator):
        pass

    ours, plain = Mine(np.random.PCG64(9)), Mine(numpy.random.PCG64(9))
    ours.standard_normal(MANY), plain.standard_normal(MANY)
    assert same(ours.standard_normal(300), plain.standard_normal(300))
