"""Ranks, all of them on this machine: what it costs them to meet, and weak scaling.

    python bench/ranks.py [--repeat N] [--runtime legate]    start-up, meetings, launches, an iteration of CG

`on_legate.py` prints weak scaling, the same work for each of 1, 2 and 4 ranks.  The file is also the program
that `diffuse run --ranks N` runs: a program of apps/, some steps, and one JSON file a rank.
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
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import child
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
SMALL = 1000
"""Elements of the arrays whose launches and reads are timed: nothing but what they cost."""
CG_SIZE = 512
"""Of the grid whose Laplacian `apps/cg.py` inverts, in rows and columns."""
REMARK = ("all ranks share this machine's {cpus} cores, and no more than that run at a time; one rank sends\n"
          "no messages, and its tasks of one point fuse with more of their neighbours")


def run(name: str, size: int, count: int, args: argparse.Namespace, cache: str) -> Measures:
    """One program on so many ranks."""
    with child.scratch() as folder:
        return answers(Path(folder), name, size, count, args, cache)


def answers(folder: Path, name: str, size: int, count: int, args: argparse.Namespace, cache: str) -> Measures:
    """What the ranks found in a program, as one."""
    found, began = together(folder, count, cache, name, str(size), str(args.rounds), str(folder))
    if isinstance(found, str):
        return {"absent": found}
    return {"median": max(each["seconds"] for each in found), "cpu": sum(each["cpu"] for each in found),
            "rss": max(each["rss"] for each in found), "peak": max(each["peak"] for each in found),
            "tasks": found[0]["tasks"], "started": max(each["started"] for each in found) - began}


def together(folder: Path, count: int, cache: str, *words: str, runtime: str = "legate"
             ) -> tuple[list[Measures] | str, float]:
    """Run this file on ranks: what they wrote into the folder, or why they did not; and when it began."""
    command = [sys.executable, "-m", "diffuse", "run", "--runtime", runtime, "--ranks", str(count), "--cpus",
               "1", __file__, *words]
    environment = child.with_checkout(contenders.environment(contenders.LEGATE, 1, cache))
    began = time.time()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True, cwd=ROOT, start_new_session=True)
    try:
        _, said = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        end(process)
        return f"not done after {PATIENCE} s", began
    found = [json.loads(path.read_text()) for path in folder.glob("rank-*.json")]
    if process.returncode or len(found) != count:
        lines = [line for line in said.splitlines() if any(map(str.isalpha, line))]
        return (f"status {process.returncode}, {len(found)} of {count} ranks answered: "
                + (lines or ["no message"])[-1][:200]), began
    return found, began


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
    from diffuse.observe import trace
    from diffuse.stream import engine

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
    write(folder, {"seconds": seconds, "cpu": cpu, "tasks": tasks, "started": started,
                   "rss": memory("VmRSS"), "peak": memory("VmHWM")})


def write(folder: str, found: Measures) -> None:
    """What this rank found."""
    Path(folder, f"rank-{os.environ.get('OMPI_COMM_WORLD_RANK', '0')}.json").write_text(json.dumps(found))


# -- what it costs to meet ---------------------------------------------------------------------------------


def timed(function: Callable[[], object], samples: int = 50) -> float:
    """The median time of a call, after some to warm up."""
    found = []
    for k in range(samples + 5):
        start = time.perf_counter()
        function()
        if k >= 5:
            found.append(time.perf_counter() - start)
    return statistics.median(found)


def meeting(folder: str) -> None:
    """In each rank: how long ranks wait for each other, and what a launch costs all of them."""
    import diffuse
    import diffuse.numpy as np
    from diffuse import settings
    from diffuse.stream import engine

    runtime: Any = engine.current().runtime
    runtime.fence()
    found: Measures = {"start-up": time.time()}
    found["empty fence"] = timed(runtime.fence if runtime.name == "mpi" else runtime.placement.wait)
    with settings.using(small=0, min_chunk=1):
        x = np.arange(float(SMALL))

        def element() -> float:
            x[:] = x + 1.0
            return float(x[SMALL // 2])

        def total() -> float:
            return float((x + 1.0).sum())

        def launches() -> None:
            for _ in range(100):
                x[:] = x + 1.0
                diffuse.flush()
            diffuse.fence()

        found["reading an element"], found["reading a sum"] = timed(element), timed(total)
        found["a launch of many"] = timed(launches, samples=10) / 100
    app = application("cg")
    parser = argparse.ArgumentParser()
    app.arguments(parser)
    state = app.setup(parser.parse_args(["--size", str(CG_SIZE)]))

    def iteration() -> None:
        app.step(state)
        diffuse.fence()

    found["an iteration of cg"] = timed(iteration, samples=20)
    write(folder, found)


def meetings(repeat: int, runtime: str) -> dict[int, Measures]:
    """Medians over several jobs, of the slowest rank in each."""
    found: dict[int, Measures] = {}
    with child.scratch() as cache:
        for count in RANKS:
            jobs: list[Measures] = []
            for k in range(repeat + 1):  # the first one builds and compiles
                with child.scratch() as folder:
                    ranks, began = together(Path(folder), count, cache, "meeting", folder,
                                            runtime=runtime)
                if isinstance(ranks, str):
                    jobs = [{"absent": ranks}]
                    break
                for each in ranks:
                    each["start-up"] -= began
                if k:
                    jobs.append({name: max(each[name] for each in ranks) for name in ranks[0]})
            found[count] = jobs[0] if "absent" in jobs[0] else {
                name: statistics.median(job[name] for job in jobs) for name in jobs[0]}
    return found


def meetings_text(found: dict[int, Measures]) -> str:
    names = next((list(each) for each in found.values() if "absent" not in each), [])
    rows = [[str(n), *(table.seconds(each[name]) for name in names)]
            for n, each in found.items() if "absent" not in each]
    absent = [f"{n} ranks: {each['absent']}" for n, each in found.items() if "absent" in each]
    return "\n".join([table.render("ranks of one processor that meet", ("ranks", *names), rows), *absent,
                      f"load {os.getloadavg()[0]:.1f} on {len(machine.cpus())} cpus"])


def main() -> None:
    parser = argparse.ArgumentParser(description="What ranks on one machine cost each other.")
    parser.add_argument("--runtime", choices=("legate", "mpi"), default="legate")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="jobs for each number of ranks")
    args = parser.parse_args()
    print(meetings_text(meetings(args.repeat, args.runtime)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["meeting"]:
        meeting(sys.argv[2])
    elif sys.argv[1:2] and sys.argv[1] in PROGRAMS:
        program(*sys.argv[1:])
    else:
        main()
