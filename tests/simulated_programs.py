"""All programs of apps/ on simulated ranks: the bits of one process, and no more memory than plans say.

    python tests/simulated_programs.py [--only PROGRAM] [--ranks 1 2 3 4 6 8 12 16]

A row is a program on so many ranks, by default and in regions that are planned: the bytes of the rank that
takes most in the last turn, and the bound that the plan gives.  Exit status 1 says that results differ, or
that a rank takes more than its bound.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

sys.path.append(str(Path(__file__).resolve().parent.parent))

import diffuse.numpy as dnp  # noqa: E402
import diffuse.scipy.sparse  # noqa: E402
from diffuse import settings  # noqa: E402
from diffuse.numpy.ops import blocks  # noqa: E402
from diffuse.planning import regions  # noqa: E402
from diffuse.stream import engine  # noqa: E402
from tests.applications import application  # noqa: E402
from tests.test_simulated import RANKS, simulated  # noqa: E402

SIZES = {"gmg": 64, "bicgstab": 64, "cgs": 64, "cg": 64, "conjugate_gradient": 40, "black_scholes": 3000,
         "channel_flow": 41, "jacobi": 120, "kepler": 3000, "mandelbrot": 60, "shallow_water": 40,
         "stencil": 40, "matmul": 40, "spmv": 6000, "softmax": 12, "attention": 8}
MORE = {"attention": {"features": 64, "heads": 2}}
TURNS = 5
PLENTY = 1 << 40
"""A limit of memory that no program reaches, under which a region goes on to decide how arrays are cut."""


@contextmanager
def program(name: str) -> Iterator[Any]:
    """A program of apps/, with Diffuse in the place of NumPy and SciPy."""
    app = import_module(f"apps.{name}")
    blocks._known.clear()  # the first product of its shapes is computed whole, in each run
    with patch.object(app, "np", dnp), patch.object(app, "sp", diffuse.scipy.sparse, create=True):
        yield application(name, SIZES[name], **MORE.get(name, {}))


def results(app: Any, state: Any) -> dict[str, bytes]:
    return {key: bytes(memoryview(dnp.array(value)).cast("B")) for key, value in app.results(state).items()}


def alone(name: str, turns: int = TURNS) -> dict[str, bytes]:
    """Return the results of a program that runs in one process, without ranks, by name and as bytes."""
    with (settings.using(runtime="local", small=0, min_chunk=64, fallback="silent"),
          program(name) as (app, state)):
        for _ in range(turns):
            app.step(state)
        return results(app, state)


class Run(NamedTuple):
    results: dict[str, bytes]
    peak: int
    """The most bytes of a rank in the last turn."""
    bound: int
    """The most bytes that a plan allows a rank; 0 without a plan."""


def on_ranks(name: str, ranks: int, planned: bool) -> Run:
    """A program on simulated ranks."""
    with simulated(ranks), patch.dict(regions._regions, clear=True), program(name) as (app, state):
        for turn in range(TURNS):
            each: Any = engine.current().runtime
            for rank in each._each if turn == TURNS - 1 else ():
                rank._peak = rank._touched[rank.rank]
            with regions.plan(memory=PLENTY, _site=name) if planned else nullcontext():
                app.step(state)
            engine.fence()
        peak = max([rank.peak for rank in each.counted()])  # before results are gathered
        said = [found.peak for region in regions._regions.values() for found in region.answers_last]
        return Run(results(app, state), peak, max(said, default=0))


def main() -> None:
    parser = argparse.ArgumentParser(description="programs on simulated ranks")
    parser.add_argument("--only", nargs="*", default=SIZES, help="programs: " + ", ".join(SIZES))
    parser.add_argument("--ranks", type=int, nargs="*", default=RANKS)
    args = parser.parse_args()
    wrong = 0
    for name in args.only:
        expected = alone(name)
        for ranks in args.ranks:
            for planned in (False, True):
                found = on_ranks(name, ranks, planned)
                said = [*["other bits"] * (found.results != expected),
                        *["above its bound"] * (0 < found.bound < found.peak)]
                wrong += bool(said)
                way, bound = "planned" if planned else "default", f"of {found.bound:,}" if found.bound else ""
                print(f"{name:18} {ranks:3} ranks {way} {found.peak:10,} bytes {bound:14} "
                      f"{', '.join(said) or 'same bits'}", flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
