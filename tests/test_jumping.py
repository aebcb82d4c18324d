"""Large arrays of random numbers are drawn on all threads: NumPy's numbers, and NumPy's state afterwards."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse.numpy.bridge import jumping
from diffuse.numpy.order import team
from diffuse.numpy.small import native
from tests.each import for_each

CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "random": ((), {}), "uniform": ((-1.0, 3.0), {}), "standard_normal": ((), {}), "normal": ((1.0, 2.0), {}),
    "normal by name": ((), {"scale": 3.0}), "standard_exponential": ((), {}), "exponential": ((2.0,), {}),
    "integers": ((7,), {}), "integers up to a bound": ((0, 9), {"endpoint": True}),
    "integers of which a third are refused": ((0, 3 << 30), {}),
    "integers of whole words": ((0, 5 << 40), {}),
    "integers of which whole words are refused": ((0, 3 << 61), {})}


def generators(seed: int) -> list[Any]:
    """Two equal generators of NumPy's; of those with an odd seed half a word is left over."""
    made = [numpy.random.default_rng(seed) for _ in range(2)]
    for generator in made:
        generator.integers(5, size=2 + seed % 2, dtype=numpy.int32)
    return made


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays are drawn in three parts."""
    monkeypatch.setattr(jumping, "FEWEST", dict.fromkeys(jumping.FEWEST, 1))
    monkeypatch.setattr(jumping, "TRIED", 1 << 12)
    monkeypatch.setattr(jumping, "SHORTEST", 1)
    monkeypatch.setattr(team, "threads", lambda: 3)


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("call", CALLS)
def test_parts_on_threads_are_those_of_the_whole(call: str) -> None:
    name, (given, named) = call.partition(" ")[0], CALLS[call]
    function = getattr(numpy.random.Generator, name)
    parts = 0
    for seed in range(10):
        ours, plain = generators(seed)
        for shape in (6000 + seed, (70, 101)):
            found = jumping.drawn(function, name, ours, given, {**named, "size": shape})
            if found is not None:
                parts += 1
                want = function(plain, *given, **named, size=shape)
                assert found.dtype == want.dtype and found.shape == want.shape
                assert found.tobytes() == want.tobytes()
            assert ours.bit_generator.state == plain.bit_generator.state
    assert parts > 15


@pytest.mark.usefixtures("three")
def test_parts_that_do_not_meet_are_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jumping, "_rates", {("standard_normal",): 1.3})
    ours, plain = generators(1)
    function = numpy.random.Generator.standard_normal
    for _ in range(2):
        assert jumping.drawn(function, "standard_normal", ours, (9000,), {}) is None
        assert ours.bit_generator.state == plain.bit_generator.state
    assert jumping._rates == {("standard_normal",): 0.0}


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("named", [{"dtype": numpy.float32}, {"out": numpy.empty(9000)}, {"size": (9, -1)}])
def test_other_calls_are_left_to_numpy(named: dict[str, Any]) -> None:
    ours, plain = generators(1)
    given = () if "size" in named else (9000,)
    assert jumping.drawn(numpy.random.Generator.random, "random", ours, given, named) is None
    assert jumping.drawn(numpy.random.Generator.normal, "normal", ours, (0.0, -1.0, 9000), {}) is None
    assert jumping.drawn(numpy.random.Generator.integers, "integers", ours, (9, 3, 9000), {}) is None
    mersenne = numpy.random.Generator(numpy.random.MT19937(1))
    assert jumping.drawn(numpy.random.Generator.random, "random", mersenne, (9000,), {}) is None
    assert ours.bit_generator.state == plain.bit_generator.state


@for_each("threads", [40, 70, 200])
def test_many_threads_draw_an_array_that_is_hardly_worth_it(threads: int) -> None:
    function = numpy.random.Generator.standard_exponential
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(team, "threads", lambda: threads)
        ours, plain = generators(2)
        found = jumping.drawn(function, "standard_exponential", ours, (400_000,), {})
        assert found is not None and found.tobytes() == function(plain, 400_000).tobytes()
        assert ours.bit_generator.state == plain.bit_generator.state


def test_a_program_draws_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    real = jumping.drawn

    def seen(function: Any, name: str, *args: Any) -> Any:
        found = real(function, name, *args)
        drawn.append(name if found is not None else f"{name} by NumPy")
        return found

    monkeypatch.setattr(jumping, "drawn", seen)
    monkeypatch.setattr(jumping, "_rates", {})
    monkeypatch.setattr(team, "threads", lambda: 2)
    ours, plain = np.random.default_rng(4), numpy.random.default_rng(4)
    for name, args in (("standard_normal", ((400, 500),)), ("normal", (0.0, 1.0, 200_000)), ("random", (9,)),
                       ("standard_normal", (100,)), ("exponential", (2.0, 500_000))):
        found = getattr(ours, name)(*args)
        assert numpy.array_equal(diffuse.to_numpy(found), getattr(plain, name)(*args))
    assert ours.bit_generator.state == plain.bit_generator.state
    others = [] if native is not None else ["standard_normal", "normal", "exponential"]
    assert [name for name in drawn if "by NumPy" not in name] == others
    with pytest.raises(ValueError, match="scale < 0"):
        ours.normal(0.0, -1.0, 200_000)
    assert ours.bit_generator.state == plain.bit_generator.state
