"""Diffuse on Legate: beside its own threads, NumPy and cuPyNumeric; the cost of a launch; several ranks.

    python bench/on_legate.py [--quick] [--cupynumeric PYTHON] [--programs NAME ...] [--tables NAME ...]

cuPyNumeric runs the same programs in an interpreter that has it: this one, or the one named.  Every step ends
with a wait for everything; a sample is several steps; contenders are processes of their own, in turn.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import black_scholes
import channel_flow
import child
import conjugate_gradient
import contenders
import harness
import launches
import machine
import ranks
import report
import stencil
import table
from case import Case
from contenders import LEGATE, LOCAL

Measures = dict[str, Any]

# Quick sizes are just large enough for tasks to be recorded (stream/brevity.py) and to have two points.
PROGRAMS = {case.name: case for case in (
    replace(black_scholes.CASE, quick=40_000),
    replace(channel_flow.CASE, size=1500, quick=200),
    replace(stencil.CASE, quick=500, batch=5),
    replace(conjugate_gradient.CASE, quick=200, batch=4),
)}
NAMES = ("numpy", *contenders.RUNTIMES, "cupynumeric")
TIMES_CUPYNUMERIC = {"black_scholes": 4.0, "channel_flow": 8.0, "stencil": 4.0}
TABLES = ("programs", "launches", "ranks")


def worker(case: Case, name: str, options: Measures, args: argparse.Namespace, cache: str) -> harness.Worker:
    """Start the process of a contender, which runs a program with a library in NumPy's place."""
    library = "diffuse" if name in contenders.RUNTIMES else name
    python = args.cupynumeric if name == "cupynumeric" else sys.executable
    return harness.Worker(case, library, options, contenders.environment(name, args.threads, cache), python)


def first_start(args: argparse.Namespace, cache: str) -> Measures:
    """Start a first process on Legate, which builds a library that all others find in the cache."""
    case = PROGRAMS["stencil"]
    first = worker(case, LEGATE, {"size": 4, "dtype": "float64", "iterations": 0}, args, cache)
    first.close()
    return first.ready


def measure(case: Case, args: argparse.Namespace, cache: str) -> Measures:
    """Measure all contenders on one program."""
    size = case.quick if args.quick else case.size
    options = {"size": size, "dtype": "float64", "iterations": 0}
    found: dict[str, Measures] = {}
    workers: dict[str, harness.Worker] = {}
    with child.scratch() as scratch:
        try:
            for name in args.only or NAMES:
                if name == "cupynumeric" and args.cupynumeric is None:
                    found[name] = {"absent": "not in this interpreter; --cupynumeric names one that has it"}
                    continue
                folder = Path(scratch) / name
                workers[name] = worker(case, name, options, args, cache)
                found[name] = harness.warm_up(workers[name], args, folder)
                if "absent" in found[name]:
                    workers.pop(name).close()
                elif "numpy" in workers:
                    found[name] |= harness.difference(folder, Path(scratch) / "numpy")
                if name != "numpy":
                    shutil.rmtree(folder, ignore_errors=True)
            for name, samples in harness.rounds(case, workers, args).items():
                found[name] |= harness.settled(workers[name], samples)
        finally:
            for each in workers.values():
                each.close()
    result = {"bench": case.name, "size": size, "batch": args.batch or case.batch, "contenders": found}
    return result | {"goals": goals(result)}


def quotient(result: Measures, over: str, under: str, field: str = "median") -> float | None:
    """What `over` takes divided by what `under` takes."""
    one, other = report.present(result, over), report.present(result, under)
    return one[field] / other[field] if one and other else None


def goals(result: Measures) -> list[Measures]:
    """The goals: Legate costs little beside our own threads, and fusion gains much over cuPyNumeric."""
    name = result["bench"]
    rows = [report.goal(f"{name}: legate / local", 1.2, quotient(result, LEGATE, LOCAL), at_least=False)]
    if asked := TIMES_CUPYNUMERIC.get(name):
        measured = quotient(result, "cupynumeric", LEGATE)
        rows.append(report.goal(f"{name}: times as fast as cuPyNumeric", asked, measured))
    return rows


HEADER = ("contender", "iteration", "quartiles", "cpu", "/ local", "cpu / local", "cuPyNumeric /", "of cpu",
          "tasks", "peak", "start-up", "off NumPy")


def row(name: str, found: Measures, result: Measures) -> list[str]:
    low, high = found["quartiles"]
    return [name, table.seconds(found["median"]), f"{table.seconds(low)} .. {table.seconds(high)}",
            table.seconds(found["cpu"]),
            table.ratio(quotient(result, name, LOCAL)), table.ratio(quotient(result, name, LOCAL, "cpu")),
            table.ratio(quotient(result, "cupynumeric", name)),
            table.ratio(quotient(result, "cupynumeric", name, "cpu")),
            table.count(found["gained"].get("launched")), table.megabytes(found["peak"]),
            table.seconds(found["started"]), report.agreement(found)]


def text(result: Measures) -> str:
    """The table of one program, and why a contender is not in it."""
    found = result["contenders"]
    rows = [row(name, found[name], result) for name in found if report.present(result, name)]
    title = f"{result['bench']}, size {result['size']:,}, samples of {result['batch']} iterations"
    absent = [f"{name}: {found[name].get('absent', 'gave no sample').splitlines()[0][:200]}" for name in found
              if not report.present(result, name)]
    return "\n".join([table.render(title, HEADER, rows), *absent])


def has_cupynumeric() -> str | None:
    """This interpreter, if it has cuPyNumeric."""
    return sys.executable if importlib.util.find_spec("cupynumeric") else None


def options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Diffuse on Legate beside its peers")
    harness.options(parser)
    parser.set_defaults(rounds=5)
    parser.add_argument("--batch", type=int, help="iterations of one sample")
    parser.add_argument("--warmup", type=int, default=3, help="iterations dropped after the first")
    parser.add_argument("--cupynumeric", metavar="PYTHON", default=has_cupynumeric(),
                        help="an interpreter that has cuPyNumeric (default: this one, if it has)")
    parser.add_argument("--only", nargs="*", choices=NAMES, help="contenders of the table of programs")
    parser.add_argument("--programs", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=list(TABLES))
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    args = options(argv)
    machine.bind(args.threads)
    result: Measures = {"bench": "on_legate", "programs": {}, "goals": [], "rounds": args.rounds}
    with child.scratch() as cache:
        result["first start"] = first_start(args, cache)
        for name in args.programs if "programs" in args.tables else ():
            found = result["programs"][name] = measure(PROGRAMS[name], args, cache)
            result["goals"] += found["goals"]
            print(text(found), flush=True)
        if "launches" in args.tables:
            found = result["launches"] = launches.measure(args, cache)
            result["goals"] += launches.goals(found)
            print(launches.text(found), flush=True)
        if "ranks" in args.tables:
            result["ranks"] = ranks.measure(args, cache)
            print(ranks.text(result["ranks"]), flush=True)
    started = harness.absent(result["first start"]) or table.seconds(result["first start"]["started"])
    print(f"\nstart-up of a first process, with what it builds once: {started}")
    result["machine"] = machine.description(args.threads)
    print(f"load {result['machine']['load']:.1f} on {result['machine']['cpus']} cpus")
    print(report.goal_table(result["goals"]))
    harness.keep(result, "on_legate", args.json)


if __name__ == "__main__":
    main()
