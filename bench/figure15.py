"""The paper's figure 15: the time of warm-up, and the iterations after which fusing has paid for compiling.

    python bench/figure15.py [--quick] [--apps NAME ...] [--sizes N ...] [--threads N] [--runs N]

Every run is a process of its own, whose iterations are timed one by one, each to its last result, from the
first on.  Fused Diffuse runs cold, with nothing compiled yet, and warm: in a second process that finds the
kernels of the first on disk.  Its peers are NumPy (with SciPy) and unfused Diffuse, whose kernels are on disk
already, as the tasks of the paper's unfused programs are compiled beforehand.

Warm-up lasts as long as plans are made, kernels compiled or tasks interpreted; the peers' is the time of as
many iterations.  Break-even is the first iteration at whose end Diffuse has spent no more time than a peer,
both since their first one began: as measured, or later at the pace of the last half of the measured
iterations.  The times of several runs are medians, iteration by iteration.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import child
import contenders
import harness
import machine
import programs
import report
import speeds
import table
from contenders import FUSED, SINGLY
from programs import Program

Measures = dict[str, Any]
ITERATIONS, LEAST, MOST = 12, 4, 100
"""The iterations of a run; the fewest, if they take longer than PATIENCE seconds; and the most, if kernels
are not ready before."""
PATIENCE = 10.0
COLD, WARM = "cold", "warm"
COLD_GOAL, WARM_GOAL = 5, 1
BUSY = ("plans", "compilations", "interpreted")


def pace(times: Sequence[float]) -> float:
    """Seconds of an iteration after warm-up: the median of the last half."""
    return statistics.median(times[len(times) // 2:])


def lengthened(times: Sequence[float], iterations: int) -> list[float]:
    """Extend the times to so many iterations: those that were not measured take what the last half took."""
    return [*times, *[pace(times)] * (iterations - len(times))]


def break_even(ours: Sequence[float], theirs: Sequence[float]) -> int | None:
    """The first iteration at whose end `ours` took no longer than `theirs`, both from the start.

    After the measured iterations, each takes what the last half took.  None if `ours` never catches up.
    """
    measured = max(len(ours), len(theirs))
    totals = list(zip(*(accumulate(lengthened(times, measured)) for times in (ours, theirs)), strict=True))
    for iteration, (one, other) in enumerate(totals, 1):
        if one <= other:
            return iteration
    behind, gain = totals[-1][0] - totals[-1][1], pace(theirs) - pace(ours)
    return measured + math.ceil(behind / gain) if gain > 0.0 else None


def warm_up(busy: Sequence[bool]) -> int:
    """The number of iterations up to the last one that did more than compute; one at least."""
    return max((i for i, at_work in enumerate(busy, 1) if at_work), default=1)


def settled(busy: Sequence[bool]) -> bool:
    """Are these enough iterations, and did the last half of the usual number only compute?"""
    return len(busy) >= MOST or (len(busy) >= ITERATIONS and not any(busy[-ITERATIONS // 2:]))


def run(program: Program, label: str, size: int, args: argparse.Namespace, cache: str) -> Measures:
    """Run a program in a new process: the time of each iteration, and whether it made plans or compiled."""
    contender = label if label in program.case.contenders else FUSED
    environment = contenders.environment(label, args.threads, cache)
    options = {"size": size, "dtype": "float64", "iterations": 0}
    with machine.bound(args.threads):
        worker = harness.Worker(program.case, contender, options, environment)
    times: list[float] = []
    busy: list[bool] = []
    try:
        while len(times) < LEAST or (sum(times) < PATIENCE and not settled(busy)):
            answer = worker.ready if harness.absent(worker.ready) else worker.ask(run=1)
            if why := harness.absent(answer):
                return {"absent": why}
            times.append(answer["seconds"])
            busy.append(any(answer["gained"].get(name) for name in BUSY))
    finally:
        worker.close()
    return {"times": times, "busy": busy}


def one_round(program: Program, size: int, args: argparse.Namespace, kept: str) -> dict[str, Measures]:
    """Run each contender once; the folder `kept` has the kernels of unfused Diffuse."""
    with child.scratch() as empty:
        ways = {"numpy": ("numpy", kept), SINGLY: (SINGLY, kept), COLD: (FUSED, empty), WARM: (FUSED, empty)}
        return {way: run(program, label, size, args, cache) for way, (label, cache) in ways.items()}


def middle(runs: Sequence[Measures]) -> Measures:
    """Combine several runs: the median time of each iteration, up to the length of the longest run."""
    if why := next((run["absent"] for run in runs if "absent" in run), None):
        return {"absent": why}
    longest = max(len(run["times"]) for run in runs)
    times = zip(*(lengthened(run["times"], longest) for run in runs), strict=True)
    return {"times": [statistics.median(each) for each in times],
            "warm-up": max(warm_up(run["busy"]) for run in runs), "runs": [run["times"] for run in runs]}


def measure(program: Program, size: int, args: argparse.Namespace) -> Measures:
    """Measure one program: its runs, where it breaks even, and its goals."""
    with child.scratch() as kept:
        run(program, SINGLY, size, args, kept)
        rounds = [one_round(program, size, args, kept) for _ in range(args.runs)]
    found = {way: middle([each[way] for each in rounds]) for way in rounds[0]}
    result: Measures = {"program": program.name, "size": size, "ways": found,
                        "paper": program.warm_up._asdict()}
    if why := next((way["absent"] for way in found.values() if "absent" in way), None):
        return result | {"absent": why, "goals": []}
    evens = {f"{way}, {peer}": break_even(found[way]["times"], found[peer]["times"])
             for peer in (SINGLY, "numpy") for way in (COLD, WARM)}
    goals = [report.goal(f"{program.name}, {size:,}: break-even with NumPy, {way}", asked,
                         evens[f"{way}, numpy"], at_least=False)
             for way, asked in ((COLD, COLD_GOAL), (WARM, WARM_GOAL))]
    return result | {"break-even": evens, "goals": goals}


HEADER = ("program, size", "warm-up", "cold", "warm", "unfused", "NumPy", "unfused: cold", "warm",
          "NumPy: cold", "warm", "paper: standard", "compiled", "break-even")


def row(point: Measures) -> list[str]:
    """A row of the table: seconds of warm-up, then the iterations at which Diffuse breaks even."""
    found, paper = point["ways"], point["paper"]
    count = found[COLD]["warm-up"]
    seconds = [table.seconds(sum(lengthened(found[way]["times"], n)[:n])) for way, n in (
        (COLD, count), (WARM, found[WARM]["warm-up"]), (SINGLY, count), ("numpy", count))]
    evens = ["never" if n is None else str(n) for n in point["break-even"].values()]
    return [f"{point['program']}, {point['size']:,}", str(count), *seconds, *evens,
            table.seconds(paper["standard"]), table.seconds(paper["compiled"]),
            "N/A" if paper["iterations"] is None else f"{paper['iterations']:g}"]


def text(result: Measures) -> str:
    points = result["points"]
    rows = [row(point) for point in points if "absent" not in point]
    title = (f"figure 15: warm-up and break-even, {result['threads']} threads, "
             f"medians of {result['runs']} runs")
    absent = [f"{point['program']}: {point['absent']}" for point in points if "absent" in point]
    return "\n".join([
        table.render(title, HEADER, rows), *absent,
        "warm-up: iterations of the cold run; cold, warm, unfused, NumPy: its time; then break-even, in",
        "iterations, with unfused Diffuse and with NumPy; paper: Yadav et al., 2025, figure 15, on 8 GPUs"])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="figure 15: warm-up and break-even")
    programs.options(parser)
    parser.add_argument("--threads", type=int, default=len(machine.cpus()))
    parser.add_argument("--runs", type=int, help="processes of each kind, default 3, quick 1")
    args = parser.parse_args(argv)
    args.runs = args.runs or (1 if args.quick else 3)
    points = [measure(program, size, args) for program in programs.chosen(args.apps)
              for size in args.sizes or (program.quick if args.quick else program.sizes[-1],)]
    result: Measures = {"bench": "figure15", "threads": args.threads, "runs": args.runs, "points": points,
                        "goals": [goal for point in points for goal in point["goals"]],
                        "machine": machine.description(args.threads)}
    print(text(result))
    print(report.goal_table(result["goals"]))
    print(speeds.too_small(points), end="")
    harness.keep(result, "figure15", args.json)


if __name__ == "__main__":
    main()
