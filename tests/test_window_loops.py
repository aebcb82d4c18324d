"""Loops of the user's, as the window sees them: what comes back to its first call, and what only looks so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.bounded import Bounded
from diffuse.observe import provenance
from diffuse.stream import engine
from diffuse.stream.window import LOOP
from tests.around import around, fenced

Array = Any


fresh = around(fenced, compile="off", window="auto", small=0)


def groups(run: Callable[[], object]) -> list[int]:
    """Lengths of the groups that a program makes before anything is forwarded, when the window knows it."""
    window = engine.current().window
    for _ in range(2):
        engine.fence()
        with settings.using(window="2000"):
            kept = run()
            found = [len(group.tasks) for group in (*window.closed, window.open)]
        del kept
    return found


def worked(x: Array, turns: int) -> Array:
    for _ in range(turns):
        x = x * 0.5
    return x


def test_a_function_called_twice_in_a_row_is_no_loop() -> None:
    x = np.ones((8, 8))
    engine.fence()

    def run() -> Array:
        first = worked(x, LOOP)
        second = worked(x, LOOP)
        return first, second

    assert groups(run) == [2 * LOOP]


def test_nor_is_one_that_a_line_calls_twice() -> None:
    x = np.ones((8, 8))
    engine.fence()
    assert groups(lambda: (worked(x, LOOP), worked(x, LOOP))) == [2 * LOOP]


def test_every_turn_of_a_loop_that_calls_it_is_a_group() -> None:
    x = np.ones((8, 8))
    engine.fence()

    def run() -> Array:
        y = x
        for _ in range(3):
            y = worked(worked(y, LOOP) - y, 2)
        return y

    assert groups(run) == [LOOP + 3] * 3


def test_a_loop_inside_of_the_function_is_cut_where_it_is_long_enough() -> None:
    x = np.ones((8, 8))
    engine.fence()
    assert groups(lambda: worked(x, 2 * LOOP + 5)) == [LOOP, LOOP, 5]


def test_turns_that_follow_other_tasks_make_equal_groups() -> None:
    """Each turn reads what the turn before it wrote beside, so that it is a loop of its own."""
    x = np.ones(100)
    engine.fence()

    def run() -> Array:
        y = x * 2
        for _ in range(90):
            y[1:-1] = (y[2:] + y[:-2]) * 0.5
        return y

    first, *turns, last = groups(run)
    assert first == 1 + 66 and len(turns) > 2 and len(set(turns)) == 1 and turns[0] % 3 == 0
    assert first + sum(turns) + last == 1 + 90 * 3


def test_a_turn_is_not_cut_where_it_holds_temporaries() -> None:
    """The first turn begins with another operation, so that the repetition begins behind it, where a
    temporary is held that the rest of the turn uses."""
    x = np.ones(100)
    engine.fence()

    def run() -> Array:
        y = x * 2
        for turn in range(6):
            held = y[2:] * 0.5 if turn == 0 else y[2:] + 0.5
            part = held + y[:-2]
            part = worked(part, 28)
            y[1:-1] = part - held
        return y

    assert groups(run) == [1 + 3 * 32, 2 * 32, 32]


def test_the_nearest_call_is_known_by_line_and_instruction() -> None:
    def here() -> tuple[Any, Any]:
        return provenance.where(1), provenance.calls(1)

    (line, calls), (same, others) = here(), here()
    assert line is same and line.file == __file__
    assert calls[:2] == others[:2] and calls[2] is others[2] and calls[3] != others[3]
    again = [here() for _ in range(2)]
    assert again[0] == again[1]


def test_code_made_as_the_program_goes_is_forgotten_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_known", Bounded(20))
    for number in range(50):
        namespace: dict[str, Any] = {"where": provenance.where, "__name__": "program"}
        exec(compile("\n" * number + "found = where(1)", f"file{number}", "exec"), namespace)
        assert namespace["found"] == (f"file{number}", number + 1)
        assert len(provenance._known) <= 20
