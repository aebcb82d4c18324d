"""Kernels of an ocean model and a step of a gas, by NumPy and by Diffuse side by side in one process, warm.

The step of the gas (bench/gas_step.py) goes from state to state; the kernels (bench/ocean_kernels.py) are
given the same arrays every time.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from typing import Any

import child
import harness
import machine
import ocean_kernels
import report
import side_by_side
import table
from side_by_side import Measures

SIZES = {4_096: 2.5, 65_536: 8.0, 1_048_576: 10.0}
"""Cells of the ocean, and how many times as fast as NumPy its kernels are to be."""
SIDES = {128: 1.5, 256: 4.0}
"""Cells along each side of the gas, likewise."""
STEP = "step of a gas"


def ocean(options: Measures) -> Measures:
    """The kernels at one size."""
    import numpy

    import diffuse.numpy

    plain, mine = (side_by_side.module("ocean_kernels", library) for library in (numpy, diffuse.numpy))
    given = plain.arrays(options["size"])
    copies = {name: diffuse.numpy.array(array) for name, array in given.items()}
    found = {}
    for name, names in ocean_kernels.KERNELS.items():
        if name in options["only"]:
            theirs = partial(getattr(plain, name), *[given[x] for x in names])
            ours = partial(getattr(mine, name), *[copies[x] for x in names])
            found[name] = side_by_side.measured(theirs, ours, options)
    return found


class Steps:
    """A gas on its way: each call is the next step."""

    def __init__(self, code: Any, state: Any) -> None:
        self.code, self.state = code, state

    def __call__(self) -> Any:
        self.state = self.code.step(self.state)
        return self.state


def gas(options: Measures) -> Measures:
    """The step of the gas at one size."""
    import numpy

    import diffuse.numpy

    plain, mine = (side_by_side.module("gas_step", library) for library in (numpy, diffuse.numpy))
    state = plain.start(options["size"])
    ours = Steps(mine, tuple(diffuse.numpy.array(x) for x in state))
    return {STEP: side_by_side.measured(Steps(plain, state), ours, options)}


def measured(options: Measures, args: argparse.Namespace) -> list[Measures]:
    """One row for each program and size, measured in a process of its own for each size."""
    rows = []
    for part, sizes in (("ocean", args.sizes), ("gas", args.sides if STEP in args.only else [])):
        for size in sizes:
            with tempfile.TemporaryDirectory(prefix="diffuse-bench-") as cache:
                found = child.ask(__file__, part, {**options, "size": size},
                                  machine.environment(args.threads, cache))
            if "absent" in found:
                raise SystemExit(f"ocean: {found['absent']}")
            asked = (SIZES if part == "ocean" else SIDES).get(size)
            cells = f"{size:,}" if part == "ocean" else f"{size} x {size}"
            rows += [{"program": name, "cells": cells, "asked": asked, **measures}
                     for name, measures in found.items()]
    return rows


def text(result: Measures) -> str:
    header = ("program", "cells", "NumPy", "Diffuse", "NumPy / Diffuse", "recorded", "tasks", "difference")
    rows = [[row["program"], row["cells"], table.seconds(row["numpy"]), table.seconds(row["diffuse"]),
             table.ratio(row["ratio"]), table.count(row["recorded"]), table.count(row["launched"]),
             f"{row['difference']:.0e}"] for row in result["rows"]]
    return table.render("kernels of an ocean model and a step of a gas, warm", header, rows) \
        + "\n" + report.goal_table(result["goals"])


def goals(result: Measures) -> list[Measures]:
    return [report.goal(f"{row['program']}, {row['cells']} cells: times as fast as NumPy", row["asked"],
                        row["ratio"])
            for row in result["rows"] if row["asked"] is not None]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="kernels of an ocean model and a step of a gas")
    harness.options(parser)
    parser.add_argument("--sizes", nargs="*", type=int, metavar="CELLS", default=list(SIZES))
    parser.add_argument("--sides", nargs="*", type=int, metavar="CELLS", default=list(SIDES))
    programs = [*ocean_kernels.KERNELS, STEP]
    parser.add_argument("--only", nargs="+", choices=programs, default=programs, metavar="PROGRAM",
                        help="of " + ", ".join(programs))
    args = parser.parse_args(argv)
    if args.quick:
        args.sizes, args.sides = [1728], [16]
    machine.bind(args.threads)
    options = {"rounds": args.rounds, "only": args.only, "warm": 0.0 if args.quick else 1.0,
               "seconds": 0.0 if args.quick else 1.5}
    result: Measures = {"bench": "ocean", "machine": machine.description(args.threads),
                        "rows": measured(options, args)}
    result["goals"] = goals(result)
    print(text(result))
    harness.keep(result, "ocean", args.json)


if __name__ == "__main__" and not child.answer({"ocean": ocean, "gas": gas}):
    main()
