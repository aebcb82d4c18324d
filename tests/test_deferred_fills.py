"""Fills with zeros that wait for the first task on their store, where compiled code records them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.numpy.small import native
from diffuse.stream import engine
from diffuse.stream.queue import Queue
from diffuse.stream.zeros import MOST
from tests.each import for_each
from tests.outcomes import launches

SHAPE = 300, 200
PLAIN = numpy.random.default_rng(7).random(SHAPE)

pytestmark = [pytest.mark.usefixtures("nothing_alone"), pytest.mark.local_only("fills wait")]


def assigned(m: Any, x: Any) -> Any:
    """Zeros of which a part is assigned, and the same without an assignment."""
    y, z = m.zeros_like(x), m.zeros(SHAPE)
    y[:, 1:] = x[:, :-1] * 2.0
    return y, z


def summed(m: Any, x: Any) -> Any:
    """Two arrays of zeros that one task reads, of which one is written in place later."""
    y, z = m.zeros_like(x), m.zeros_like(x)
    found = y + z
    y[:, :-1] += x[:, 1:]
    return y, z, found


def signed(m: Any, x: Any) -> Any:
    """Zeros of all types, some of which are negative and therefore written."""
    made = [m.full(SHAPE, value) for value in (-0.0, 0.0, 0, False, 0j, complex(0.0, -0.0), 1.0)]
    return [made[0] + x, *made]


def dropped(m: Any, x: Any) -> Any:
    """Zeros that the program drops before and after a task reads them."""
    m.zeros_like(x)
    y = m.zeros_like(x) + x
    m.zeros_like(y)
    return [y]


def begun(m: Any, x: Any) -> Any:
    """Zeros whose fill begins a group of tasks."""
    y = m.zeros_like(x)
    y += x
    return [y]


def many(m: Any, x: Any) -> Any:
    """More zeros at once than fills may wait."""
    made = [m.zeros_like(x) for _ in range(MOST + 9)]
    made[3][2:] = x[2:]
    return [made[3], made[-1] + x, made[7]]


@for_each("program", [assigned, summed, signed, dropped, begun, many])
def test_zeros_have_numpys_bits_the_first_time_and_later(program: Callable[[Any, Any], Any]) -> None:
    x, expected = np.array(PLAIN), [y.tobytes() for y in program(numpy, PLAIN)]
    for _ in range(3):
        found = program(np, x)
        assert [numpy.asarray(y).tobytes() for y in found] == expected
        engine.fence()
        assert not engine.current().zeros.held


@pytest.mark.skipif(native is None, reason="the extension was not built")
@for_each("program", [assigned, summed, begun])
def test_known_fills_and_their_first_tasks_are_recorded_by_compiled_code(
        program: Callable[[Any, Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array(PLAIN)

    def run() -> None:
        program(np, x)
        engine.fence()

    run()
    launched = launches(run)
    add, slow = Queue._add, list[Any]()

    def added(queue: Any, task: Any, shows: bool) -> None:
        slow.append(task)
        add(queue, task, shows)

    with monkeypatch.context() as patched:
        patched.setattr(Queue, "_add", added)
        assert launches(run) == launched
    assert not slow
