"""Pairs of fused tasks whose views move or shrink in every turn of a loop: what a plan remembers of them, and
what its replays share, is what looking at each pair anew says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy
from diffuse.numpy.ops import moving
from diffuse.observe import trace
from diffuse.stream import cuts, engine, execute, pairs, replay
from tests.test_fuzz_stream import stream

pytestmark = pytest.mark.local_only("other runtimes run no pass")
ROWS, COLUMNS = 300, 40


def shortest_paths(np: Any, a: Any) -> None:
    """Reads a row and a column of what the second task overwrites: never one pass."""
    for k in range(30):
        a[:] = np.minimum(a, a[:, k, None] + a[k])


def shrinking(np: Any, a: Any) -> None:
    """Moves by a row in each turn: one pass."""
    for k in range(12):
        a[k + 1:-1] = (a[k:-2] + a[k + 2:]) * 0.5


def growing(np: Any, a: Any) -> None:
    """Reads rows so far away that some turns are one pass and others are not."""
    for k in range(12):
        n = ROWS - 12 - 6 * k
        a[:n] = a[3 * k:3 * k + n] * 0.5 + a[2 * k:2 * k + n]


def columns(np: Any, a: Any) -> None:
    """Moves along columns, from which rows are still in order."""
    for k in range(12):
        a[1:, k:k + 20] = (a[:-1, k:k + 20] + a[1:, k + 1:k + 21]) * 0.25


def transposed(np: Any, a: Any) -> None:
    """Walks through columns of what is then written by rows."""
    for k in range(12):
        n = COLUMNS - k
        a[:n, :n] = (a[:n, :n].T + a[k:k + n, :n]) * 0.5


def backward(np: Any, a: Any) -> None:
    """Reads the rows from the last one to the first one."""
    for k in range(12):
        a[k:] = a[k:][::-1] * 0.5 + 1


def steps(np: Any, a: Any) -> None:
    """Writes every second row."""
    for k in range(12):
        a[k:k + 200:2] = (a[k:k + 200:2] + a[k + 1:k + 201:2]) * 0.5


PROGRAMS = shortest_paths, shrinking, growing, columns, transposed, backward, steps


@pytest.fixture()
def noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[bool, int]]]:
    """For each pair that was asked for: can it run as one pass, and how many refusals were remembered then?
    Each answer, and what each replay shares with others of its plan, is compared with its definition."""
    found: list[tuple[bool, int]] = []
    formed, of = pairs.formed, replay.Skeleton.of

    def asked(first: Any, one: Any, second: Any, two: Any, stores: Any) -> Any:
        known = len(first.plan.apart)
        answer = formed(first, one, second, two, stores)
        upper, lower = first.plan, second.plan
        assert answer == pairs._formed(upper, one.picked(upper.telling), lower, two.picked(lower.telling))
        found.append((answer is not None, known))
        return answer

    class Compared(replay.Replay):
        def __init__(self, plan: Any, tasks: Any, slots: Any) -> None:
            super().__init__(plan, tasks, slots)
            assert plan.skeleton == of(plan, tasks, slots)

    monkeypatch.setattr(execute, "formed", asked)
    monkeypatch.setattr(execute, "Replay", Compared)
    monkeypatch.setattr(pairs, "CHUNKS", (1, 7))
    monkeypatch.setattr(moving, "TURNS", 1 << 60)  # new extents at one line are recorded all the same
    monkeypatch.setattr(cuts, "MOST", 0)  # as of large tasks
    with stream(points=2, window="auto", compile="wait", min_chunk=64, small=0):
        yield found


def run(program: Any) -> None:
    values = numpy.random.default_rng(1).integers(-50, 50, (ROWS, COLUMNS)) / 8
    expected, ours = values.copy(), diffuse.numpy.array(values)
    program(numpy, expected)
    engine.fence()
    program(diffuse.numpy, ours)
    assert numpy.array(ours).tobytes() == expected.tobytes(), program.__doc__


@pytest.mark.parametrize("program", PROGRAMS)
def test_pairs_whose_views_move_run_as_each_alone_would(program: Any, noted: list[tuple[bool, int]]) -> None:
    with numpy.errstate(all="ignore"):
        run(program)


def test_views_that_allow_no_pass_are_remembered(noted: list[tuple[bool, int]]) -> None:
    run(shortest_paths)
    assert len(noted) > 20 and not any(fits for fits, _ in noted)
    counts = [known for _, known in noted]
    assert 0 < counts[5] == counts[-1] <= 5  # a few forms, some of them behind other tests, and no turn's own


def test_views_that_allow_some_passes_are_looked_at_each_time(noted: list[tuple[bool, int]]) -> None:
    before = trace.counters["pipelined"]
    run(shrinking)
    assert noted and all(fits for fits, _ in noted)
    assert trace.counters["pipelined"] - before == len(noted)
    noted.clear()
    run(growing)
    assert {fits for fits, _ in noted} == {True, False}
