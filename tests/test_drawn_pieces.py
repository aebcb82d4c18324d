"""Random numbers that threads draw in pieces (small/pieces.c): NumPy's, with NumPy's state after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy import random
from diffuse.numpy.order import team
from diffuse.numpy.small import native
from tests.each import for_each

pytestmark = pytest.mark.skipif(native is None, reason="the extension is not there")
CALLS: dict[str, Callable[[Any, int], Any]] = {
    "bits": lambda g, n: g.integers(0, 2, n), "few refused": lambda g, n: g.integers(-7, 2_000_003, n),
    "many refused": lambda g, n: g.integers(5, 3 << 30, n),
    "normal": lambda g, n: g.standard_normal(n), "scaled": lambda g, n: g.normal(2.0, 3.0, n),
    "exponential": lambda g, n: g.standard_exponential(n), "slower": lambda g, n: g.exponential(2.5, n),
    "even": lambda g, n: g.random(n), "bounded": lambda g, n: g.uniform(-2, 7.5, n)}

OTHERS: dict[str, Callable[[Any], Any]] = {
    "float32": lambda g: g.random(30_000, numpy.float32), "out": lambda g: g.random(out=numpy.empty(30_000)),
    "inverse": lambda g: g.standard_exponential(30_000, method="inv"),
    "no range": lambda g: g.uniform(3, 3, 30_000), "too far": lambda g: g.uniform(-1e308, 1e308, 30_000),
    "0": lambda g: g.exponential(0.0, 30_000), "-0": lambda g: g.exponential(-0.0, 30_000),
    "infinite": lambda g: g.exponential(float("inf"), 30_000),
    "NaN": lambda g: g.exponential(float("nan"), 30_000),
    "arrays": lambda g: g.uniform(numpy.zeros(30_000), 1.0),
    "reversed": lambda g: g.uniform(3.0, 1.0, 30_000), "negative": lambda g: g.exponential(-1.0, 30_000),
    "twice": lambda g: g.random(30_000, size=30_000), "text": lambda g: g.uniform("a", 1.0, 30_000),
    "too many": lambda g: g.random((1 << 40, 1 << 40)), "far too many": lambda g: g.gamma(2.0, 1.0, 1 << 61)}
"""Calls that NumPy draws, or refuses."""


@pytest.fixture
def shared() -> Iterator[list[int]]:
    """Have three threads draw; the list gets an entry for each array."""
    counted: list[int] = []

    def together(draw: Callable[[], None]) -> None:
        counted.append(1)
        team.together([draw] * 3)

    for name in ("standard_normal", "standard_exponential"):  # the layers of the ziggurats are found
        getattr(np.random.default_rng(0), name)(300_000)
    native.connect_integers(numpy.random.PCG64, random._agree, together, random._room)
    yield counted
    native.connect_integers(numpy.random.PCG64, random._agree, random._together, random._room)


@pytest.mark.parametrize("call", CALLS)
def test_numbers_and_states_are_numpys(call: str, shared: list[int]) -> None:
    ours, plain = np.random.default_rng(11), numpy.random.default_rng(11)
    draw = CALLS[call]
    for halves, count in ((0, 25_000), (1, 900_001)):
        for generator in (ours, plain):
            generator.integers(5, size=halves, dtype=numpy.int32)  # half a word is left over
        assert numpy.asarray(draw(ours, count)).tobytes() == draw(plain, count).tobytes()
        assert str(ours.bit_generator.state) == str(plain.bit_generator.state)
    assert len(shared) == 1


def test_an_exception_leaves_the_state(shared: list[int]) -> None:
    def fails(draw: Callable[[], None]) -> None:
        draw()
        raise TimeoutError

    native.connect_integers(numpy.random.PCG64, random._agree, fails, random._room)
    ours = np.random.default_rng(3)
    before = str(ours.bit_generator.state)
    for call in CALLS.values():
        with pytest.raises(TimeoutError):
            call(ours, 900_000)
        assert str(ours.bit_generator.state) == before


@for_each("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_numbers_of_every_generator_are_numpys(kind: str, shared: list[int]) -> None:
    ours, plain = [module.random.Generator(getattr(module.random, kind)(5)) for module in (np, numpy)]
    calls: list[tuple[str, Any]] = [("random", ()), ("uniform", (-1.0, 2)), ("exponential", (3,)),
                                    ("standard_exponential", ())]
    for name, given in calls:
        for size in (19_999, 20_000, (151, 200)):
            for positions, names in (((*given, size), {}), (given, {"size": size}), ((), {"size": size})):
                found = numpy.asarray(getattr(ours, name)(*positions, **names))
                want = getattr(plain, name)(*positions, **names)
                assert (found.dtype, found.shape, found.tobytes()) == (want.dtype, want.shape, want.tobytes())
    assert str(ours.bit_generator.state) == str(plain.bit_generator.state)


@for_each("call", OTHERS)
def test_other_calls_are_numpys(call: str, shared: list[int]) -> None:
    outcomes = []
    for module in (np, numpy):
        generator = module.random.default_rng(7)
        try:
            outcome: Any = numpy.asarray(OTHERS[call](generator)).tobytes()
        except Exception as error:
            outcome = type(error), str(error)
        outcomes.append((outcome, str(generator.bit_generator.state)))
    assert outcomes[0] == outcomes[1]


def test_large_arrays_are_in_memory_that_was_kept(shared: list[int]) -> None:
    ours, plain = np.random.default_rng(3), numpy.random.default_rng(3)
    for _ in range(2):
        found = ours.random((1 << 21, 2))
        assert float((found[::4096] * 2.0).sum()) == float((numpy.asarray(found)[::4096] * 2.0).sum())
        assert numpy.array_equal(numpy.asarray(found), plain.random((1 << 21, 2)))
        assert ours.bit_generator.state == plain.bit_generator.state
        del found
