"""Memory that a loop whose arrays have new shapes in every turn still holds after some thousand turns.

Each loop is a process of its own, under NumPy and under Diffuse.  Its extents are those of a shuffled range,
none of which comes again.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from importlib import import_module
from typing import Any

import child
import harness
import machine
import report
import table
from worker import memory

Measures = dict[str, Any]
MARKS = 1000, 2500, 5000, 10_000
"""The turns after which memory is looked at."""
LARGEST = 20_000
LIMIT = 2.0
"""Megabytes that a loop may grow by after the first mark."""


def elementwise(np: Any, n: int) -> float:
    x = np.ones(50_000 + n)
    y = (x * 2 + 1)[1:] - x[:-1]
    return float(y.sum())


def large(np: Any, n: int) -> float:
    x = np.ones(500_000 + n)
    y = (x * 2 + 1)[1:] - x[:-1]
    return float(y.sum())


def windows(np: Any, n: int) -> float:
    x = np.linspace(0.0, 1.0, 50_000 + n)
    for _ in range(5):
        x[1:-1] = (x[2:] + x[:-2]) * 0.5
    return float(np.sqrt(x).sum())


def joins(np: Any, n: int) -> float:
    x = np.ones(30_000 + n)
    y = np.pad(np.concatenate([x, x[:100 + n % 50] * 2]), 3)
    return float((y.reshape(1, -1) + 1)[0, 5] + y.sum())


def functions(np: Any, n: int) -> float:
    x = np.linspace(0.0, 1.0, 50_000 + n)
    y = np.clip(np.roll(np.where(x > 0.5, x, -x), 7), -0.2, 0.3)
    z = np.sort(np.diff(y).cumsum())
    return float(z[z > 0].sum() + np.median(z) + np.std(x[::3]))


def few(np: Any, n: int) -> float:
    x = np.ones((5 + n % 211, 6 + n // 211))
    y = np.diff(np.clip(np.roll(x, 2), -0.2, 0.3), axis=0).cumsum()
    return float(y[y > 0].sum() + np.stack([x, x]).mean(0).max() + (x @ x.T).trace())


LOOPS: dict[str, Callable[[Any, int], float]] = {
    function.__name__: function for function in (elementwise, large, windows, joins, functions, few)}


def turns(module: str, options: Measures) -> Measures:
    """In the child: megabytes at each mark over those before the loop."""
    np, loop = import_module(module), LOOPS[options["loop"]]
    extents = list(range(LARGEST))
    random.Random(5).shuffle(extents)
    before, found = memory("VmRSS"), []
    for turn, extent in enumerate(extents[:options["marks"][-1]], 1):
        loop(np, extent)
        if turn in options["marks"]:
            found.append((memory("VmRSS") - before) / 1e6)
    return {"megabytes": found}


CONTENDERS = {"numpy": lambda options: turns("numpy", options),
              "diffuse": lambda options: turns("diffuse.numpy", options)}


def measured(marks: list[int], loops: list[str], threads: int) -> Measures:
    found: Measures = {}
    for loop in loops:
        with child.scratch() as cache:
            environment = machine.environment(threads, cache)
            found[loop] = {name: child.ask(__file__, name, {"loop": loop, "marks": marks}, environment)
                           for name in CONTENDERS}
    return found


def goals(found: Measures) -> list[Measures]:
    grown = {loop: one["diffuse"]["megabytes"] for loop, one in found.items()
             if "megabytes" in one["diffuse"]}
    return [report.goal(f"{loop}: megabytes more at the last mark than at the first", LIMIT,
                        max(kept[-1] - kept[0], 0.0), at_least=False) for loop, kept in grown.items()]


def text(result: Measures) -> str:
    rows = [[loop, name, *[f"{value:.1f}" for value in one.get("megabytes", ())]]
            for loop, both in result["loops"].items() for name, one in both.items()]
    header = "loop", "", *[f"{mark:,}" for mark in result["marks"]]
    return (table.render("megabytes over those before the loop, after so many turns", header, rows) + "\n"
            + report.goal_table(result["goals"]))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="memory of loops of ever new shapes")
    harness.options(parser)
    parser.add_argument("--loops", nargs="*", metavar="NAME", default=list(LOOPS), choices=list(LOOPS),
                        help=f"of {', '.join(LOOPS)}")
    args = parser.parse_args(argv)
    machine.bind(args.threads)
    marks = [20, 60] if args.quick else list(MARKS)
    found = measured(marks, args.loops, args.threads)
    result: Measures = {"bench": "new_shapes", "marks": marks, "goals": goals(found), "loops": found,
                        "machine": machine.description(args.threads)}
    print(text(result))
    harness.keep(result, "new_shapes", args.json)


if __name__ == "__main__" and not child.answer(CONTENDERS):
    main()
