"""Draws a figure from its numbers."""

from __future__ import annotations

from typing import Any

import programs
from contenders import FUSED
from speeds import PEERS

Measures = dict[str, Any]


def colour(label: str) -> str:
    """The colour of a contender: the same in every panel, and for PETSc on any number of ranks."""
    kinds = (FUSED, *PEERS)
    kind = "petsc" if label.startswith("petsc") else label
    return f"C{kinds.index(kind) if kind in kinds else len(kinds)}"


def figure14(points: list[Measures], path: str) -> None:
    """Plot throughput over size on the most threads: a panel for each program, a line for each contender.
    Raises ImportError without matplotlib.

    The throughput is that of array elements that an iteration has to read and write, each array once a pass.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    threads = max(point["threads"] for point in points)
    points = [point for point in points if point["threads"] == threads]
    names = list(dict.fromkeys(point["program"] for point in points))
    figure, axes = pyplot.subplots(2, 4, figsize=(18, 8), squeeze=False)
    for panel in axes.flat[len(names):]:
        panel.set_visible(False)
    for name, panel in zip(names, axes.flat, strict=False):
        for label, line in lines([point for point in points if point["program"] == name]).items():
            panel.loglog(*zip(*line, strict=True), marker="o", color=colour(label), label=label,
                         linewidth=2.5 if label == FUSED else 1.2)
        panel.set(title=programs.PROGRAMS[name].label, xlabel="size", ylabel="1e9 elements / s")
        panel.legend(fontsize="x-small")
    figure.suptitle(f"throughput on {threads} threads (higher is better)")
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def lines(points: list[Measures]) -> dict[str, list[tuple[int, float]]]:
    """For each contender, pairs of a size and the billions of elements a second, in ascending order."""
    found: dict[str, list[tuple[int, float]]] = {}
    for point in sorted(points, key=lambda point: int(point["size"])):
        for label, numbers in point["contenders"].items():
            if "absent" not in numbers:
                rate = point["elements"] / numbers["mean"] / 1e9
                found.setdefault(label, []).append((point["size"], rate))
    return found
