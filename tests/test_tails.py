"""A group is closed before tasks whose results the next group alone uses (stream/tails.py)."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from diffuse.stream import engine
from tests.outcomes import launches
from tests.test_fuzz_stream import stream

pytestmark = pytest.mark.local_only("other runtimes cut tasks by other rules")


def ratio(m: Any, x: Any, y: Any) -> Any:
    """The ratio of products with inner rows of results, which lie one row apart."""
    below, above = x * 2.0, y + 3.0
    return below, above, m.sqrt((x[2:] * below[1:-1]) / (y[2:] * above[2:]))


def inputs() -> tuple[Any, Any]:
    pick = numpy.random.default_rng(0)
    return pick.random((81, 30)), pick.random((81, 30))


def stored() -> int:
    """The number of arrays that the last two plans store."""
    plans = engine.current().forwarder.plans[-2:]
    return sum([argument.privilege.writes for plan in plans
                for argument in plan.composition.body.arguments])


@pytest.mark.parametrize("points", [2, 3])
def test_operands_are_computed_where_they_are_used(points: int) -> None:
    x, y = inputs()
    with stream(points, small=0, min_chunk=64, compile="wait"):
        ours = np.array(x), np.array(y)
        writes = []
        for _ in range(3):
            assert launches(lambda: ratio(np, *ours)) == 2
            writes.append(stored())
            for mine, its in zip(ratio(np, *ours), ratio(numpy, x, y), strict=True):
                assert numpy.array(mine).tobytes() == its.tobytes()
    assert writes[0] > writes[-1] == 3


def test_a_task_that_cannot_be_cut_like_its_operand_changes_nothing() -> None:
    """A shifted operand goes through memory wherever the group ends."""
    x, _ = inputs()
    with stream(2, small=0, min_chunk=64, compile="wait"):
        ours = np.array(x)

        def shifted() -> Any:
            a = ours * 2.0
            b = a + 1.0
            return a, b[1:] - b[:-1]

        counts = [launches(shifted) for _ in range(4)]
    assert counts == [counts[0]] * 4


@pytest.mark.parametrize("seed", range(8))
def test_tails_change_no_bit(seed: int) -> None:
    """Programs of products of shifted rows have NumPy's bits in every turn."""
    def program(m: Any, arrays: list[Any]) -> list[Any]:
        pick = numpy.random.default_rng(seed)
        found = list(arrays)
        for _ in range(12):
            one, other = (found[k] for k in pick.integers(0, len(found), 2))
            first, second = pick.integers(0, 3, 2)
            row = m.zeros_like(arrays[0])
            row[1:-1] = one[first:79 + first] * 0.5 - other[second:79 + second] / (found[0][1:-1] + 2.0)
            found.append(row)
        return found[len(arrays):]

    start = list(inputs())
    plain = [x.tobytes() for x in program(numpy, start)]
    with stream(2, small=0, min_chunk=64, compile="wait"):
        ours = [np.array(x) for x in start]
        for _ in range(3):
            assert [numpy.array(x).tobytes() for x in program(np, ours)] == plain
