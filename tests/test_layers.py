"""Stacked arrays: tasks over (m, n) that are divided into tasks over their layers (stream/layers.py)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.stream import engine, layers
from tests.each import for_each
from tests.test_fuzz_stream import stream

pytestmark = pytest.mark.local_only("the runtime places the memory of stores itself")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Short layers are divided, small arrays recorded, and there are two threads."""
    monkeypatch.setattr(layers, "LEAST", 1)
    with stream(2, small=0, min_chunk=64, compile="wait"):
        yield


def loops(run: Callable[[], Any]) -> tuple[list[int], Any]:
    """The loops of each plan that a function makes, and its result."""
    engine.fence()
    before = len(engine.current().plans)
    result = run()
    engine.fence()
    return [plan.loops for plan in engine.current().plans[before:]], result


def predators(m: Any, state: Any, births: Any) -> Any:
    def change(state: Any) -> Any:
        rabbits, foxes = state
        return m.stack([rabbits * (births - foxes), foxes * (rabbits - births)])

    middle = state + 0.5 * change(state)
    return state + (change(middle) + 2.0 * change(state + 0.5 * middle)) / 3.0


def components(m: Any, state: Any, births: Any) -> Any:
    """Layers of two dimensions, three of them, and one that is written."""
    flow = m.sqrt(state * state + 1.0)
    flow[1] = flow[0] * births + flow[2]
    return flow - state * flow[1]


@pytest.mark.parametrize(("program", "shape"), [(predators, (2, 3000)), (components, (3, 60, 50)),
                                                (components, (4, 3000))])
def test_a_program_on_layers_has_one_loop(program: Any, shape: tuple[int, ...]) -> None:
    pick = numpy.random.default_rng(3)
    state, births = pick.random(shape), pick.random(shape[1:])
    for _ in range(3):
        made, found = loops(lambda: program(np, np.array(state), np.array(births)))
        assert numpy.array_equal(found.__array__(), program(numpy, state, births))
        assert max(made, default=1) == 1


def test_which_layers_are_equal_is_part_of_the_decision() -> None:
    """The canonical forms of both programs are equal, but not the layers that a read meets."""
    plain = numpy.random.default_rng(4).random((2, 3000))
    for first in (0, 1, 0):
        for axes in (2, 3):
            x = plain if axes == 2 else numpy.stack([*plain, plain[0] + 1.0])

            def program(m: Any, x: Any, first: int = first) -> Any:
                y = x * 2.0
                return y[first] - x[first] * y[1 - first]

            assert numpy.array_equal(program(np, np.array(x)).__array__(), program(numpy, x))


def test_arrays_whose_extents_always_change_are_divided_a_few_times() -> None:
    def program(m: Any, x: Any) -> Any:
        y = x * 2.0
        return y[0] - y[1]

    sizes = range(2000, 2000 + 2 * layers.TRAILS)
    made = []
    for n in sizes:
        plain = numpy.random.default_rng(n).random((2, n))
        x = np.array(plain)
        plans, found = loops(partial(program, np, x))
        made += plans
        assert numpy.array_equal(found.__array__(), program(numpy, plain))
    assert len(made) <= layers.TRAILS + 2


UNARY = ("sqrt", "negative", "abs", "square", "floor")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")


def text(pick: random.Random, count: int, rank: int) -> str:
    """A program of random statements over x and y, of shape (count, ...), and z, of the shape of a layer."""
    rest = pick.choice(["", "[::-1]", ""]) if rank > 1 else ""
    names, lines = ["x", "y"], []

    def layer() -> str:
        return f"{pick.choice(names)}[{pick.randrange(count)}]{rest if pick.random() < 0.3 else ''}"

    def statement(fresh: str) -> str:
        whole, part = pick.choice(names), layer()
        match pick.randrange(8):
            case 0:
                return f"{fresh} = m.stack([{', '.join(layer() for _ in range(count))}])"
            case 1:
                return f"{fresh} = m.{pick.choice(BINARY)}({whole}, {pick.choice([*names, 'z', '0.5'])})"
            case 2:
                return f"{fresh} = m.{pick.choice(UNARY)}(m.abs({whole}))"
            case 3:
                return f"{part} = m.{pick.choice(BINARY)}({layer()}, {pick.choice([layer(), 'z', '2.0'])})"
            case 4:
                return f"{whole} *= {pick.choice([layer(), '0.5', pick.choice(names)])}"
            case 5:
                return f"m.{pick.choice(BINARY)}({whole}[::-1], {layer()}, out={whole})"
            case 6:
                return f"z = z + {layer()}"
        return f"seen.append({pick.choice([whole, part])}.max())"

    for number in range(pick.randrange(3, 14)):
        fresh = f"v{number}"
        lines.append(statement(fresh))
        if lines[-1].startswith(f"{fresh} ="):
            names.append(fresh)
    kept = pick.sample(names, min(2, len(names)))
    return "\n".join([*lines, f"seen += [{', '.join(kept)}, z, x]"])


def ran(program: str, m: Any, arrays: dict[str, Any], turns: int) -> list[Any]:
    seen: list[Any] = []
    for _ in range(turns):
        scope = {"m": m, "seen": seen, **{name: m.array(x) for name, x in arrays.items()}}
        exec(program, scope)
    return [numpy.asarray(x) for x in seen]


@for_each("seed", range(60))
def test_random_programs_on_layers_are_numpys(seed: int) -> None:
    pick = random.Random(seed)
    count, rest = pick.choice([2, 2, 3, 4]), pick.choice([(1500,), (1500,), (40, 30), (1, 2000)])
    numbers = numpy.random.default_rng(seed)
    shapes = {"x": (count, *rest), "y": (count, *rest), "z": rest}
    arrays = {name: numbers.random(shape) for name, shape in shapes.items()}
    program = text(pick, count, len(rest))
    expected, found = [ran(program, m, arrays, 3) for m in (numpy, np)]
    for number, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert numpy.array_equal(a, b, equal_nan=True), f"result {number} of\n{program}"
