"""`numpy.roll` as one task that reads an array shifted cyclically (kernels/llvm/turn.py)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.ops import known
from diffuse.observe import trace
from diffuse.settings import using
from diffuse.stream import engine
from tests.outcomes import launches
from tests.test_fuzz_stream import stream

LAYOUTS: dict[str, Any] = {
    "whole": lambda x: x, "part": lambda x: x[1:-1], "backwards": lambda x: x[::-1],
    "steps": lambda x: x[..., ::2],
    "transposed": lambda x: x.T, "fortran": lambda x: x.copy("F"), "broadcast": lambda x: x[:1] + 0 * x[0]}


@pytest.fixture(autouse=True)
def several() -> Iterator[None]:
    """Small arrays are recorded and shared by several points, and nothing is known of calls."""
    known.KNOWN.clear()
    with stream(3, small=0, min_chunk=16):
        yield
    known.KNOWN.clear()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", ["off", "wait"])
def test_a_rolled_array_is_numpys(layout: str, mode: str) -> None:
    pick = random.Random(layout)
    with using(compile=mode):
        for _ in range(4 if mode == "wait" else 12):
            shape = tuple(pick.choice([1, 3, 8, 9, 21, 70]) for _ in range(pick.randint(1, 3)))
            dtype = pick.choice(["float64", "float32", "uint8", "bool", "complex128", "float16", "int64"])
            plain = (numpy.random.default_rng(len(shape)).random(shape) * 99).astype(dtype)
            ours, theirs = LAYOUTS[layout](np.array(plain)), LAYOUTS[layout](plain)
            axis = tuple(pick.sample(range(theirs.ndim), pick.randint(1, min(2, theirs.ndim))))
            shift = tuple(pick.randint(-100, 100) for _ in axis)
            for args in ((shift, axis), (shift[0], axis[0]), (shift[0], axis[0]), (shift[0],)):
                found, expected = np.roll(ours, *args), numpy.roll(theirs, *args)
                assert numpy.array_equal(found.__array__(), expected)
                assert found.flags.f_contiguous == expected.flags.f_contiguous


def test_differences_of_all_neighbours_are_one_launch() -> None:
    plain = numpy.random.default_rng(0).random((40, 50))

    def laplacian(m: Any, x: Any) -> Any:
        return (m.roll(x, 1, 0) + m.roll(x, -1, 0) + m.roll(x, 1, 1) + m.roll(x, -1, 1)
                + m.roll(x, (1, -1), (0, 1)) - 5.0 * x)

    x = np.array(plain) * 1.0

    def dropped() -> None:
        laplacian(np, x)

    assert launches(dropped) == 0 and launches(lambda: laplacian(np, x)) == 1
    assert numpy.array_equal(laplacian(np, x).__array__(), laplacian(numpy, plain))


def test_a_value_is_rolled_when_all_of_it_is_there() -> None:
    """What the rows of one point are shifted to, another point computed."""
    plain = numpy.random.default_rng(0).random((64, 64))

    def twice(m: Any, x: Any) -> Any:
        for axis in (0, 1, 0):
            x = m.roll(x * 1.5, 3, axis) - m.roll(x, -1, axis)
        return x

    for points in (1, 2, 3, 5):
        with stream(points):
            assert numpy.array_equal(twice(np, np.array(plain)).__array__(), twice(numpy, plain))


def test_a_shift_is_data() -> None:
    """Other shifts need no other kernel."""
    x = np.array(numpy.arange(4000.0)) * 1.0
    plans = []
    for shift in range(1, 6):
        assert (np.roll(x, shift) + x).__array__()[shift] == shift
        plans.append(trace.counters["plans"])
    assert plans[1:] == [plans[1]] * 4


ROLLS: tuple[Any, ...] = (
    lambda m, x: m.roll(x, 1, 0), lambda m, x: m.roll(x, -2, axis=1), lambda m, x: m.roll(x, 3),
    lambda m, x: m.roll(x, True, 0), lambda m, x: m.roll(x, shift=5, axis=0),
    lambda m, x: m.roll(x, 2, (0, 1)), lambda m, x: m.roll(x, 1, 2),
    lambda m, x: m.roll(x, 1, axes=0), lambda m, x: m.roll(x, 1, 0, 0))


def answer(roll: Any, library: Any, x: Any) -> Any:
    try:
        return numpy.array(roll(library, x)).tolist()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("small", [0, 64])
def test_rolls_that_come_again_are_numpys(small: int) -> None:
    plain = numpy.random.default_rng(3).random((12, 30))
    with using(small=small):
        ours = np.array(plain)
        for turn in range(7):
            ours += 1.0
            plain += 1.0
            for roll in ROLLS:
                assert answer(roll, np, ours) == answer(roll, numpy, plain), turn


@pytest.mark.local_only("NumPy computes at once on memory that the host sees")
def test_a_roll_that_is_waited_for_alone_is_done_at_once() -> None:
    with using(small=64):
        x, before = np.array(numpy.arange(400.0).reshape(20, 20)), trace.counters["single"]
        for _ in range(12):
            found = np.roll(x, 1, axis=0)
            engine.fence()
        assert trace.counters["single"] > before
        assert numpy.array(found).tolist() == numpy.roll(numpy.array(x), 1, axis=0).tolist()


def test_an_array_is_rolled_by_parts_where_a_runtime_places_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several ranks would be sent all of the array for the shifted read."""
    plain = numpy.arange(2000.0).reshape(40, 50)
    monkeypatch.setattr(type(engine.current().runtime), "addressed", False)
    x = np.array(plain) * 1.0
    before = trace.counters["recorded"]
    found = np.roll(x, 3, 0)
    assert trace.counters["recorded"] == before + 2
    monkeypatch.undo()
    assert numpy.array_equal(found.__array__(), numpy.roll(plain, 3, 0))
