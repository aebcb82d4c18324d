"""Problems of choosing one state for each variable so that a sum of tables is minimal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from diffuse.ir import Point
from diffuse.planning import words
from diffuse.planning.graph import Graph, Operator
from diffuse.planning.layouts import PENDING, Layout, Mesh, choices, of_terms
from diffuse.planning.words import Table
from diffuse.spec.opspec import Indexing, OpSpec

WORK = 0.125
"""Elements that move in the time of one multiplication and addition, for four bytes each: by the machine that
`diffuse.movement.machine` documents as the default."""


@dataclass
class Problem:
    """Variables, and tables over some of them: the cost of a choice is the sum of one entry from each
    table."""

    sizes: list[int]
    """The number of states of each variable."""
    tables: list[tuple[tuple[int, ...], Table]]
    """The tables, each with its variables in the order of its dimensions."""

    def cost(self, choice: Sequence[int]) -> float:
        """The cost of one state for each variable."""
        return float(sum(table[tuple([choice[v] for v in variables])] for variables, table in self.tables))


@dataclass
class States:
    """The problem of a graph on a mesh: one variable for each array, then one for each operator."""

    problem: Problem
    layouts: list[list[Layout]]
    """For each array, the layouts that are its states."""
    assignments: list[list[Layout]]
    """For each operator, the assignments that are its states."""


def build(graph: Graph, mesh: Mesh, repeats: bool = False, held: Mapping[int, Sequence[Layout]] | None = None,
          run: Mapping[int, Sequence[Layout]] | None = None, sums: Collection[int] = (),
          work: float = WORK) -> States:
    """The problem of partitioning a graph over a mesh.

    `repeats` says whether arrays may be replicated, and work repeated, along an axis: memory costs nothing
    here, so that arrays are then replicated wherever it saves communication.  `held` and `run` give the
    states of some arrays and operators instead of all there are.  `sums` are arrays that may stay terms which
    are still to be added up: results that somebody reads later.  An iteration that is repeated because an
    operator runs on terms counts as `work` elements.  Operators of one form share their tables.
    """
    layouts = [list((held or {}).get(k) or
                    choices(shape, mesh, repeats, cut, (PENDING,) if k in sums else ()))
               for k, (shape, cut) in enumerate(zip(graph.shapes, graph.cut(), strict=True))]
    assignments = [list((run or {}).get(k) or choices(operator.spec.shape, mesh, repeats, None,
                                                      passing(operator, sums)))
                   for k, operator in enumerate(graph.operators)]
    tables: dict[tuple[int, ...], Table] = {}
    for k, operator in enumerate(graph.operators):
        if sums:
            tables[len(graph.shapes) + k,] = work * words.repeated(operator.spec, assignments[k], mesh)
        for uses, reads in ((operator.spec.reads, True), (operator.spec.writes, False)):
            for use in uses:
                array = operator.arrays[use.operand]
                key = array, len(graph.shapes) + k
                table = _table(operator.spec, use, reads, graph.shapes[array], tuple(assignments[k]),
                               tuple(layouts[array]), mesh)
                tables[key] = tables[key] + table if key in tables else table
    sizes = [*map(len, layouts), *map(len, assignments)]
    return States(Problem(sizes, list(tables.items())), layouts, assignments)


def passing(operator: Operator, sums: Collection[int]) -> tuple[int, ...]:
    """The assignments of an axis along which an operator runs on terms of sums: one for each operand in
    which it is linear."""
    spec = operator.spec
    return tuple([of_terms(k) for k in sorted(spec.linear)
                  if operator.arrays[k] in sums and spec.reducer in (None, "sum")])


@lru_cache(maxsize=1 << 12)
def _table(spec: OpSpec, use: Indexing, reads: bool, shape: Point, assignments: tuple[Layout, ...],
           layouts: tuple[Layout, ...], mesh: Mesh) -> Table:
    """The elements received of one operand, by the layout of the array and the assignment of the operator."""
    if reads:
        found = words.read(spec, use, shape, assignments, layouts, mesh)
    else:
        found = words.written(use, shape, assignments, layouts, mesh)
    return np.ascontiguousarray(found.T)
