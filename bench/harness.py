"""A case to a table: every contender in its own process, in turn, round after round.

The order of one run: each contender is started, its first iteration timed, the warm-up run and its results
saved and compared with NumPy's; then the rounds, in each of which every contender gives one sample; then
Diffuse once more in a second process, which finds its kernels on disk.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import statistics
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import child
import machine
import report
from case import ROOT, Case
from child import Child

Measures = dict[str, Any]

class Worker(Child):
    """One contender's process."""

    def __init__(self, case: Case, contender: str, options: Measures, environment: dict[str, str],
                 python: str = sys.executable) -> None:
        super().__init__([python, str(ROOT / "bench" / "worker.py"), case.name, contender,
                          json.dumps(options)], environment)
        self.ready = self.answer()


def absent(answer: Measures) -> str | None:
    """Why a contender gives no numbers, if so."""
    if "missing" in answer:
        return f"not installed ({answer['missing']})"
    return f"failed ({answer['failed']})" if "failed" in answer else None


def quartiles(samples: list[float]) -> list[float]:
    if len(samples) < 2:
        return samples * 3
    return statistics.quantiles(samples, n=4, method="inclusive")


def chunks(path: Path) -> Iterator[Any]:
    import numpy as np

    array = np.load(path, mmap_mode="r").reshape(-1)
    for start in range(0, len(array), 1 << 20):
        yield array[start : start + (1 << 20)]


def difference(folder: Path, reference: Path) -> Measures:
    """How results differ from NumPy's: same bits, and the largest difference, absolute, relative to the
    element and relative to the largest element of the array ("scaled"); infinite where only one is nan."""
    import numpy as np

    same, largest, relative, scaled = True, 0.0, 0.0, 0.0
    for path in sorted(reference.glob("*.npy")):
        gaps, sizes = [0.0], [0.0]
        for ours, theirs in zip(chunks(folder / path.name), chunks(path), strict=True):
            same = same and ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()
            one, other = ours.astype(np.float64), theirs.astype(np.float64)
            alike = (one == other) | (np.isnan(one) & np.isnan(other))
            with np.errstate(invalid="ignore"):
                gap = np.where(alike, 0.0, np.nan_to_num(np.abs(one - other), nan=np.inf))
            size = np.nan_to_num(np.abs(other))
            gaps.append(float(gap.max(initial=0.0)))
            sizes.append(float(size.max(initial=0.0)))
            gap /= np.maximum(size, np.finfo(np.float64).tiny)
            relative = max(relative, float(gap.max(initial=0.0)))
        largest = max(largest, *gaps)
        scaled = max(scaled, max(gaps) / max(sizes) if max(gaps) else 0.0)
    return {"same bits": same, "largest": largest, "relative": relative, "scaled": scaled}


class Entry(NamedTuple):
    """One process of a comparison: whom it runs, and under which variables."""

    contender: str
    environment: dict[str, str]


@contextlib.contextmanager
def field(case: Case, entries: Mapping[str, Entry], options: Measures, args: argparse.Namespace
          ) -> Iterator[tuple[dict[str, Worker], dict[str, Measures]]]:
    """Every entry started, warmed up and, those behind "numpy", compared with it; all end with the block.

    Gives the processes of those that run, and what was found of all by label: {"absent": why} or the first
    iteration's cost and the difference from NumPy's results.
    """
    workers: dict[str, Worker] = {}
    found: dict[str, Measures] = {}
    with child.scratch() as scratch:
        try:
            for label, (contender, environment) in entries.items():
                folder = Path(scratch) / label
                workers[label] = Worker(case, contender, options, environment)
                found[label] = warm_up(workers[label], args, folder)
                if "absent" in found[label]:
                    workers.pop(label).close()
                elif "numpy" in workers:
                    found[label] |= difference(folder, Path(scratch) / "numpy")
                if label != "numpy":
                    shutil.rmtree(folder, ignore_errors=True)
            yield workers, found
        finally:
            for worker in workers.values():
                worker.close()


def warm_up(worker: Worker, args: argparse.Namespace, folder: Path) -> Measures:
    """First iteration, then enough more for compiled kernels to have taken over; saves the results."""
    folder.mkdir()
    if why := absent(worker.ready):
        return {"absent": why}
    first = worker.ask(run=1)
    if why := absent(first):
        return {"absent": why}
    for _ in range(args.warmup):
        if why := absent(worker.ask(run=1)):
            return {"absent": why}
    if why := absent(worker.ask(save=str(folder))):
        return {"absent": why}
    return {"setup": worker.ready["ready"], "started": worker.ready["started"],
            "first": first["seconds"], "first cpu": first["cpu"]}


def rounds(case: Case, workers: dict[str, Worker], args: argparse.Namespace) -> dict[str, list[Measures]]:
    samples: dict[str, list[Measures]] = {name: [] for name in workers}
    for _ in range(args.rounds):
        for name, worker in workers.items():
            answer = worker.ask(run=args.batch or case.batch)
            if absent(answer) is None:
                samples[name].append(answer)
                worker.ask(settle=True)
    return samples


def settled(worker: Worker, samples: list[Measures]) -> Measures:
    """A contender's samples as median and quartiles, with its memory and counters."""
    times = [sample["seconds"] for sample in samples]
    end = worker.ask(end=True)
    gained = samples[-1]["gained"] if samples else {}
    low, median, high = quartiles(times) if times else (0.0, 0.0, 0.0)
    return {"median": median, "quartiles": [low, high], "samples": times, "peak": end.get("peak"),
            "cpu": statistics.median(sample["cpu"] for sample in samples) if samples else None,
            "gained": gained, "counters": end.get("counters", {}),
            "issue": statistics.median(sample["issue"] for sample in samples) if samples else None}


def second_process(case: Case, options: Measures, environment: dict[str, str]) -> Measures:
    """Diffuse again, in a new process, with the kernels of the first on disk."""
    cache = environment["DIFFUSE_CACHE_DIR"]
    before = machine.kernels_kept(cache)
    worker = Worker(case, "diffuse", options, environment)
    try:
        first = worker.ask(run=1)
    finally:
        worker.close()
    if why := absent(first):
        return {"absent": why}
    return {"first": first["seconds"], "compilations": machine.kernels_kept(cache) - before}


def measure(case: Case, args: argparse.Namespace) -> Measures:
    size = args.size or (case.quick if args.quick else case.size)
    options = {"size": size, "dtype": args.dtype, "iterations": 0}
    with child.scratch() as cache:
        environment = machine.environment(args.threads, cache)
        entries = {name: Entry(name, environment) for name in case.contenders
                   if not args.only or name in args.only}
        with field(case, entries, options, args) as (workers, found):
            for name, samples in rounds(case, workers, args).items():
                found[name] |= settled(workers[name], samples)
        ours = "diffuse" in found and "absent" not in found["diffuse"]
        again = second_process(case, options, environment) if ours else {}
    bandwidth = machine.copy_bandwidth(args.threads, 4 if args.quick else 400)
    itemsize = 4 if args.dtype == "float32" else 8
    return {"bench": case.name, "size": size, "dtype": args.dtype, "rounds": args.rounds,
            "batch": args.batch or case.batch, "warmup": args.warmup, "bytes": case.elements(size) * itemsize,
            "copy bandwidth": bandwidth, "machine": machine.description(args.threads),
            "contenders": found, "second process": again, "notes": list(case.notes)}


def options(parser: argparse.ArgumentParser) -> None:
    """What every file of bench/ takes."""
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything work?")
    parser.add_argument("--threads", type=int, default=len(machine.cpus()))
    parser.add_argument("--rounds", type=int, default=7, help="samples of each contender")
    parser.add_argument("--json", help="file for the numbers (default: bench/results/NAME.json)")


def target(name: str, path: str | None) -> Path:
    """The file of a benchmark's numbers."""
    return Path(path) if path else ROOT / "bench" / "results" / f"{name}.json"


def keep(result: Measures, name: str, path: str | None) -> None:
    file = target(name, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")


def main(case: Case, argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=f"{case.name}: Diffuse beside its peers")
    options(parser)
    parser.add_argument("--size", type=int, help=f"default {case.size}")
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--batch", type=int, help=f"iterations of one sample, default {case.batch}")
    parser.add_argument("--warmup", type=int, default=5, help="iterations dropped after the first")
    parser.add_argument("--only", nargs="*", help="contenders: " + ", ".join(case.contenders))
    args = parser.parse_args(argv)
    machine.bind(args.threads)
    result = measure(case, args)
    result["goals"] = report.goals(case, result)
    print(report.text(result))
    keep(result, case.name, args.json)
