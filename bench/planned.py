"""Programs under the partition of the stream, one named by hand, and the one that `diffuse.plan` finds.

    python bench/planned.py [--quick] [--ranks 2 4] [--only PROGRAM] [--time] [--link 1000] [--json FILE]

Bytes and messages of a turn are counted for predicted ranks (`diffuse run --predict`); a test compares these
with what real ranks send.  The table also has the bytes that the plan expects, and the time that the model of
the machine gives, by which plans are compared.  The programs and their partitions by hand are in
partitioned.py.  Where grids do not divide, that row is left out, with the reason.

With `--time` the programs run on real ranks over MPI, too: processes of this machine, for which what is sent
costs little.  All partitions of a program take turns within the same processes, in random order, and each
round gives the ratios of its times.  The table shows their medians with intervals of 95 percent, also for the
default partition that runs a second time, beside itself.  A program runs until the interval of the planned
partition is narrow, at most `--seconds`.  Its rows are printed when it has ended.

`--link` has the ranks talk by TCP over a link that carries so many Mbit/s for all of them together: the
loopback device of a network namespace of their own with a token bucket (Linux, as root).  `diffuse machine`
measures it first, as a user would.  The file is also the program that `diffuse run` runs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from partitioned import CHAIN, GRIDS, PROGRAMS, WAYS, made, ways_of

Measures = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
RANKS, QUICK = (2, 4), (4,)
SECONDS = 10.0
WARM_UP, COUNTED = 6, 4
LONG = 0.01
"""The seconds of a turn from which on a round is one turn; the first round, which counts bytes, is more."""
FEWEST, NARROW = 10, 0.01
"""The least number of rounds of a program, and the distance of the bounds of the confidence interval from the
median, as a fraction of it, at which measuring stops."""
PATIENCE = 600
AGAIN = "default again"
"""The partition of the stream, which runs once more to show how much times differ that should be equal."""
FEWER = 1.3
"""How many times fewer bytes the products, the attention and the sweeps of both directions shall move; and
how many times faster they shall be where a link is limited."""
NOISE = 0.98
"""From this ratio of times on a partition counts as not slower: the medians of one partition that runs twice
within a job differ by up to 2 percent."""
LIMITED = ("unshare", "-n", "sh", "-c", "ip link set lo up && tc qdisc add dev lo root tbf rate \"$0\"mbit "
           "burst 256kb limit 64mb && exec \"$@\"")
"""Runs a command where the loopback device carries so many Mbit/s."""
EACH = 3e-6
"""The most seconds that an operation of a planned region takes when the region is known."""
PLAINLY = ("matmul", "attention", "sweeps")
"""Programs in which traffic dominates."""


class Running:
    """A program that runs under one partition, a few turns at a time."""

    def __init__(self, name: str, way: str, runtime: Any) -> None:
        import diffuse

        self.state, self.step = made(name, runtime.ranks, way)
        self.grid: Any = GRIDS[name](runtime.ranks) if way == "by hand" and name in GRIDS else {}
        self.region: Any = diffuse.plan() if way == "planned" else nullcontext()
        self.runtime, self.refused = runtime, ""
        self.rounds: list[list[float]] = []
        try:
            self.turns(WARM_UP)
        except ValueError as error:  # a grid that does not divide the loops of the program on so many ranks
            if way not in ("by hand", "Megatron"):
                raise
            self.refused = str(error)

    def turns(self, count: int) -> None:
        import diffuse

        for _ in range(count):
            with self.region, diffuse.schedule(**self.grid) if self.grid else nullcontext():
                self.state = self.step(self.state)
        diffuse.fence()

    def round(self, count: int) -> None:
        """Some turns, of which bytes, messages and time are kept."""
        before, begun = self.sent(), time.perf_counter()
        self.turns(count)
        seconds, after = time.perf_counter() - begun, self.sent()
        self.rounds.append([n / count for n in (seconds, after[0] - before[0], after[1] - before[1])])

    def sent(self) -> tuple[int, int]:
        from diffuse.runtime.mpi import traffic

        found = (0, 0) if traffic.kept is None else traffic.kept.total(self.runtime.over_ranks)
        self.runtime.over_ranks(0)  # ranks begin together
        return found

    def found(self) -> Measures:
        if self.refused:
            return {"refused": self.refused}
        seconds, sent, messages = zip(*self.rounds, strict=True)
        return {"seconds": statistics.median(seconds), "bytes": sent[0], "messages": messages[0],
                "rounds": len(seconds), **foreseen(str(self.region))}

    def gain(self, usual: Running) -> list[float]:
        """How many times as fast as another partition this one is: an interval with its median."""
        return interval([theirs[0] / mine[0] for theirs, mine in zip(usual.rounds, self.rounds, strict=True)])


def interval(ratios: list[float]) -> list[float]:
    """Return the lower end, the median and the upper end: the ends are those ratios between which the median
    of all possible rounds lies with a probability of 95 percent."""
    found = sorted(ratios)
    k = max(0, math.floor((len(found) - 1.96 * math.sqrt(len(found))) / 2.0))
    return [found[k], statistics.median(found), found[-1 - k]]


def inside(name: str, ways: str, seconds: str, target: str) -> None:
    """Count and time the turns of a program under some partitions, which take turns, for so many seconds or
    for one round: runs as a program under `diffuse run`."""
    from diffuse.stream import engine

    runtime: Any = engine.current().runtime
    running = {way: Running(name, way, runtime) for way in ways.split(",")}
    asked = [one for one in running.values() if not one.refused]
    order = random.Random(1)  # the same on all ranks
    end, count, done = time.perf_counter() + float(seconds), COUNTED, False
    while not done:
        order.shuffle(asked)
        for one in asked:
            one.round(count)
        if runtime.over_ranks(int(asked[0].rounds[0][0] > LONG)):
            count = 1
        done = runtime.over_ranks(int(time.perf_counter() < end and not settled(running))) == 0
    found = {way: one.found() for way, one in running.items()}
    for way, one in running.items():
        if way != "default" and "default" in running and not one.refused:
            found[way]["gain"] = one.gain(running["default"])
    if runtime.rank == 0:
        Path(target).write_text(json.dumps(found))


def settled(running: dict[str, Running]) -> bool:
    """Is the confidence interval of the default's time over the planned one's narrow enough to stop measuring
    this program?"""
    planned = running["planned"]
    if len(planned.rounds) < FEWEST:
        return False
    low, median, high = planned.gain(running["default"])
    return max(median / low, high / median) <= 1.0 + NARROW


def foreseen(said: str) -> Measures:
    """What plans predict for a turn, planned and by default: its bytes, and its seconds by the model of the
    machine."""
    found = re.findall(r"(\S+) bytes in (\S+) ms, (\S+) in (\S+) by default", said)
    totals = [sum([float(each[k].replace(",", "")) for each in found]) for k in range(4)]
    return {"told": [totals[0], totals[2]], "modelled": [totals[1] / 1e3, totals[3] / 1e3]}


def environment(cache: str, link: int) -> dict[str, str]:
    import child

    more = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "lo"}
    return {**child.with_checkout(os.environ), "DIFFUSE_FALLBACK": "silent", "DIFFUSE_CACHE_DIR": cache,
            "OPENBLAS_NUM_THREADS": "1", "DIFFUSE_SMALL": "0", "DIFFUSE_MIN_CHUNK": "1024",
            **(more if link else {})}


def ran(words: list[str], cache: str, link: int = 0) -> None:
    """Run a command of Diffuse, over a link of so many Mbit/s if that is not 0."""
    import child

    before = [*LIMITED, str(link)] if link else []
    done = subprocess.run([*before, sys.executable, "-m", "diffuse", *words], env=environment(cache, link),
                          cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {child.ended(done.returncode, done.stderr)}")


def counted(name: str, ways: tuple[str, ...], options: list[str], cache: str, seconds: float = 0.0,
            link: int = 0) -> Measures:
    """What the turns of a program move and take on ranks that these options of `diffuse run` name, for each
    of some partitions."""
    import child

    with child.scratch() as folder:
        target = Path(folder, "found.json")
        ran(["run", *options, __file__, "--inside", name, ",".join(ways), str(seconds), str(target)], cache,
            link)
        found: Measures = json.loads(target.read_text())
        return found


def measure(name: str, ranks: int, seconds: float, link: int, cache: str) -> Measures:
    """A program under each partition; on real ranks, too, for so many seconds if these are not 0."""
    row: Measures = {"program": name, "ranks": ranks}
    row |= counted(name, ways_of(name), ["--predict", str(ranks)], cache)
    if seconds:
        real = counted(name, (*ways_of(name), AGAIN), ["--runtime", "mpi", "--ranks", str(ranks), "--cpus",
                                                       "1", "--traffic"], cache, seconds, link)
        for way, found in real.items():
            row.setdefault(way, {})["real"] = found
    return row


def goals(result: Measures) -> list[Measures]:
    import report

    found = []
    for row in result["rows"]:
        name = f"{row['program']} on {row['ranks']} ranks"
        planned, usual = row["planned"]["modelled"]
        found.append(report.goal(f"{name}: modelled time by default / planned", 1.0,
                                 (usual or 1.0) / (planned or 1.0)))
        if row["program"] in PLAINLY and row["ranks"] == 4:
            found.append(report.goal(f"{name}: bytes by default / planned", FEWER,
                                     (row["default"]["bytes"] + 1.0) / (row["planned"]["bytes"] + 1.0)))
        if "real" in row["planned"]:
            limited = result["link"] and row["ranks"] == 4 and row["program"] in PLAINLY
            found.append(report.goal(f"{name}: time by default / planned", FEWER if limited else NOISE,
                                     row["planned"]["real"]["gain"][1]))
        if "real" in row["planned"] and row["program"] == "chain":
            found.append(report.goal(f"{name}: microseconds of an operation, planned", EACH * 1e6,
                                     row["planned"]["real"]["seconds"] / CHAIN * 1e6, at_least=False))
    return found


HEAD = ("program", "ranks", "partition", "bytes by plan", "predicted", "messages", "modelled", "bytes sent",
        "time", "rounds", "default / this", "interval")


def cells(row: Measures, way: str) -> tuple[str, ...]:
    """The cells of the table for one partition of a program."""
    import table

    found, told, searched = row[way], row["planned"], way in ("default", "planned")
    real, gain = found.get("real"), found.get("real", {}).get("gain")
    return (row["program"], str(row["ranks"]), way,
            f"{told['told'][way == 'default']:,.0f}" if searched else "-",
            f"{found['bytes']:,.0f}" if "bytes" in found else "-",
            f"{found['messages']:,.0f}" if "messages" in found else "-",
            table.seconds(told["modelled"][way == "default"]) if searched else "-",
            f"{real['bytes']:,.0f}" if real else "-", table.seconds(real["seconds"]) if real else "-",
            str(real["rounds"]) if real else "-", f"{gain[1]:.3f}" if gain else "-",
            f"{gain[0]:.3f} to {gain[2]:.3f}" if gain else "-")


def text(row: Measures) -> str:
    """The table of one program, and what it refused."""
    import table

    shown = [way for way in (*WAYS, AGAIN) if way in row]
    refused = [f"{way}: {row[way]['refused']}" for way in shown if "refused" in row[way]]
    title = f"what a turn of {row['program']} moves, all {row['ranks']} ranks together"
    return "\n".join([table.render(title, HEAD, [
        cells(row, way) for way in shown if "refused" not in row[way]]), *refused])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="partitions by default, by hand, and planned")
    parser.add_argument("--quick", action="store_true", help="4 ranks")
    parser.add_argument("--ranks", type=int, nargs="*")
    parser.add_argument("--only", nargs="*", default=PROGRAMS, help="programs: " + ", ".join(PROGRAMS))
    parser.add_argument("--time", action="store_true", help="on real ranks, too")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the most for a program")
    parser.add_argument("--link", type=int, default=0, metavar="MBIT",
                        help="on real ranks that share a link of so many Mbit/s")
    parser.add_argument("--json", help="default bench/results/planned.json")
    parser.add_argument("--inside", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.inside:
        inside(*args.inside)
        return
    import child
    import harness
    import machine
    import report

    sys.path.insert(0, str(ROOT))
    seconds = args.seconds if args.time or args.link > 0 else 0.0
    result: Measures = {"bench": "planned", "link": args.link, "rows": []}
    with child.scratch() as cache:
        for ranks in args.ranks or (QUICK if args.quick else RANKS):
            if args.link:
                ran(["machine", "--ranks", str(ranks)], cache, args.link)
            for name in args.only:
                result["rows"].append(measure(name, ranks, seconds, args.link, cache))
                print(text(result["rows"][-1]), flush=True)
    result["goals"], result["machine"] = goals(result), machine.description(1)
    print(report.goal_table(result["goals"]))
    harness.keep(result, "planned", args.json)


if __name__ == "__main__":
    main()
