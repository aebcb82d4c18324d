"""Two ranks of one thread each against one: the same work, in how much less time?

    python bench/speedup.py [--quick] [--programs NAME ...] [--ways WAY ...] [--elements N] [--rounds N]

`apart` is what the machine allows: two processes that share nothing but its memory each run the program on
half of the elements, at the same time.  Ranks can be faster than that only as far as half of the elements of
a square array take more than half of the time.  Compiling is not timed.  The file is also the program that
runs in each process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import child
from case import ROOT, application, options

Measures = dict[str, Any]
PROGRAMS = ("stencil", "shallow_water", "cg", "bicgstab", "channel_flow")
WAYS = {
    "one": ("--threads", "1"),
    "apart": ("--threads", "1"),
    "mpi": ("--runtime", "mpi", "--ranks", "2", "--cpus", "1"),
    "legate": ("--runtime", "legate", "--ranks", "2", "--cpus", "1"),
}
"""Ways to run a program, with the options of `diffuse run`."""
ASKED = 1.5
"""How many times as fast as one rank two ranks should be."""
WARM_UP, BATCH = 8, 2
PATIENCE = 600


def inside(name: str, elements: str, rounds: str, target: str) -> None:
    """In each process: time steps of a program whose arrays have so many elements."""
    import diffuse
    from diffuse.stream import engine

    app = application(name)
    size = round(int(elements) ** 0.5)
    state = app.setup(options(app, argparse.Namespace(size=size, dtype="float64", iterations=0)))
    for _ in range(WARM_UP):
        app.step(state)
    diffuse.fence()
    found = []
    for _ in range(int(rounds)):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(BATCH):
            app.step(state)
        diffuse.fence()
        found.append(((time.perf_counter() - wall) / BATCH, (time.process_time() - cpu) / BATCH))
    rank = getattr(engine.current().runtime, "rank", 0)
    seconds, used = (statistics.median(column) for column in zip(*found, strict=True))
    Path(f"{target}.{rank}").write_text(json.dumps({"seconds": seconds, "cpu": used}))


def measured(name: str, way: str, args: argparse.Namespace, cache: str) -> Measures:
    """A program run in one way: the time of the slowest process."""
    import child
    import contenders

    environment = {**child.with_checkout(contenders.environment(contenders.LOCAL, 1, cache)),
                   "DIFFUSE_COMPILE": "wait", "DIFFUSE_FALLBACK": "silent"}
    del environment["DIFFUSE_RUNTIME"]
    copies = 2 if way == "apart" else 1
    with child.scratch() as folder:
        command = [sys.executable, "-m", "diffuse", "run", *WAYS[way], __file__, "--inside", name,
                   str(args.elements // copies), str(args.rounds)]
        running = [subprocess.Popen([*command, str(Path(folder, str(k)))], env=environment, cwd=ROOT,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                   for k in range(copies)]
        for process in running:
            _, said = process.communicate(timeout=PATIENCE)
            if process.returncode:
                return {"absent": child.ended(process.returncode, said)}
        found = [json.loads(path.read_text()) for path in Path(folder).iterdir()]
    return {key: max([each[key] for each in found]) for key in ("seconds", "cpu")}


def text(result: Measures) -> str:
    import table

    rows, absent = [], []
    for name, ways in result["programs"].items():
        one = ways.get("one", {}).get("seconds")
        for way, found in ways.items():
            if "absent" in found:
                absent.append(f"{name}, {way}: {found['absent']}")
                continue
            times = f"{one / found['seconds']:.2f} x" if one else "-"
            rows.append((name, way, table.seconds(found["seconds"]), table.seconds(found["cpu"]), times))
    title = f"{result['elements']:,} elements, an iteration; asked of two ranks: {ASKED} x"
    return "\n".join([table.render(title, ("program", "way", "time", "cpu a process", "one / time"), rows),
                      *absent])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="two ranks of one thread each against one")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS, metavar="NAME")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY")
    parser.add_argument("--quick", action="store_true", help="40,000 elements: does everything work?")
    parser.add_argument("--elements", type=int, default=10_000_000, metavar="N")
    parser.add_argument("--rounds", type=int, default=7, metavar="N")
    parser.add_argument("--json", help="default bench/results/speedup.json")
    parser.add_argument("--inside", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.inside:
        inside(*args.inside)
        return
    import harness
    import machine

    if args.quick:
        args.elements, args.rounds = 40_000, 2
    with child.scratch() as empty:
        cache = os.environ.get("DIFFUSE_CACHE_DIR", empty)
        result: Measures = {"bench": "speedup", "elements": args.elements, "programs": {
            name: {way: measured(name, way, args, cache) for way in args.ways} for name in args.programs}}
    result["machine"] = machine.description(1)
    print(text(result))
    harness.keep(result, "speedup", args.json)


if __name__ == "__main__":
    main()
