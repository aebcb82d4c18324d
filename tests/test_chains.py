"""Short chains of operations that the program waits for as a whole: recorded a few times, then NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.library import fence
from diffuse.numpy.ops.single import OFTEN
from diffuse.observe import trace

pytestmark = pytest.mark.local_only("every rank records the same, whatever is at hand there")


def recorded(run: Callable[[], Any]) -> int:
    """Tasks recorded while a function runs."""
    before = trace.snapshot()["recorded"]
    run()
    return trace.snapshot()["recorded"] - before


def toppled(heaps: Any) -> int:
    """One turn of a pile of sand; how many grains fall off."""
    falls = heaps // 4
    heaps -= 4 * falls
    heaps[1:, :] += falls[:-1, :]
    heaps[:-1, :] += falls[1:, :]
    heaps[:, 1:] += falls[:, :-1]
    heaps[:, :-1] += falls[:, 1:]
    return int(falls[0].sum() + falls[-1].sum() + falls[:, 0].sum() + falls[:, -1].sum())


def pile(side: int = 180) -> Any:
    return numpy.random.default_rng(5).integers(0, 60, (side, side)).astype(numpy.int32)


def test_a_short_chain_of_light_operations_is_done_at_once_after_a_few_turns() -> None:
    fence()
    plain = pile()
    heaps = np.array(plain)
    turns = []
    for _ in range(12 * OFTEN):
        grains: list[int] = []
        turns.append(recorded(lambda: grains.append(toppled(heaps))))  # noqa: B023
        assert grains == [toppled(plain)]
    assert turns[0] > 7 and turns[-2 * OFTEN:] == [0] * (2 * OFTEN)
    assert numpy.array_equal(numpy.asarray(heaps), plain)


def test_a_chain_that_is_light_as_a_whole_is_done_at_once_after_a_few_turns() -> None:
    fence()
    plain = numpy.random.default_rng(8).random(100_000)
    x = np.array(plain)
    turns = [recorded(lambda: bool((x > 2.0).any())) for _ in range(4 * OFTEN)]
    assert turns[0] == 2 and turns[-1] == 0
    assert {recorded(lambda: bool((x % 0.5 > 2.0).any())) for _ in range(4 * OFTEN)} == {3}


@pytest.mark.parametrize("length, side", [(5, 700), (40, 180)], ids=["heavy", "long"])
def test_long_and_heavy_chains_stay_recorded(length: int, side: int) -> None:
    def turn(x: Any) -> float:
        for _ in range(length):
            x = x * 0.5 + 1.0
        return float(x.max())

    fence()
    plain = numpy.random.default_rng(6).random((side, side))
    x = np.array(plain)
    assert {recorded(lambda: turn(x)) for _ in range(4 * OFTEN)} == {2 * length + 1}
    assert turn(x) == turn(plain)


def test_a_chain_with_a_routine_of_its_own_stays_recorded() -> None:
    """Otherwise its bits would depend on what the program waited for."""
    def turn(x: Any) -> Any:
        return (np.exp(x * 0.5) + 1.0) * 2.0

    fence()
    x = np.array(numpy.random.default_rng(7).random((180, 180)))
    first = numpy.asarray(turn(x)).copy()
    counts = {recorded(lambda: turn(x).max().item()) for _ in range(4 * OFTEN)}
    assert counts == {5}
    assert numpy.asarray(turn(x)).tobytes() == first.tobytes()
