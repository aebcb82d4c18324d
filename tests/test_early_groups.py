"""Groups that are launched while the program records on (stream/early.py)."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse import settings
from diffuse.observe import trace
from diffuse.stream import early, engine
from diffuse.stream.window import FIRST_SIZE


def launched() -> int:
    return trace.snapshot().get("launched", 0)


def turn(x: Any, keep: bool) -> tuple[Any, int]:
    """A heavy reduction, then a few tasks that depend on it; returns also what was launched before the end.
    If its operand is to be kept, it lives until then."""
    twice = x * 2 + 1
    total = twice.sum()
    if not keep:
        del twice
    before = launched()
    y = x * total
    for _ in range(20):
        y = y + 1
    early = launched() - before
    return y, early


@pytest.mark.not_legate("ranks would have to decide alike")
@pytest.mark.not_device("no group is launched early")
def test_a_heavy_group_is_launched_early_once_its_stores_are_those_of_the_last_one() -> None:
    plain = numpy.arange(1_000_000.0)
    engine.fence()
    with settings.using(compile="wait", small=0):
        x = np.array(plain)
        found = []
        for keep in (False, False, False, True, True, False):
            y, early = turn(x, keep)
            found.append(early)
            assert y[5] == 5 * (2 * 499999500000.0 + 1_000_000) + 20
    assert found[0] == 0 and found[1] == found[2] == 1
    assert found[3] == 0


def looks_of(turns: int, ready_after: int, tasks: int = 60) -> list[int]:
    """How often each group of so many is looked at, if its stores are as before after so many tasks."""
    looks, found = early.Looks(), []
    for group in range(turns):
        count = since = 0
        while looks.pays(group) and (since := since + looks.after(since)) <= tasks:
            count += 1
            ready = since >= ready_after
            looks.note(since, ready)
            if ready:
                break
        found.append(count)
    return found


@pytest.mark.parametrize("ready_after", [1, 7, 8, 9, 20, 50])
def test_looks_find_out_when_groups_are_ready(ready_after: int) -> None:
    assert looks_of(20, ready_after)[-5:] == [1] * 5


def test_looks_follow_groups_that_are_ready_later_or_sooner() -> None:
    looks = early.Looks()
    turns = early.AGAIN + 10
    for group, ready_after in enumerate([20] * turns + [30] * turns + [5] * turns):
        since = 0
        while since < 60 and looks.pays(group):
            since += looks.after(since)
            looks.note(since, since >= ready_after)
            if since >= ready_after:
                break
        if group % turns == turns - 1:
            assert since == looks.found == ready_after


def test_groups_that_are_never_ready_are_looked_at_ever_more_rarely() -> None:
    found = looks_of(100, 1000)
    assert [group for group, looks in enumerate(found) if looks] == [0, 1, 2, 3, 7, 15, 31, 63]


@pytest.mark.not_legate("ranks would have to decide alike")
@pytest.mark.not_device("no group is launched early")
def test_a_turn_that_repeats_looks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    look = early._live_as_before

    def counted(*given: Any) -> bool:
        found.append(look(*given))
        return found[-1]

    monkeypatch.setattr(early, "_live_as_before", counted)
    engine.fence()
    window: Any = engine.current().window
    for bound in ("limit", "size"):  # a window that grew in another test would hold all turns
        monkeypatch.setattr(window, bound, FIRST_SIZE)
    with settings.using(compile="wait", small=0):
        x = np.array(numpy.arange(1_000_000.0))
        for _ in range(12):
            found.clear()
            turn(x, False)
    assert found == [True]
