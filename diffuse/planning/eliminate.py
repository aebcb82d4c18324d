"""Exact solution by elimination of one variable after another.

The tables that hold a variable are added up and its best state taken for each state of its neighbours; then
the variable is gone, and a table over the neighbours remains.  Graphs of programs are narrow (a chain with
skips, forward beside backward), so tables stay small.  It needs no linear graph, unlike the dynamic program
of papers/002, and no integer program, unlike papers/004.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import prod
from typing import Any

import numpy as np

from diffuse.planning.problem import Problem

WIDEST = 1 << 26
"""The most entries of a table."""


class TooWide(ValueError):
    """A table would have more than `WIDEST` entries."""


def eliminate(problem: Problem, widest: int = WIDEST) -> list[int]:
    """The states of least cost; of several the first in the order of the tables.

    Takes time and memory proportional to the number of variables times the largest table.  Raises TooWide if
    a table has more than `widest` entries: solve such a problem as an integer program.
    """
    sizes = problem.sizes
    tables = {k: _undecided(variables, table) for k, (variables, table) in enumerate(problem.tables)}
    holding: list[set[int]] = [set() for _ in sizes]
    for number, (variables, _) in tables.items():
        for v in variables:
            holding[v].add(number)

    def joined(v: int) -> list[int]:
        return sorted({w for t in holding[v] for w in tables[t][0]} | {v})

    def size(v: int) -> int:
        """The entries of the table that remains after the elimination of a variable."""
        return prod(sizes[w] for w in joined(v)) // sizes[v]

    heap = [(size(v), v) for v in range(len(sizes)) if sizes[v] > 1]
    heapify(heap)
    solved: list[tuple[int, list[int], Any]] = []
    done = [False] * len(sizes)
    while heap:
        entries, v = heappop(heap)
        if done[v]:
            continue
        if entries != (now := size(v)):
            heappush(heap, (now, v))
            continue
        if (entries := entries * sizes[v]) > widest:
            raise TooWide(f"elimination needs a table of {entries:,} entries, and {widest:,} are allowed: "
                          "take the integer program")
        around = joined(v)
        others = [w for w in around if w != v]
        total = np.zeros([sizes[w] for w in (*others, v)])
        for t in sorted(holding[v]):
            variables, table = tables.pop(t)
            total += _spread(variables, table, [*others, v])
            for w in variables:
                holding[w].discard(t)
        best = total.argmin(-1)
        solved.append((v, others, best))
        done[v] = True
        number = len(problem.tables) + len(solved)
        tables[number] = tuple(others), np.take_along_axis(total, best[..., None], -1)[..., 0]
        for w in others:
            holding[w].add(number)
            heappush(heap, (size(w), w))
    choice = [0] * len(sizes)
    for v, others, best in reversed(solved):
        choice[v] = int(best[tuple([choice[w] for w in others])])
    return choice


def _undecided(variables: tuple[int, ...], table: Any) -> tuple[tuple[int, ...], Any]:
    """A table without dimensions for the variables that have one state: an array has at most 64."""
    kept = tuple([v for v, extent in zip(variables, table.shape, strict=True) if extent > 1])
    return kept, table.reshape([extent for extent in table.shape if extent > 1])


def _spread(variables: tuple[int, ...], table: Any, into: list[int]) -> Any:
    """A table with a dimension for each of some variables, of length 1 where it does not depend on one."""
    order = sorted(range(len(variables)), key=lambda k: into.index(variables[k]))
    extents = dict(zip(variables, table.shape, strict=True))
    return table.transpose(order).reshape([extents.get(w, 1) for w in into])
