"""What plans say of their bytes is what ranks send, by default and planned, for every program of apps/."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest

from diffuse.planning import regions
from diffuse.stream import engine
from tests.each import rounds
from tests.simulated_programs import SIZES, alone, on_ranks, program, results
from tests.test_simulated import simulated

RANKS = (2, 3, 4, 8, 12, 16)
SHARES = rounds(3, 1)
"""Each program runs on every third number of ranks, beginning with another one than its neighbours."""
TURNS = 10
"""After so many turns the stream, too, cuts arrays as it will go on to."""
LONG = {"shallow_water": (3, 4), "channel_flow": (3, 4, 16), "gmg": (3, 4, 16)}
"""Programs of many operations, and the numbers of ranks that they run on here."""


@cache
def expected(name: str) -> dict[str, bytes]:
    return alone(name, TURNS)


def sent(name: str, ranks: int, planned: bool) -> tuple[int, list[Any], dict[str, bytes]]:
    """The bytes that operations send in the last of some turns, what a plan says of them, and the results.
    Values that the program itself reads are no operations."""
    with simulated(ranks, simulate=planned) as kept, patch.dict(regions._regions, clear=True), program(
            name) as (app, state):
        def total() -> int:
            engine.fence()
            over: Any = getattr(engine.current().runtime, "over_ranks", int)
            rows = kept.summed(over)
            return sum([rows[title].bytes for title in rows if not title.startswith("read")])

        for turn in range(TURNS):
            before = total() if turn == TURNS - 1 else 0
            with regions.plan(_site=name) if planned else nullcontext():
                app.step(state)
        moved = total() - before
        said = [each.answers_last for each in regions._regions.values()]
        return moved, sum(said, []), results(app, state)


@pytest.mark.parametrize("name, ranks", [
    (name, ranks) for place, name in enumerate(SIZES)
    for ranks in [*LONG.get(name, RANKS)][place % SHARES::SHARES]])
def test_plans_say_what_is_sent(name: str, ranks: int) -> None:
    """By the simulator, small operations, borders, folds and ghosts included; and what they say of the
    default is what is sent without them.  Results have the bits of one process."""
    default, _, usual = sent(name, ranks, planned=False)
    found, said, other = sent(name, ranks, planned=True)
    assert said and usual == other == expected(name)
    told = sum([each.bytes for each in said]), sum([each.default for each in said])
    if all([each.left for each in said]):  # the region steps aside; what ranks received before is still there
        assert told == (default, default) and found <= default
    else:
        assert told == (found, default)


@pytest.mark.parametrize("name", SIZES)
def test_programs_have_the_bits_of_one_process_within_the_memory_of_plans(name: str) -> None:
    """A light part of `python tests/simulated_programs.py`, which runs all numbers of ranks."""
    wanted = alone(name)
    some = 1 if name in LONG else 3
    for ranks, planned in ((6, False), (1, False), (6, True))[:some]:
        found = on_ranks(name, ranks, planned)
        assert found.results == wanted
        assert not planned or 0 < found.peak <= found.bound
