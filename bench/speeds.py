"""Turns the samples of figure 14 into ratios, geometric means, goals and tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

import programs
import report
import table
from contenders import FUSED, SINGLY

Measures = dict[str, Any]
MEAN, LEAST = 2.5, 0.97
"""How many times as fast as unfused Diffuse is to be: over all programs, and for each."""
PEAKS = ("peak", "steady peak")
PEERS = ("numpy", SINGLY, "jax", "numba", "petsc", "numpy, by hand", "diffuse, by hand")
PAPER = {SINGLY: 1.86, "petsc": 1.4, "diffuse, by hand": 1.23}
"""Geometric means that the paper gives in its introduction, on up to 128 GPUs."""


def petsc(threads: int) -> str:
    """The name of the contender PETSc on as many ranks as threads."""
    return "petsc" if threads == 1 else f"petsc, {threads} ranks"


def present(point: Measures, label: str) -> Measures | None:
    """The numbers of a contender; "petsc" is the one with as many ranks as threads."""
    found = point["contenders"].get(petsc(point["threads"]) if label == "petsc" else label)
    return found if found and "absent" not in found else None


def times(point: Measures, peer: str) -> float | None:
    """How many times as fast as the peer Diffuse is."""
    ours, theirs = present(point, FUSED), present(point, peer)
    return theirs["mean"] / ours["mean"] if ours and theirs else None


def too_small(points: Iterable[Measures]) -> str:
    """A line that names the programs whose goals mean a larger size than all that were measured, if any."""
    sizes: dict[str, int] = {}
    for point in points:
        sizes[point["program"]] = max(point["size"], sizes.get(point["program"], 0))
    small = [name for name, size in sizes.items() if size < programs.PROGRAMS[name].sizes[-1]]
    return f"smaller than the goals mean: {', '.join(small)}\n" if small else ""


def largest(points: Iterable[Measures], threads: int) -> list[Measures]:
    """The point with the largest size of each program on so many threads."""
    found: dict[str, Measures] = {}
    for point in points:
        if point["threads"] == threads and point["size"] >= found.get(point["program"], point)["size"]:
            found[point["program"]] = point
    return list(found.values())


def mean(points: Iterable[Measures], peer: str) -> float | None:
    """The geometric mean of the ratios of all points where the peer is present."""
    ratios = [ratio for ratio in (times(point, peer) for point in points) if ratio]
    return statistics.geometric_mean(ratios) if ratios else None


def memory(point: Measures, what: str) -> float | None:
    """Diffuse's peak in multiples of NumPy's: the whole process's, or that of the iterations alone."""
    ours, theirs = present(point, FUSED), present(point, "numpy")
    return ours[what] / theirs[what] if ours and theirs else None


def goals(points: list[Measures]) -> list[Measures]:
    """The goals at the largest sizes on the most threads; those beside PETSc hold for any number of threads,
    and the least ratio to unfused Diffuse for all points."""
    counts = sorted({point["threads"] for point in points})
    rows = []
    for threads in counts:
        for point in largest(points, threads):
            where = f"{point['program']}, {point['size']:,}, {threads} threads"
            rows += [report.goal(f"{where}: times as fast as {peer}", ratio, times(point, peer))
                     for peer, ratio in programs.SPEED.get(point["program"], {}).items()
                     if threads == counts[-1] or peer == "petsc"]
            if threads == counts[-1] and point["program"] in programs.SPARSE:
                rows += [report.goal(f"{where}: {what} of memory / SciPy's", 1.0, memory(point, what),
                                     at_least=False) for what in PEAKS]
    ratios = [ratio for ratio in (times(point, SINGLY) for point in points) if ratio]
    return [*rows, report.goal("geometric mean: times as fast as unfused", MEAN,
                               mean(largest(points, counts[-1]), SINGLY)),
            report.goal("least of all sizes: times as fast as unfused", LEAST, min(ratios, default=None))]


HEADER = ("contender", "iteration", "samples kept", "Diffuse is", "runs", "iterations a run", "peak",
          "steady peak", "off NumPy")


def row(label: str, found: Measures, point: Measures) -> list[str]:
    low, high = found["kept"]
    ours = present(point, FUSED)
    return [label, table.seconds(found["mean"]), f"{table.seconds(low)} .. {table.seconds(high)}",
            table.ratio(found["mean"] / ours["mean"] if ours else None), str(len(found["samples"])),
            str(found["iterations"]),
            *(table.megabytes(None if label.startswith("petsc") else found[what]) for what in PEAKS),
            report.agreement(found)]


def text(point: Measures) -> str:
    """The table of one program at one size on so many threads.  PETSc has no peak: its ranks are processes
    of their own."""
    found = point["contenders"]
    rows = [row(label, numbers, point) for label, numbers in found.items() if "absent" not in numbers]
    title = f"{point['program']}, size {point['size']:,}, {point['threads']} threads"
    absent = [f"{label}: {numbers['absent']}" for label, numbers in found.items() if "absent" in numbers]
    fewer = [label for label, numbers in found.items() if len(numbers.get("samples", ())) < point["runs"]
             and "absent" not in numbers]
    if fewer:
        absent.append(f"fewer than {point['runs']} runs, being slow: {', '.join(fewer)}")
    return "\n".join([table.render(title, HEADER, rows), *absent])


def summary(points: list[Measures]) -> str:
    """Tables of how many times as fast as each peer Diffuse is at each program's largest size, with geometric
    means."""
    tables = []
    for threads in sorted({point["threads"] for point in points}):
        ends = largest(points, threads)
        ratios: dict[str, list[float | None]] = {
            f"{point['program']}, {point['size']:,}": [times(point, peer) for peer in PEERS]
            for point in ends}
        ratios["geometric mean"] = [mean(ends, peer) for peer in PEERS]
        ratios["paper's"] = [PAPER.get(peer) for peer in PEERS]
        rows = [[name, *map(table.ratio, found)] for name, found in ratios.items()]
        tables.append(table.render(f"figure 14: times as fast as the peers, {threads} threads",
                                   ("program", *PEERS), rows))
    return "\n".join(tables)
