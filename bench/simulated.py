"""The programs of papers/000 on simulated ranks: bytes counted and predicted, beside those of the best grid.

    python bench/simulated.py [--quick] [--ranks 2 4 8 16 64 128] [--only PROGRAM] [--json FILE]

Each rank has its memory, its points and its messages, in one process (`diffuse run --simulate`).  Programs
are cut as the stream cuts them by itself; the last columns are closed forms of `diffuse.spmd`: what a program
moves whose operators all run on the best grid of processes, where each begins with an equal piece of every
operand.  The file is also the program that `diffuse run` runs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Measures = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
RANKS, QUICK = (2, 4, 8, 16, 64, 128), (2, 8)
WARM_UP, COUNTED = 4, 4
PATIENCE = 900
SIZES = {"matmul": ("--size", "256"), "spmv": ("--size", "12288"),
         "softmax": ("--size", "64", "--batches", "4", "--heads", "4"),
         "attention": ("--size", "32", "--batches", "4", "--features", "128", "--heads", "16")}
"""The options of each program of apps/."""
LOOPS = {"matmul": {"m": 256, "k": 256, "n": 256}, "softmax": {"b": 4, "h": 4, "s": 64, "t": 64},
         "attention": {"b": 4, "s": 32, "e": 128, "h": 16, "d": 8}}
"""The extents of the loops of those that `diffuse.spmd` knows."""


def inside(name: str, target: str) -> None:
    """Print the traffic of simulated or predicted ranks: runs as a program under `diffuse run`."""
    import diffuse
    from diffuse.runtime.mpi import traffic
    from diffuse.stream import engine

    kept: Any = traffic.kept
    app = importlib.import_module(f"apps.{name}")
    parser = argparse.ArgumentParser()
    app.arguments(parser)
    state = app.setup(parser.parse_args(SIZES[name]))
    for _ in range(WARM_UP):
        app.step(state)
    diffuse.fence()
    runtime: Any = engine.current().runtime
    before = kept.total(runtime.over_ranks)
    for _ in range(COUNTED):
        app.step(state)
    diffuse.fence()
    after = kept.total(runtime.over_ranks)
    found = {"bytes": (after.bytes - before.bytes) / COUNTED,
             "messages": (after.messages - before.messages) / COUNTED,
             "peak": max([one.peak for one in runtime.counted()], default=0)}
    Path(target).write_text(json.dumps(found))


def counted(name: str, option: str, ranks: int, cache: str) -> Measures:
    """A program on so many ranks, simulated or predicted, and the processor time that this takes."""
    import child

    environment = {**child.with_checkout(os.environ), "DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "64",
                   "DIFFUSE_FALLBACK": "silent", "DIFFUSE_CACHE_DIR": cache, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "diffuse", "run", option, str(ranks), __file__, "--inside", name]
    before = os.times()
    found = child.written(command, environment, PATIENCE)
    if "absent" in found:
        raise SystemExit(f"{name} {option} {ranks}: {found['absent']}")
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return {**found, "seconds": used}


def grids(ranks: int, loops: list[str]) -> Iterator[dict[str, int]]:
    """The grids of so many processes over some loops."""
    if not loops:
        if ranks == 1:
            yield {}
        return
    for parts in range(1, ranks + 1):
        if ranks % parts == 0:
            for rest in grids(ranks // parts, loops[1:]):
                yield {loops[0]: parts, **rest}


def best(name: str, ranks: int) -> tuple[str, float] | None:
    """The grid of a program that moves least, among those whose processes all have work, and its bytes."""
    from diffuse.spmd import KNOWN, Program
    from diffuse.spmd.program import words

    if name not in LOOPS:
        return None
    extents = LOOPS[name]
    program = KNOWN[name][0](**extents)
    assert isinstance(program, Program)
    found = [(8 * words(program, grid), " ".join([f"{k}:{n}" for k, n in grid.items() if n > 1]))
             for grid in grids(ranks, list(extents)) if all(n <= extents[k] for k, n in grid.items())]
    nbytes, said = min(found)
    return said, nbytes


def text(result: Measures) -> str:
    import table

    rows = []
    for row in result["rows"]:
        grid = row["best"] or ("-", None)
        rows.append((row["program"], str(row["ranks"]), f"{row['bytes']:,.0f}", f"{row['messages']:,.0f}",
                     f"{row['predicted']:,.0f}", table.reached(row["bytes"] == row["predicted"]),
                     f"{row['peak']:,}", table.seconds(row["seconds"]), grid[0],
                     "-" if grid[1] is None else f"{grid[1]:,.0f}"))
    head = ("program", "ranks", "bytes", "messages", "predicted", "equal", "peak of a rank", "processor time",
            "best grid", "bytes")
    return table.render("bytes an iteration, all ranks together", head, rows)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="the programs of papers/000 on simulated ranks")
    parser.add_argument("--quick", action="store_true", help="2 and 8 ranks")
    parser.add_argument("--ranks", type=int, nargs="*")
    parser.add_argument("--only", nargs="*", default=SIZES, help="programs: " + ", ".join(SIZES))
    parser.add_argument("--json", help="default bench/results/simulated.json")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.inside:
        inside(*args.inside)
        return
    import child
    import harness
    import machine

    sys.path.insert(0, str(ROOT))
    result: Measures = {"bench": "simulated", "rows": []}
    with child.scratch() as cache:
        for ranks in args.ranks or (QUICK if args.quick else RANKS):
            for name in args.only:
                found = counted(name, "--simulate", ranks, cache)
                foreseen = counted(name, "--predict", ranks, cache)
                result["rows"].append({"program": name, "ranks": ranks, **found, "best": best(name, ranks),
                                       "predicted": foreseen["bytes"]})
    result["machine"] = machine.description(1)
    print(text(result))
    harness.keep(result, "simulated", args.json)


if __name__ == "__main__":
    main()
