"""Templates, trails and replays: what was recorded before is found again, and means what it meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse import settings
from diffuse.bounded import Bounded, Size
from diffuse.ir.template import Template
from diffuse.observe import trace
from diffuse.stream import engine
from tests.around import around, fenced
from tests.outcomes import pending

Array = Any


fresh = around(fenced, compile="off", window="auto", small=0)


def turn(m: Any, x: Array, factor: Any) -> Array:
    """A few operations with views, a number, a reduction and an update in place."""
    y = x * factor + x
    y[1:-1] = y[2:] - x[:-2]
    return y - y.sum()


def same(ours: Any, theirs: Any) -> None:
    numpy.testing.assert_allclose(numpy.array(ours), theirs, rtol=1e-12)


def test_a_turn_recorded_before_is_followed_without_a_look() -> None:
    x = np.ones(3000)
    engine.fence()
    window = engine.current().window
    for looks in (True, False, False):
        kept = turn(np, x, 2.0)
        groups = [*window.closed, window.open]
        if not looks:
            assert not any(group.numbered or group._tasks for group in groups)
            assert [t.operation for g in groups for t in g.tasks][:2] == ["multiply", "add"]
        engine.flush()
        del kept


def test_the_same_operations_have_one_template_each() -> None:
    x, y = np.ones(3000), np.ones(3000) + 1.0
    engine.fence()
    window = engine.current().window
    results = [x + y, y + x, x + 2.0, x + 3.0, x + x]
    found: list[Template] = [r[0] for r in window.open.recorded]
    assert found[0] is found[1] is found[4] and found[2] is found[3] is not found[0]
    assert [len(set(r[1])) for r in window.open.recorded] == [3, 3, 2, 2, 2]
    same(results[4], 2.0 * numpy.ones(3000))


def test_other_extents_are_another_trail_of_the_same_plan() -> None:
    for n in (3000, 3001, 5000):
        x = numpy.arange(n) / n
        ours = np.array(x)
        engine.fence()
        plans = trace.counters["plans"]
        same(turn(np, ours, 3.0), turn(numpy, x, 3.0))
        assert n == 3000 or trace.counters["plans"] == plans


@pytest.mark.parametrize("numbers", [(2.0, 3.0, -0.5), (2, 3, 7), (1 + 2j, 3 - 1j, 0.5j)],
                         ids=["float", "int", "complex"])
def test_a_replay_takes_the_numbers_of_the_day(numbers: tuple[Any, ...]) -> None:
    x = numpy.arange(3000) + 1
    ours = np.array(x)
    for number in numbers * 2:
        same((ours * number - ours) * (number + 1), (x * number - x) * (number + 1))


def test_stores_that_are_one_now_and_were_two_before() -> None:
    a, b = numpy.arange(3000.0), numpy.arange(3000.0)[::-1].copy()

    def update(x: Array, y: Array) -> Array:
        x += 1.0
        return x * y

    ours = np.array(a), np.array(b)
    for one, two in ((0, 1), (0, 0), (1, 0), (1, 1), (0, 1)):
        same(update(ours[one], ours[two]), update((a, b)[one], (a, b)[two]))


def holders() -> set[int]:
    window = engine.current().window
    return {store for group in (*window.closed, window.open) for store in group.slots}


def test_pending_are_the_stores_that_groups_use() -> None:
    with settings.using(min_chunk=64):
        engine.current().forget_decompositions()
        x = np.ones(3000)
        for _ in range(2):
            y = x * 2.0
            z = y[2:] - y[:-2]          # refused where several points share the work: a group of its own
            w = z + x[1:-1]
            assert pending() == holders()
            same(w, numpy.ones(2998))
            assert not pending()
        del y, z, w
    engine.current().forget_decompositions()


def test_liveness_chooses_among_the_plans_of_a_trail() -> None:
    x = numpy.arange(3000.0)
    ours = np.array(x)

    def both(keep: bool) -> tuple[Array, Array | None]:
        y = ours * 2.0
        z = y + 1.0
        return z, (y if keep else None)

    for keep in (False, True, False, True):
        z, y = both(keep)
        engine.flush()
        same(z, x * 2.0 + 1.0)
        if y is not None:
            same(y, x * 2.0)


def test_tables_that_are_full_are_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.current().templates, "known", Bounded(5))
    memo = engine.current().window.memo
    monkeypatch.setattr(memo, "nodes_size", Size(20, 20))
    monkeypatch.setattr(memo, "new_trails", 20)
    x = numpy.arange(3000.0)
    ours = np.array(x)
    for k in range(1, 40):
        same(turn(np, ours[k:], 2.0), turn(numpy, x[k:], 2.0))
        assert len(engine.current().templates.known) <= 5


def test_what_was_decided_can_be_forgotten() -> None:
    x = np.ones(3000)
    run: Callable[[], Any] = lambda: numpy.array(x * 2.0 + 1.0)     # noqa: E731
    before = run()
    engine.fence()
    engine.current().window.forget()
    plans = trace.counters["plans"]
    assert (run() == before).all() and trace.counters["plans"] > plans


def test_an_explanation_names_every_place_that_shares_a_plan() -> None:
    x = np.ones(3000)
    engine.fence()
    numpy.array(np.arctan(x * 7.0))
    numpy.array(np.arctan(x * 8.0))
    numpy.array(np.arctan(x * 9.0))
    plan = next(plan for plan in diffuse.explain().plans if plan.operations == ("multiply", "arctan"))
    lines = [int(site.rpartition(":")[2]) for site in plan.sites]
    assert lines == [lines[0], lines[0] + 1, lines[0] + 2] and plan.launches == 3
    assert all(f"recorded from: {site}" in str(plan) for site in plan.sites)
