"""Ordinary programs as whole processes: `python program.py` beside `diffuse run program.py`.

Every program of apps/everyday runs at each size alone, under Diffuse with an empty kernel cache and under
Diffuse with the kernels of an earlier run, in turn, round after round.  A ratio is NumPy's time over
Diffuse's: above 1 Diffuse is faster.  "Work" is the time that the program itself measures, after its imports;
"process" is the time from starting Python to its end.  The results that a program prints must agree within
the tolerance that it prints beside them.

Each program is printed and stored when it is measured.  `--resume` goes on with the stored result of a run
that was ended: programs that it holds are not measured again, so that a long table can be measured in parts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import child
import harness
import machine
import report
import table
from case import ROOT

Measures = dict[str, Any]
FOLDER = ROOT / "apps" / "everyday"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "common")
SIZES = ("small", "medium", "large")
RUNS = ("numpy", "empty", "warm")
RESULT = re.compile(r"^(.+) (\S+) within (\S+)$", re.M)
SECONDS = re.compile(r"^([0-9.]+) seconds$", re.M)
PATIENCE = 300
"""Seconds after which a program is ended."""
LONG = 20
"""Seconds of one round after which a program gets no more rounds."""

FLOORS = {"small": (0.9, 0.85), "medium": (0.9, 0.8), "large": (0.95, 0.95)}
"""What no program may fall below, with a warm and with an empty cache."""
MEANS = {"medium": (1.5, 1.0), "large": (5.0, 5.0)}
"""Geometric means that are asked for, with a warm and with an empty cache."""
START, START_MEMORY = 60.0, 40.0
"""Milliseconds and megabytes that importing Diffuse may take beyond importing NumPy."""


def process(words: list[str], environment: dict[str, str]) -> Measures:
    """Run Python on these words: wall-clock and processor seconds, peak memory, what it printed.

    It prints to a file, since a process of its own that outlives it would hold a pipe open.
    """
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        running = subprocess.Popen([sys.executable, *words], env=environment, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        end = threading.Timer(PATIENCE, os.killpg, (running.pid, signal.SIGKILL))
        end.start()
        try:
            _, status, usage = os.wait4(running.pid, 0)
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)
            raise
        finally:
            end.cancel()
        wall = time.perf_counter() - start
        running.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        printed = output.read()
    found = {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss * 1024}
    if running.returncode:
        why = f"no end in {PATIENCE} s" if wall > PATIENCE else f"status {running.returncode}"
        return {**found, "failed": f"{why}: {(printed.strip().splitlines() or [''])[-1]}"}
    return {**found, "printed": printed}


def run(program: str, size: str, under: str, environment: dict[str, str]) -> Measures:
    """One run of a program; "seconds" is the time of its own work."""
    words = [str(FOLDER / f"{program}.py"), size]
    found = process(words if under == "numpy" else ["-m", "diffuse", "run", *words], environment)
    if "failed" in found:
        return found
    said = SECONDS.search(found["printed"])
    return {**found, "seconds": float(said[1])} if said else {**found, "failed": "printed no time"}


def difference(plain: str, ours: str) -> str | None:
    """A printed result that is not NumPy's within the program's own tolerance, as a sentence."""
    expected, found = RESULT.findall(plain), RESULT.findall(ours)
    if [name for name, *_ in expected] != [name for name, *_ in found]:
        return f"{len(expected)} results under NumPy, {len(found)} others under Diffuse"
    for (name, theirs, within), (_, value, _) in zip(expected, found, strict=True):
        if theirs != value and not abs(float(value) - float(theirs)) <= float(within) * abs(float(theirs)):
            return f"{name} is {theirs} under NumPy and {value} under Diffuse, tolerance {within}"
    return None


def medians(runs: list[Measures]) -> Measures:
    """One column of the table: the median of each number, or why there is none."""
    failed = [one for one in runs if "failed" in one]
    if failed:
        return {"failed": failed[0]["failed"]}
    return {key: statistics.median(one[key] for one in runs) for key in ("seconds", "wall", "cpu", "peak")}


def measured(program: str, size: str, args: argparse.Namespace) -> Measures:
    """All runs of one program at one size; warm runs find the kernels of the first with an empty cache."""
    runs: dict[str, list[Measures]] = {under: [] for under in RUNS}
    said: list[str] = []
    with child.scratch() as scratch:
        for number in range(args.rounds):
            start = time.perf_counter()
            for under in RUNS:
                cache = os.path.join(scratch, str(number if under == "empty" else 0))
                environment = {**machine.environment(args.threads, cache), "PYTHONPATH": str(ROOT)}
                runs[under].append(run(program, size, under, environment))
            if all("printed" in runs[under][-1] for under in RUNS):
                plain, *others = (runs[under][-1]["printed"] for under in RUNS)
                said += [why for other in others if (why := difference(plain, other))]
            if time.perf_counter() - start > LONG:
                break
    found: Measures = {under: medians(runs[under]) for under in RUNS}
    return {**found, "differs": said[0] if said else None}


def ratio(found: Measures, under: str, what: str) -> float | None:
    """NumPy's time over Diffuse's."""
    if "failed" in found["numpy"] or "failed" in found[under]:
        return None
    quotient: float = found["numpy"][what] / max(found[under][what], 1e-9)
    return quotient


def starts(args: argparse.Namespace) -> Measures:
    """What importing costs: medians of wall-clock seconds and of peak memory, in turn."""
    words = {"python": "pass", "numpy": "import numpy", "diffuse": "import diffuse.numpy"}
    runs: dict[str, list[Measures]] = {name: [] for name in words}
    with child.scratch() as cache:
        environment = {**machine.environment(args.threads, cache), "PYTHONPATH": str(ROOT)}
        for _ in range(3 if args.quick else 15):
            for name, code in words.items():
                runs[name].append(process(["-c", code], environment))
    return {name: {key: statistics.median(one[key] for one in found) for key in ("wall", "cpu", "peak")}
            for name, found in runs.items()}


HEADER = ("program", "NumPy", "warm", "empty cache", "warm x", "empty x", "process", "warm x", "empty x",
          "peak, NumPy", "warm", "agrees")


def row(program: str, found: Measures) -> list[str]:
    numbers = [table.seconds(found[under].get("seconds")) for under in RUNS[:1] + RUNS[:0:-1]]
    numbers += [table.ratio(ratio(found, under, "seconds")) for under in ("warm", "empty")]
    numbers += [table.seconds(found["numpy"].get("wall"))]
    numbers += [table.ratio(ratio(found, under, "wall")) for under in ("warm", "empty")]
    numbers += [table.megabytes(found[under].get("peak")) for under in ("numpy", "warm")]
    return [program, *numbers, table.reached(found["differs"] is None)]


def worst_first(programs: dict[str, Measures]) -> list[tuple[str, Measures]]:
    return sorted(programs.items(), key=lambda item: ratio(item[1], "warm", "seconds") or 0.0)


def complaints(programs: dict[str, Measures]) -> Iterator[str]:
    """Programs that failed or whose results differ, one line each."""
    for program, found in programs.items():
        for under in RUNS:
            if "failed" in found[under]:
                yield f"{program}, {under}: {found[under]['failed']}"
        if found["differs"]:
            yield f"{program}: {found['differs']}"


def means(programs: dict[str, Measures], under: str, what: str) -> float | None:
    ratios = [r for found in programs.values() if (r := ratio(found, under, what)) is not None]
    return statistics.geometric_mean(ratios) if ratios else None


def goals(result: Measures) -> list[Measures]:
    rows = []
    for size, programs in result["sizes"].items():
        for place, under in enumerate(("warm", "empty")):
            if size in MEANS:
                rows.append(report.goal(f"{size}, {under} cache: geometric mean", MEANS[size][place],
                                        means(programs, under, "seconds")))
            if size in FLOORS:
                lowest = [ratio(found, under, "seconds") or 0.0 for found in programs.values()]
                rows.append(report.goal(f"{size}, {under} cache: lowest", FLOORS[size][place], min(lowest)))
        rows.append(report.goal(f"{size}: programs that failed or differ", 0,
                                len(list(complaints(programs))), at_least=False))
    ours, numpy = result["start"]["diffuse"], result["start"]["numpy"]
    rows.append(report.goal("import: milliseconds more than NumPy's", START,
                            1e3 * (ours["wall"] - numpy["wall"]), at_least=False))
    rows.append(report.goal("import: megabytes more than NumPy's", START_MEMORY,
                            (ours["peak"] - numpy["peak"]) / 1e6, at_least=False))
    return rows


def text(result: Measures) -> str:
    lines = []
    for size, programs in result["sizes"].items():
        rows = [row(program, found) for program, found in worst_first(programs)]
        work, whole = ([table.ratio(means(programs, under, what)) for under in ("warm", "empty")]
                       for what in ("seconds", "wall"))
        summary = ["geometric mean", "", "", "", *work, "", *whole, "", "", ""]
        lines += [table.render(f"everyday programs, {size}: NumPy / Diffuse", HEADER, [*rows, summary])]
        lines += complaints(programs)
    cells = [[name, table.seconds(found["wall"]), table.seconds(found["cpu"]), table.megabytes(found["peak"])]
             for name, found in result["start"].items()]
    lines += [table.render("start", ("import of", "process", "processor", "peak"), cells)]
    lines += [f"load {result['machine']['load']:.1f} on {result['machine']['cpus']} cpus"]
    return "\n".join(lines) + "\n" + report.goal_table(result["goals"])


def stored(path: str | None) -> Measures:
    """The result that an earlier run has stored, or none."""
    file = harness.target("everyday", path)
    found: Measures = json.loads(file.read_text()) if file.exists() else {}
    return found


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="ordinary programs as whole processes")
    harness.options(parser)
    parser.set_defaults(rounds=3)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS, metavar="NAME",
                        help="of " + ", ".join(PROGRAMS))
    parser.add_argument("--sizes", nargs="+", choices=("tiny", *SIZES), default=SIZES, metavar="SIZE",
                        help="of tiny, " + ", ".join(SIZES))
    parser.add_argument("--resume", action="store_true", help="keep the programs of the stored result")
    args = parser.parse_args(argv)
    if args.quick:
        args.sizes, args.rounds = ("tiny",), 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended: --resume goes on"))
    machine.bind(args.threads)
    before = stored(args.json) if args.resume else {}
    result: Measures = {"bench": "everyday", "rounds": args.rounds,
                        "start": before.get("start") or starts(args), "sizes": before.get("sizes", {}),
                        "machine": machine.description(args.threads)}
    for size in args.sizes:
        programs = result["sizes"].setdefault(size, {})
        for program in args.programs:
            if program not in programs:
                programs[program] = measured(program, size, args)
                print(size, *row(program, programs[program]), sep="  ", flush=True)
                harness.keep(result, "everyday", args.json)
    result["goals"] = goals(result)
    print(text(result))
    harness.keep(result, "everyday", args.json)


if __name__ == "__main__":
    main()
