"""What plans say of their bytes is what ranks send, by default and planned, for every program of apps/."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any
from unittest.mock import patch

import pytest

import diffuse.numpy as dnp
import diffuse.scipy.sparse
from diffuse.numpy.ops import blocks
from diffuse.planning import regions
from diffuse.stream import engine
from tests.test_simulated import simulated

SIZES = {"gmg": 64, "bicgstab": 64, "cgs": 64, "cg": 64, "conjugate_gradient": 40, "black_scholes": 3000,
         "channel_flow": 41, "jacobi": 120, "kepler": 3000, "mandelbrot": 60, "shallow_water": 40,
         "stencil": 40, "matmul": 40, "spmv": 6000, "softmax": 12, "attention": 8}
MORE = {"attention": ("--features", "64", "--heads", "2")}
RANKS = (2, 3, 4, 8, 12, 16)
TURNS = 10
"""After so many turns the stream, too, cuts arrays as it will go on to."""
LONG = {"shallow_water"}
"""Programs of many operations, which run on fewer of these numbers of ranks."""


@contextmanager
def program(name: str) -> Iterator[Any]:
    """A program of apps/, with Diffuse in the place of NumPy and SciPy."""
    app = import_module(f"apps.{name}")
    parser = argparse.ArgumentParser()
    app.arguments(parser)
    blocks._known.clear()  # the first product of its shapes is computed whole, in each run
    with patch.object(app, "np", dnp), patch.object(app, "sp", diffuse.scipy.sparse, create=True):
        yield app, app.setup(parser.parse_args(["--size", str(SIZES[name]), *MORE.get(name, ())]))


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
        return moved, sum(said, []), {key: bytes(memoryview(dnp.array(value)).cast("B"))
                                      for key, value in app.results(state).items()}


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", SIZES)
def test_plans_say_what_is_sent(name: str, ranks: int) -> None:
    """By the simulator, small operations, borders, folds and ghosts included; and what they say of the
    default is what is sent without them."""
    if name in LONG and ranks not in (3, 4):
        pytest.skip("two numbers of ranks do")
    default, _, expected = sent(name, ranks, planned=False)
    found, said, results = sent(name, ranks, planned=True)
    assert said and results == expected
    told = sum([each.bytes for each in said]), sum([each.default for each in said])
    if all([each.left for each in said]):  # the region steps aside; what ranks received before is still there
        assert told == (default, default) and found <= default
    else:
        assert told == (found, default)
