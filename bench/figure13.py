"""The paper's figure 13: tasks an iteration before and after fusion, and the window that Diffuse chose.

    python bench/figure13.py [--quick] [--apps NAME ...] [--sizes N ...] [--threads N]

Tasks are counted by Diffuse itself, as launches, with a window of one task (before) and as Diffuse chooses it
(after).  Counted are the iterations that 2 N have more than N, both from an empty window: what begins and
ends a run is in neither number.  Every operation is a task and every task is cut as the machine allows
(DIFFUSE_SMALL=0, DIFFUSE_MIN_CHUNK=1), so that the numbers are those of any size, as in the paper.  Two fused
tasks that run as one pass over memory count as two; their passes have a column of their own.
"""

from __future__ import annotations

import argparse
from typing import Any

import child
import contenders
import harness
import machine
import programs
import report
import table
from programs import Program

Measures = dict[str, Any]
COUNTED = {"DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "1", "DIFFUSE_COMPILE": "wait", "DIFFUSE_TRACE": "0"}
WARM_UP = 12
"""Iterations before counting: windows grow, plans are made, kernels compiled."""


def gained(worker: harness.Worker, iterations: int) -> Measures:
    """What the counters gained in so many iterations; RuntimeError for a process that failed."""
    answer = worker.ask(run=iterations)
    if why := harness.absent(answer):
        raise RuntimeError(why)
    return {name: round(n * iterations) for name, n in answer["gained"].items()}


def steady(worker: harness.Worker, iterations: int) -> Measures:
    """The counters' gain of one iteration among many, and the window at the end."""
    for _ in range(3):  # the groups with which a run begins are divided again at their second and third turn
        gained(worker, WARM_UP)
    one, two = gained(worker, iterations), gained(worker, 2 * iterations)
    return {name: (two[name] - one[name]) / iterations for name in two} | {
        "window": worker.ask(end=True)["window"]}


def count(program: Program, label: str, args: argparse.Namespace, cache: str) -> Measures:
    """One program in a process of its own, fused or not; {"absent": why} where it does not run."""
    chosen = {"size": args.sizes[0]} if args.sizes else {}
    options = {"dtype": "float64", "iterations": 0, **program.counted, **chosen}
    environment = contenders.environment(label, args.threads, cache) | COUNTED
    with machine.bound(args.threads):
        worker = harness.Worker(program.case, contenders.FUSED, options, environment)
    try:
        if why := harness.absent(worker.ready):
            return {"absent": why}
        return steady(worker, args.iterations)
    except RuntimeError as error:
        return {"absent": str(error)}
    finally:
        worker.close()


def measure(program: Program, args: argparse.Namespace, cache: str) -> Measures:
    """Both ways of one program."""
    before, after = (count(program, label, args, cache) for label in (contenders.SINGLY, contenders.FUSED))
    found = {"program": program.name, "paper": program.tasks._asdict()}
    if why := before.get("absent") or after.get("absent"):
        return found | {"absent": why}
    asked = program.asked * before["launched"] if program.share else program.asked
    return found | {"recorded": after["recorded"], "unfused": before["launched"], "fused": after["launched"],
                    "passes": after["launched"] - after["pipelined"], "window": after["window"],
                    "plans": after["plans"],
                    "goal": report.goal(f"{program.name}: tasks an iteration", asked, after["launched"],
                                        at_least=False)}


HEADER = ("program", "tasks", "fused", "passes", "window", "paper: tasks", "fused", "window", "asked",
          "reached")


def row(program: Program, found: Measures) -> list[str]:
    paper = [table.count(number) for number in program.tasks]
    if "absent" in found:
        return [program.name, *["-"] * 4, *paper, "-", "-"]
    ours = [table.count(round(found[name], 2)) for name in ("unfused", "fused", "passes", "window")]
    return [program.name, *ours, *paper, table.count(round(found["goal"]["asked"], 1)),
            table.reached(found["goal"]["reached"])]


def text(result: Measures) -> str:
    found = result["programs"]
    rows = [row(program, found[program.name]) for program in programs.chosen(found)]
    absent = [f"{name}: {f['absent']}" for name, f in found.items() if "absent" in f]
    unsteady = [f"{name}: {f['plans']:g} plans an iteration are still made: not steady"
                for name, f in found.items() if f.get("plans")]
    title = f"figure 13: tasks an iteration, {result['iterations']} iterations, {result['threads']} threads"
    return "\n".join([table.render(title, HEADER, rows), *absent, *unsteady,
                      "paper: Yadav et al., 2025, figure 13; gmg: two grids, one sweep, as there"])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="figure 13: tasks an iteration")
    programs.options(parser)
    parser.add_argument("--threads", type=int, default=len(machine.cpus()))
    parser.add_argument("--iterations", type=int, help="iterations counted (default 20, quick 5)")
    args = parser.parse_args(argv)
    args.iterations = args.iterations or (5 if args.quick else 20)
    result: Measures = {"bench": "figure13", "iterations": args.iterations, "threads": args.threads}
    with child.scratch() as cache:
        result["programs"] = {program.name: measure(program, args, cache)
                              for program in programs.chosen(args.apps)}
    result["goals"] = [f["goal"] for f in result["programs"].values() if "goal" in f]
    result["machine"] = machine.description(args.threads)
    print(text(result))
    harness.keep(result, "figure13", args.json)


if __name__ == "__main__":
    main()
