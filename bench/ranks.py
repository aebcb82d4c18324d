"""Weak scaling: the same work for each of 1, 2 and 4 ranks of Legate, all of them on this machine.

The file is also the program that `diffuse run --ranks N` runs: a program of apps/, some steps, and one JSON
file a rank.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import contenders
import machine
import table
from case import ROOT, application
from worker import memory

Measures = dict[str, Any]
RANKS = (1, 2, 4)
PATIENCE = 180
"""Seconds after which a run is given up."""
PROGRAMS = {"black_scholes": (2_000_000, 1), "conjugate_gradient": (1000, 2)}
"""Size for one rank, and the power of it that the work grows with."""
QUICK = {"black_scholes": 40_000, "conjugate_gradient": 200}
REMARK = ("all ranks share this machine's {cpus} cores, and no more than that run at a time; one rank sends\n"
          "no messages, and its tasks of one point fuse with more of their neighbours")


def run(name: str, size: int, count: int, args: argparse.Namespace, cache: str) -> Measures:
    """One program on so many ranks."""
    with tempfile.TemporaryDirectory(prefix="diffuse-bench-") as folder:
        return answers(Path(folder), name, size, count, args, cache)


def answers(folder: Path, name: str, size: int, count: int, args: argparse.Namespace, cache: str) -> Measures:
    """What the ranks wrote into the folder, or why they did not."""
    command = [sys.executable, "-m", "diffuse", "run", "--ranks", str(count), "--cpus", "1", __file__,
               name, str(size), str(args.rounds), str(folder)]
    environment = contenders.environment(contenders.LEGATE, 1, cache)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
    began = time.time()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True, cwd=ROOT, start_new_session=True)
    try:
        _, said = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        end(process)
        return {"absent": f"not done after {PATIENCE} s"}
    found = [json.loads(path.read_text()) for path in folder.glob("rank-*.json")]
    if process.returncode or len(found) != count:
        lines = [line for line in said.splitlines() if any(map(str.isalpha, line))]
        return {"absent": f"status {process.returncode}, {len(found)} of {count} ranks answered: "
                          + (lines or ["no message"])[-1][:200]}
    return {"median": max(each["seconds"] for each in found), "cpu": sum(each["cpu"] for each in found),
            "rss": max(each["rss"] for each in found), "peak": max(each["peak"] for each in found),
            "tasks": found[0]["tasks"], "started": max(each["started"] for each in found) - began}


def end(process: subprocess.Popen[str]) -> None:
    """End a launcher, which has to end its ranks: they are in sessions of their own."""
    process.terminate()
    try:
        process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def measure(args: argparse.Namespace, cache: str) -> Measures:
    """The programs on growing numbers of ranks, the work of a rank unchanged."""
    found: Measures = {}
    for name, (size, power) in PROGRAMS.items():
        runs = found[name] = {}
        for n in RANKS:
            grown = round((QUICK[name] if args.quick else size) * n ** (1 / power))
            failed = any("absent" in each for each in runs.values())
            runs[str(n)] = {"absent": "not tried after that"} if failed else {
                "size": grown, **run(name, grown, n, args, cache)}
    return found


def quotient(runs: Measures, n: int, field: str = "cpu", times: float | None = None) -> float | None:
    """What `n` ranks need in multiples of what one would need for as much work."""
    one, many = runs["1"].get(field), runs[str(n)].get(field)
    return many / (one * (times or n)) if one and many else None


HEADER = ("program", "ranks", "size", "iteration", "efficiency", "cpu, all ranks", "of n times one", "tasks",
          "rss a rank", "peak a rank", "start-up")


def text(result: Measures) -> str:
    rows, absent = [], []
    cpus = len(machine.cpus())
    for name, runs in result.items():
        for n, found in runs.items():
            if "absent" in found:
                absent.append(f"{name}, {n} ranks: {found['absent']}")
                continue
            slower = quotient(runs, int(n), "median", max(1.0, int(n) / cpus))
            rows.append([name, n, f"{found['size']:,}", table.seconds(found["median"]),
                         f"{100 / slower:.0f} %" if slower else "-", table.seconds(found["cpu"]),
                         table.ratio(quotient(runs, int(n))), table.count(found["tasks"]),
                         table.megabytes(found["rss"]), table.megabytes(found["peak"]),
                         table.seconds(found["started"])])
    lines = [table.render("ranks of one processor, the same work for each", HEADER, rows)]
    return "\n".join([*lines, *absent, REMARK.format(cpus=cpus),
                      f"efficiency: against one rank, with {cpus} cores taken as all there can be"])


def program(name: str, size: str, rounds: str, folder: str) -> None:
    """In each rank: some steps, timed; the main loop is that of any program of apps/."""
    import diffuse
    from diffuse import engine, trace

    engine.current().runtime.fence()
    started = time.time()
    app = application(name)
    state = app.setup(argparse.Namespace(size=int(size), dtype="float64", iterations=0))
    for _ in range(3):
        app.step(state)
    diffuse.fence()
    samples, batch = [], 3
    launched = trace.snapshot()["launched"]
    for _ in range(int(rounds)):
        cpu, start = time.process_time(), time.perf_counter()
        for _ in range(batch):
            app.step(state)
        diffuse.fence()
        samples.append(((time.perf_counter() - start) / batch, (time.process_time() - cpu) / batch))
    tasks = (trace.snapshot()["launched"] - launched) / (batch * int(rounds))
    what, error, bound = app.check(state)
    if not math.isfinite(error) or error > bound:
        sys.exit(f"{name}: {what} {error:.3g}, at most {bound:g}")
    seconds, cpu = (statistics.median(column) for column in zip(*samples, strict=True))
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
    Path(folder, f"rank-{rank}.json").write_text(json.dumps({
        "seconds": seconds, "cpu": cpu, "tasks": tasks, "started": started, "rss": memory("VmRSS"),
        "peak": memory("VmHWM")}))


if __name__ == "__main__":
    program(*sys.argv[1:])
