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

pytestmark = pytest.mark.skipif(native is None, reason="the extension is not there")
CALLS: dict[str, Callable[[Any, int], Any]] = {
    "bits": lambda g, n: g.integers(0, 2, n), "few refused": lambda g, n: g.integers(-7, 2_000_003, n),
    "many refused": lambda g, n: g.integers(5, 3 << 30, n),
    "normal": lambda g, n: g.standard_normal(n), "scaled": lambda g, n: g.normal(2.0, 3.0, n)}


@pytest.fixture
def shared() -> Iterator[list[int]]:
    """Have three threads draw; the list gets an entry for each array."""
    counted: list[int] = []

    def together(draw: Callable[[], None]) -> None:
        counted.append(1)
        team.together([draw] * 3)

    np.random.default_rng(0).standard_normal(300_000)  # the layers of the ziggurat are found
    native.connect_integers(numpy.random.PCG64, random._agree, together)
    yield counted
    native.connect_integers(numpy.random.PCG64, random._agree, random._together)


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

    native.connect_integers(numpy.random.PCG64, random._agree, fails)
    ours = np.random.default_rng(3)
    before = str(ours.bit_generator.state)
    for call in CALLS.values():
        with pytest.raises(TimeoutError):
            call(ours, 900_000)
        assert str(ours.bit_generator.state) == before
