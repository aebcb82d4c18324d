"""Cache blocking: the loops of a fused task take turns on pieces of their rows (stream/blocking.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.stream import blocking, engine
from tests.test_fuzz_stream import chosen, stream, trial

ROWS = 128

pytestmark = pytest.mark.local_only("the runtime places the memory of stores itself")


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache for few rows, small arrays that are recorded, and two threads."""
    monkeypatch.setattr(blocking, "CACHE", 1 << 12)
    monkeypatch.setattr(blocking, "LEAST", 1)
    with stream(2, small=0, min_chunk=512, compile="wait"):
        yield


def points(run: Callable[[], Any]) -> list[int]:
    """The points of the launches of a function whose results are kept."""
    runtime, found = engine.current().runtime, list[int]()
    engine.fence()
    launch = runtime.launch

    def noted(one: Any) -> None:
        found.append(one.points)
        launch(one)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(runtime), "launch", lambda _, one: noted(one))
        kept = run()
        engine.fence()
    del kept
    return found


def differences(m: Any, x: Any) -> Any:
    """Loops over 40 and over 39 columns, in one group."""
    y = m.sqrt(x) + 1.0
    return y[:, 1:] - y[:, :-1]


def test_loops_take_turns_on_pieces_that_fit_the_cache() -> None:
    plain = numpy.random.default_rng(0).random((ROWS, 40))
    x = np.array(plain)
    for _ in range(2):  # analysed, then replayed
        assert points(lambda: differences(np, x)) == [32]  # 3 arrays of 4 rows and 40 columns
    assert numpy.array_equal(differences(np, x).__array__(), differences(numpy, plain))


def stacked(m: Any, x: Any) -> Any:
    """Loops over six rows and over one, all of whose columns are cut alike."""
    y = x * 0.5 + 1.0
    return m.stack([y[0] * y[1], y[0] - y[1], *y[2:]]) * 2.0 + x


def test_loops_over_rows_and_over_vectors_take_turns_on_columns() -> None:
    plain = numpy.random.default_rng(0).random((6, 40 * ROWS))
    x = np.array(plain)
    for _ in range(2):
        assert points(lambda: stacked(np, x)) > [2]
    assert numpy.array_equal(stacked(np, x).__array__(), stacked(numpy, plain))


def test_columns_are_cut_between_leaves_of_sums() -> None:
    plain = numpy.random.default_rng(0).random((ROWS, 40))
    x = np.array(plain)

    def summed(m: Any, x: Any) -> Any:
        return differences(m, x).sum(axis=0)

    assert points(lambda: summed(np, x)) == [4]  # of 32 rows
    found = summed(np, x).__array__()
    with stream(1):
        assert summed(np, np.array(plain)).__array__().tobytes() == found.tobytes()


@pytest.mark.parametrize("program", [
    lambda x: np.sqrt(x) + 1.0,  # one loop
    lambda x: [np.sqrt(x[:64]) + 1.0, (x + 1.0)[:100] * 2.0],  # two loops that are cut at other places
], ids=["one loop", "other rows"])
def test_other_tasks_are_launched_as_they_were_analysed(program: Callable[[Any], Any]) -> None:
    x = np.array(numpy.random.default_rng(0).random((ROWS, 40)))
    assert set(points(lambda: program(x))) <= {1, 2}


@pytest.mark.parametrize("seed", range(600, 606))
def test_random_programs_agree(seed: int) -> None:
    trial(seed, *chosen(seed))
