"""The paper's figure 14: the throughput of every program beside its peers, at growing sizes.

    python bench/figure14.py [--quick] [--apps NAME ...] [--sizes N ...] [--threads N ...] [--runs N]
        [--sample S] [--plot]

Diffuse fused and with every task on its own, NumPy and SciPy, JAX's jit, loops fused by hand in Numba, PETSc
with as many ranks as threads, and conjugate gradients optimised by hand: each in a process of its own, kept
to as many cores as it has threads.  All start from the same arrays, and what they computed after the warm-up
is compared with NumPy's: one that differs is not timed, and the command ends with status 1.

Then the processes give their samples in turn, each when the threads of the one before sleep.  A sample is as
many iterations as take 0.2 s; of twelve, the fastest and the slowest are dropped and the rest averaged, as in
the paper.  A contender whose twelve samples
would take longer than eight seconds gives fewer, but no less than three: its row says so.

The peak of memory is the process's, with what its libraries and setting up the arrays take; the steady peak
is that of the samples alone.

PETSc is found if it is installed (apt-get install python3-petsc4py openmpi-bin).  --plot draws a panel a
program into bench/results/figure14.png; it needs matplotlib.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

import child
import contenders
import harness
import machine
import programs
import report
import speeds
from case import ROOT
from contenders import FUSED, SINGLY
from programs import Program

Measures = dict[str, Any]
SKIPPED = ("numexpr", "jax loop")
SAMPLE = 0.2
"""Seconds of one sample, at least, where an iteration is shorter."""
LIMIT = 8.0
"""Seconds for all samples of a contender; then it gives fewer."""
SETTLING = 4
"""Samples that nobody counts, at most: until their length is right and Diffuse plans and compiles no more."""
WARM_UP = 2
"""Iterations after the first, before the results are compared."""
ALLOWED = 1e-9
"""Largest difference from NumPy's results, relative to the largest element of the array."""


def trimmed(samples: list[float]) -> list[float]:
    """Without the fastest and the slowest, where more than two are left to choose from."""
    return sorted(samples)[1:-1] if len(samples) > 2 else sorted(samples)


def takes_turn(turn: int, runs: int, turns: int) -> bool:
    """Does a contender with so many runs, spread evenly over the turns, give a sample in this one?"""
    return turn * runs % turns < runs


def entries(program: Program, threads: int, cache: str) -> dict[str, harness.Entry]:
    """Everybody who runs this program on so many threads: NumPy first, for the comparison."""
    petsc = speeds.petsc(threads)
    labels = [name for name in program.case.contenders
              if name not in SKIPPED and (not name.startswith("petsc") or name == petsc)]
    own = dict.fromkeys([*labels, SINGLY])
    return {label: harness.Entry(label if label in program.case.contenders else FUSED,
                                 contenders.environment(label, threads, cache)) for label in own}


def plan(worker: harness.Worker, most: int, runs: int, sample: float) -> tuple[int, int]:
    """Iterations of a sample of so many seconds, and number of samples; Diffuse settles meanwhile."""
    room = max(1, (most - WARM_UP - 2) // (runs + SETTLING))
    iterations = 1
    for _ in range(1 + SETTLING):
        ran, answer = iterations, worker.ask(run=iterations)
        seconds, gained = answer.get("seconds", sample), answer.get("gained", {})
        iterations = max(1, min(round(sample / seconds), room))
        busy = any(gained.get(name) for name in ("plans", "compilations", "interpreted"))
        if not busy and (seconds > 5 * sample or iterations <= 2 * ran):
            break
    return iterations, max(min(3, runs), min(runs, int(LIMIT / (iterations * seconds))))


def sampled(workers: dict[str, harness.Worker], most: int, runs: int, sample: float) -> dict[str, Measures]:
    """What every contender took for an iteration: the mean without extremes, and all samples."""
    plans = {label: plan(worker, most, runs, sample) for label, worker in workers.items()}
    peaks = {label: worker.ask(forget=True).get("peak", 0) for label, worker in workers.items()}
    for worker in workers.values():
        worker.ask(settle=True)
    samples: dict[str, list[float]] = {label: [] for label in workers}
    for turn in range(runs):
        for label, worker in workers.items():
            if takes_turn(turn, plans[label][1], runs):
                answer = worker.ask(run=plans[label][0])
                if harness.absent(answer) is None:
                    samples[label].append(answer["seconds"])
                    worker.ask(settle=True)
    return {label: settled(worker, plans[label][0], samples[label], peaks[label])
            for label, worker in workers.items()}


def settled(worker: harness.Worker, iterations: int, samples: list[float], peak: int) -> Measures:
    """The numbers of one contender; `peak` is that of its memory before the samples."""
    end = worker.ask(end=True)
    if not samples or harness.absent(end):
        return {"absent": harness.absent(end) or "gave no sample"}
    kept = trimmed(samples)
    return {"mean": statistics.fmean(kept), "kept": [kept[0], kept[-1]], "samples": samples,
            "iterations": iterations, "peak": max(peak, end["peak"]), "steady peak": end["peak"]}


def wrong(found: Measures) -> str | None:
    """Why a contender that ran is not timed, if so."""
    if "scaled" not in found:
        return "not timed: NumPy gave nothing to compare with"
    if found["scaled"] <= ALLOWED:
        return None
    return f"differs from NumPy by {found['scaled']:.1e} (allowed {ALLOWED:.0e})"


def measure(program: Program, size: int, threads: int, runs: int, sample: float) -> Measures:
    """One program at one size on so many threads."""
    options = {"size": size, "dtype": "float64", "iterations": 0}
    with (child.scratch() as cache,
          machine.bound(threads)):
        with harness.field(program.case, entries(program, threads, cache), options,
                           argparse.Namespace(warmup=WARM_UP)) as (workers, found):
            for label in list(workers):
                if why := wrong(found[label]):
                    found[label] |= {"absent": why, "wrong": True}
                    workers.pop(label).close()
            for label, numbers in sampled(workers, program.most, runs, sample).items():
                found[label] |= numbers
    return {"program": program.name, "size": size, "threads": threads, "runs": runs, "contenders": found,
            "elements": program.case.elements(size)}


def options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="figure 14: throughput beside the peers")
    programs.options(parser)
    cores = len(machine.cpus())
    most = [min(2, cores)]
    parser.add_argument("--threads", type=int, nargs="+", metavar="N",
                        help="default 1 2, quick 2, as far as there are cores")
    parser.add_argument("--runs", type=int, help="samples of each contender, default 12, quick 4")
    parser.add_argument("--sample", type=float, default=SAMPLE, metavar="S",
                        help="seconds of a sample, at least; default %(default)s")
    parser.add_argument("--plot", nargs="?", const=str(ROOT / "bench/results/figure14.png"),
                        metavar="FILE", help="draw the throughput; needs matplotlib")
    args = parser.parse_args(argv)
    args.threads = args.threads or (most if args.quick else sorted({1, *most}))
    args.runs = args.runs or (4 if args.quick else 12)
    if max(args.threads) > cores:
        parser.error(f"--threads {max(args.threads)}: this machine has {cores} cores")
    return args


def main(argv: list[str] | None = None) -> int:
    args = options(argv)
    points: list[Measures] = []
    for program in programs.chosen(args.apps):
        for size in args.sizes or ((program.quick,) if args.quick else program.sizes):
            for threads in args.threads:
                points.append(measure(program, size, threads, args.runs, args.sample))
                print(speeds.text(points[-1]), flush=True)
    result: Measures = {"bench": "figure14", "runs": args.runs, "points": points,
                        "goals": speeds.goals(points), "machine": machine.description(max(args.threads))}
    print(speeds.summary(points))
    print(report.goal_table(result["goals"]))
    print(speeds.too_small(points), end="")
    harness.keep(result, "figure14", args.json)
    if args.plot:
        import plots

        plots.figure14(points, args.plot)
        print(f"drawn: {args.plot}")
    faults = [f"{p['program']}, size {p['size']}, {p['threads']} threads: {label} {found['absent']}"
              for p in points for label, found in p["contenders"].items() if found.get("wrong")]
    print("".join(f"WRONG RESULT: {line}\n" for line in faults), end="", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
