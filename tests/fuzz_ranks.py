"""Random NumPy programs on all ranks at once: the programs of test_fuzz_numpy.py and test_fuzz_stream.py.

    DIFFUSE_RUNTIME=mpi mpirun -n 2 python tests/fuzz_ranks.py FIRST LAST [LOOPS]

A seed is one program, the same on all ranks; each rank compares what it sees with NumPy.  The arrays are of a
few elements and cut into tiles of one or two (DIFFUSE_MIN_CHUNK=1), so that views cross the ranks.  Every
other program with loops runs over random grids of tiles.  On Legate launches of one point copy what they
access to memory as large as the stores, in every other program, host functions run on parts of arrays in two
of four, and all launches run apart from Legate in one of these.
"""

from __future__ import annotations

import random
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from diffuse.stream import engine  # noqa: E402
from tests import legate_grid, shares, test_fuzz_numpy, test_fuzz_stream, test_grids  # noqa: E402, F401
from tests.outcomes import unwarned
from tests.pieces import pieces  # noqa: E402


class Program(test_fuzz_numpy.Program):
    """Looks at its arrays seldom, for each look is a meeting of all ranks; at all of them in the end."""

    def check(self) -> None:
        if self.random.random() < 0.1:
            super().check()

    def finish(self) -> None:
        for k, pair in enumerate(self.live):
            self.compare(pair.plain, pair.ours, f"live {k}")


def run(seed: int) -> None:
    with unwarned():
        program = Program(seed)
        for _ in range(14):
            program.step()
        program.finish()


def loop(seed: int) -> None:
    """A program with loops, unless it is one that ends with an error."""
    pick = random.Random(seed)
    exact, chunk = pick.random() < 0.5, pick.choice((1, 16, 64, 300))
    with unwarned():
        if test_fuzz_stream.Loops(seed, exact).run(numpy)[-1].dtype == "uint8":
            return
    with test_grids.grids(seed) if seed % 2 else nullcontext():
        test_fuzz_stream.trial(seed, exact, 0, (
            dict(points=0, window="auto", compile="wait", min_chunk=chunk),
            dict(points=0, window=7, compile="wait", min_chunk=1),
        ))


def assembling(runtime: Any, seed: int) -> None:
    """On Legate: let launches of one point assemble stores of pieces of any size, in every other program, and
    functions run on parts as they do where memory is short."""
    if getattr(runtime, "name", "") == "legate" and not runtime.alone:
        from diffuse.runtime.legate import calls, requirements

        patched: Any = requirements
        short: Any = calls
        patched.LEAST, patched.SAVES = 0, seed % 2 and 1 << 60
        if runtime.placement.devices is None:  # devices keep all arrays in Legate's stores
            short.COPIES, runtime._leaves = (1 << 60 if seed % 4 < 2 else 3), seed % 8 < 2
            runtime.splits = True


def main(first: int, last: int, loops: int) -> None:
    for seed in range(first, last):
        assembling(engine.current().runtime, seed)
        run(seed)
        if seed % loops == 0:
            loop(seed)
    runtime = engine.current().runtime
    found = pieces(engine.current().plans)
    ranks = getattr(runtime, "ranks", 0)
    print(f"{last - first} programs on {ranks} ranks, {len(found)} kinds of launches, "
          f"{sum(n > 1 for n in found)} in several pieces", flush=True)


if __name__ == "__main__":
    parser = shares.seeds(__doc__)
    parser.add_argument("loops", metavar="LOOPS", type=int, nargs="?", default=5,
                        help="every how many programs one with loops runs, too")
    given = parser.parse_args()
    main(given.first, given.last, given.loops)
