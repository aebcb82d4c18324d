"""Random numbers drawn in parts: NumPy's own, and a generator that goes on where NumPy's would."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from diffuse.numpy.bridge import jumping
from diffuse.numpy.bridge.ranks import draws
from tests.each import for_each

GENERATORS = [*draws.JUMPS, numpy.random.MT19937, numpy.random.Philox, numpy.random.SFC64]
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "random": ((), {}), "standard_normal": ((), {}), "standard_exponential": ((), {}),
    "exponential": ((2.0,), {}), "uniform": ((-1.0, 3.0), {}), "normal": ((1.0, 2.0), {}),
    "integers": ((7,), {}), "random of float32": ((), {"dtype": numpy.float32}),
    "integers of int32": ((9,), {"dtype": numpy.int32})}
LEGACY: dict[str, tuple[Any, ...]] = {
    "random_sample": (), "uniform": (-1.0, 3.0), "normal": (1.0, 2.0), "standard_normal": (), "randint": (9,)}
COUNT = 3001


def parts(fill: Any, like: Any) -> Any:
    """An array whose parts were drawn in another order than they lie."""
    found = numpy.empty_like(like)
    for low, high in ((2000, COUNT), (0, 777), (777, 2000)):
        fill(low, found[low:high])
    return found


@for_each("kind", GENERATORS)
@for_each("call", CALLS)
def test_parts_are_those_of_the_whole(kind: Any, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "CHUNK", 64)
    monkeypatch.setattr(draws, "MARKS", 5)
    name, (given, named) = call.partition(" ")[0], CALLS[call]
    ours, plain = [numpy.random.Generator(kind(3)) for _ in range(2)]
    for generator in (ours, plain):
        generator.integers(5, size=3, dtype=numpy.int32)  # half a word is left over

    def draw(source: Any, count: int) -> Any:
        return getattr(source, name)(*given, **named, size=count)

    want = draw(plain, COUNT)
    jumps = draws._steps(name, ours, want.dtype)
    assert jumps == (kind in draws.JUMPS and call in jumping.STEPS)
    fill = (draws._jumping if jumps else draws._marked)(draw, ours, COUNT)
    assert parts(fill, want).tobytes() == want.tobytes()
    for each in ("random", "standard_normal"):
        assert getattr(ours, each)(9).tobytes() == getattr(plain, each)(9).tobytes()
    assert ours.integers(5, size=4, dtype=numpy.int32).tolist() == plain.integers(
        5, size=4, dtype=numpy.int32).tolist()


@pytest.mark.parametrize("name", LEGACY)
def test_parts_of_the_old_generator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "CHUNK", 63)  # numbers with a normal distribution come in pairs
    ours, plain = numpy.random.RandomState(3), numpy.random.RandomState(3)

    def draw(source: Any, count: int) -> Any:
        return getattr(source, name)(*LEGACY[name], size=count)

    want = draw(plain, COUNT)
    assert parts(draws._marked(draw, ours, COUNT), want).tobytes() == want.tobytes()
    assert ours.standard_normal(5).tobytes() == plain.standard_normal(5).tobytes()


@pytest.mark.parametrize("name, args, kwargs, found", [
    ("random", (5,), {}, ((5,), (), {})),
    ("normal", (1.0, 2.0, (3, 4)), {}, ((3, 4), (1.0, 2.0), {})),
    ("normal", (1.0,), {"size": 7, "scale": 3}, ((7,), (1.0,), {"scale": 3})),
    ("rand", (3, 4), {}, ((3, 4), (), {})),
    ("random", (), {}, None), ("random", (5, "f4"), {}, None), ("random", ((0, 3),), {}, None),
    ("random", (), {"out": 3, "size": 5}, None), ("normal", ([1.0, 2.0],), {"size": 2}, None),
    ("random", ((3, None),), {}, None), ("random", ([3, 4],), {}, None)])
def test_what_a_call_asks_for(name: str, args: Any, kwargs: Any, found: Any) -> None:
    assert jumping.sized(name, args, kwargs) == found
