"""Kernels of an ocean model and a step of a gas, by NumPy and by Diffuse side by side, warm.

The step of the gas (bench/gas_step.py) goes from state to state; the kernels (bench/ocean_kernels.py) are
given the same arrays every time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import harness
import machine
import ocean_kernels
import report
import side_by_side
import table
from side_by_side import Measures

SIZES = {4_096: 2.5, 65_536: 8.0, 1_048_576: 10.0}
"""Numbers of cells of the ocean, and how many times as fast as NumPy its kernels are to be."""
SIDES = {128: 1.5, 256: 4.0}
"""Numbers of cells along each side of the gas, and how many times as fast as NumPy a step is to be."""
STEP = "step of a gas"
WARM = 35
"""Calls before the samples: as many until all kernels are compiled, and as many until Diffuse has taken the
decisions that depend on earlier calls."""


def start(library: Any, options: Measures) -> Callable[[], Any]:
    """The function that is measured; its arguments are arrays of the library."""
    import numpy

    name, size = options["program"], options["size"]
    if name == STEP:
        state = side_by_side.module("gas_step", numpy).start(size)
        return Steps(side_by_side.module("gas_step", library), tuple([library.array(x) for x in state]))
    arrays = side_by_side.module("ocean_kernels", numpy).arrays(size)
    code = side_by_side.module("ocean_kernels", library)
    return partial(getattr(code, name), *[library.array(arrays[x]) for x in ocean_kernels.KERNELS[name]])


class Steps:
    """A simulation of the gas, whose every call computes the next step."""

    def __init__(self, code: Any, state: Any) -> None:
        self.code, self.state = code, state

    def __call__(self) -> Any:
        self.state = self.code.step(self.state)
        return self.state


def measured(args: argparse.Namespace) -> list[Measures]:
    """One row for each program and size."""
    runs = [(name, size, SIZES.get(size), f"{size:,}")
            for size in args.sizes for name in ocean_kernels.KERNELS]
    runs += [(STEP, size, SIDES.get(size), f"{size} x {size}") for size in args.sides]
    return [{"program": name, "cells": cells, "asked": asked,
             **side_by_side.measured(__file__, {"program": name, "size": size}, args.threads,
                                     1 if args.quick else WARM, args.rounds)}
            for name, size, asked, cells in runs if name in args.only]


def text(result: Measures) -> str:
    header = ("program", "cells", "NumPy", "Diffuse", "NumPy / Diffuse", "recorded", "tasks", "difference")
    rows = [[row["program"], row["cells"], table.seconds(row["numpy"]), table.seconds(row["diffuse"]),
             table.ratio(row["ratio"]), table.count(row["recorded"]), table.count(row["launched"]),
             f"{row['difference']:.0e}"] for row in result["rows"]]
    return (table.render("kernels of an ocean model and a step of a gas, warm", header, rows)
            + "\n" + report.goal_table(result["goals"]))


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
        args.sizes, args.sides, args.rounds = [1728], [16], 1
    machine.bind(args.threads)
    result: Measures = {"bench": "ocean", "machine": machine.description(args.threads),
                        "rows": measured(args)}
    result["goals"] = goals(result)
    print(text(result))
    harness.keep(result, "ocean", args.json)


if __name__ == "__main__" and not side_by_side.serve(start):
    main()
