"""Exact solution by elimination of one variable after another.

The tables that hold a variable are added up and its best state taken for each state of its neighbours; then
the variable is gone, and a table over the neighbours remains.  Graphs of programs are narrow (a chain with
skips, forward beside backward), so tables stay small.  It needs no linear graph, unlike the dynamic program
of papers/002, and no integer program, unlike papers/004.

Where tables grow, states are dropped that others dominate: whatever the neighbours do, one of the others
costs no more (R. F. Goldstein, "Efficient rotamer elimination applied to protein side-chains and related spin
glasses", 1994).  What is then still too wide is left to the integer program: the variables that remain, with
the tables that those before them left.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import count
from math import prod
from typing import Any

import numpy as np

from diffuse.planning.integer import integer_program
from diffuse.planning.problem import Problem

WIDEST = 1 << 26
"""The most entries of a table."""
NARROW = 1 << 14
"""The entries of a table from which on dominated states are looked for first."""
HOPELESS = 1 << 12
"""Elimination gives up at once if its largest table would have so many times more entries than are allowed:
to look for dominated states in larger tables takes longer than the integer program."""
COMPARED = 1 << 22
"""The most differences of entries that the comparison of one variable's states in one table may take."""


class TooWide(ValueError):
    """A table would have more entries than are allowed."""


def eliminate(problem: Problem, widest: int = WIDEST) -> list[int]:
    """The states of least cost; of several the first in the order of the tables.

    Takes time and memory proportional to the number of variables times the largest table.  Raises TooWide if
    a table has more than `widest` entries, and no state that others dominate is left.
    """
    found = Elimination(problem)
    if not found.run(widest):
        raise TooWide(f"elimination needs a table of {found.wanted:,} entries, and {widest:,} are allowed: "
                      "take the integer program")
    return found.choice({})


def solve(problem: Problem, widest: int = WIDEST) -> list[int]:
    """The states of least cost, by an integer program where elimination needs tables of more than `widest`
    entries."""
    found = Elimination(problem)
    if found.run(widest):
        return found.choice({})
    found = Elimination(problem)  # tables of many variables would only make an integer program larger
    found.pairs()
    left, rest = found.rest()
    return found.choice(dict(zip(left, integer_program(rest), strict=True)) if left else {})


class Elimination:
    """A problem in the middle of its elimination."""

    def __init__(self, problem: Problem) -> None:
        self.sizes = list(problem.sizes)
        self.wanted = 0
        """The entries of the table that was too large."""
        self._kept: list[Any] = [None] * len(self.sizes)
        """For each variable the numbers of its states that are left; None: all."""
        self._tables: dict[int, tuple[tuple[int, ...], Any]] = {}
        self._holding: list[set[int]] = [set() for _ in self.sizes]
        """The tables of each variable."""
        self._gone: list[tuple[int, list[int], Any, list[Any]]] = []
        """The variables that are gone, the neighbours they had, the best state for each of theirs, and which
        states they and their neighbours had then."""
        self._left = {v for v, n in enumerate(self.sizes) if n > 1}
        self._numbers = count()
        for variables, table in problem.tables:
            self._put(variables, table)

    def run(self, widest: int) -> bool:
        """Eliminate variables, those first that leave the smallest tables, until none is left, or those that
        are left need a table of more than `widest` entries; returns whether none is left."""
        limit = min(NARROW, widest)
        while not self._shrunk(limit):
            if not self._narrowed():
                if limit == widest:
                    return False
                if (width := self._width()) > HOPELESS * widest:
                    self.wanted = width
                    return False
                limit = widest
        return True

    def pairs(self) -> None:
        """Drop dominated states and eliminate the variables with at most two neighbours, so that no table has
        more variables than it had."""
        self._narrowed()
        todo = sorted(self._left, reverse=True)
        while todo:
            v = todo.pop()
            if v in self._left and len(self._around(v)) <= 3:
                todo += self._eliminated(v)

    def rest(self) -> tuple[list[int], Problem]:
        """The variables that are left, and the problem of these alone."""
        left = sorted(self._left)
        place = {v: k for k, v in enumerate(left)}
        return left, Problem([self.sizes[v] for v in left], [
            (tuple([place[v] for v in variables]), table) for variables, table in self._tables.values()
            if variables])

    def choice(self, known: Mapping[int, int]) -> list[int]:
        """The states of all variables, given those of the ones that are left by their numbers among the
        states that are left."""
        found = [0 if kept is None else int(kept[0]) for kept in self._kept]
        for v, state in known.items():
            found[v] = state if self._kept[v] is None else int(self._kept[v][state])
        for v, others, best, kept in reversed(self._gone):
            places = [found[w] if had is None else int(np.searchsorted(had, found[w]))
                      for w, had in zip(others, kept[1:], strict=True)]
            state = int(best[tuple(places)])
            found[v] = state if kept[0] is None else int(kept[0][state])
        return found

    # -- tables --------------------------------------------------------------------------------------------

    def _put(self, variables: tuple[int, ...], table: Any) -> None:
        """Add a table, without dimensions for the variables that have one state: an array has at most 64."""
        number = next(self._numbers)
        some = tuple([v for v, extent in zip(variables, table.shape, strict=True) if extent > 1])
        self._tables[number] = some, table.reshape([extent for extent in table.shape if extent > 1])
        for v in some:
            self._holding[v].add(number)

    def _taken(self, number: int) -> tuple[tuple[int, ...], Any]:
        """Remove a table."""
        variables, table = self._tables.pop(number)
        for v in variables:
            self._holding[v].discard(number)
        return variables, table

    # -- elimination ---------------------------------------------------------------------------------------

    def _around(self, v: int) -> list[int]:
        """A variable and those with which it shares tables."""
        return sorted({w for t in self._holding[v] for w in self._tables[t][0]} | {v})

    def _size(self, v: int) -> int:
        """The entries of the table that remains after the elimination of a variable."""
        return prod([self.sizes[w] for w in self._around(v)]) // self.sizes[v]

    def _shrunk(self, limit: int) -> bool:
        """Eliminate variables as long as tables have no more entries than this; returns whether none is
        left."""
        heap = [(self._size(v), v) for v in self._left]
        heapify(heap)
        while heap:
            entries, v = heappop(heap)
            if v not in self._left:
                continue
            if entries != (now := self._size(v)):
                heappush(heap, (now, v))
                continue
            if (entries := entries * self.sizes[v]) > limit:
                self.wanted = entries
                return False
            for w in self._eliminated(v):
                heappush(heap, (self._size(w), w))
        return True

    def _width(self) -> int:
        """The entries of the largest table that the elimination of all variables would take."""
        around = {v: {*self._around(v)} - {v} for v in self._left}

        def size(v: int) -> int:
            return prod([self.sizes[w] for w in around[v]])

        heap, most = [(size(v), v) for v in around], 0
        heapify(heap)
        while heap:
            entries, v = heappop(heap)
            if v not in around:
                continue
            if entries != (now := size(v)):
                heappush(heap, (now, v))
                continue
            most = max(most, entries * self.sizes[v])
            others = around.pop(v)
            for w in others:
                around[w] = (around[w] | others) - {v, w}
                heappush(heap, (size(w), w))
        return most

    def _eliminated(self, v: int) -> list[int]:
        """Eliminate a variable; returns those with which it shared tables."""
        others = [w for w in self._around(v) if w != v]
        total = np.zeros([self.sizes[w] for w in (*others, v)])
        for number in sorted(self._holding[v]):
            variables, table = self._taken(number)
            total += _spread(variables, table, [*others, v])
        best = total.argmin(-1)
        self._gone.append((v, others, best, [self._kept[w] for w in (v, *others)]))
        self._left.discard(v)
        self._put(tuple(others), np.take_along_axis(total, best[..., None], -1)[..., 0])
        return others

    # -- dominated states ----------------------------------------------------------------------------------

    def _narrowed(self) -> bool:
        """Drop states that others dominate, until there are none; returns whether there were any."""
        todo, dropped = sorted(self._left, reverse=True), False
        while todo:
            v = todo.pop()
            if v not in self._left:
                continue
            states = self._undominated(v)
            if len(states) == self.sizes[v]:
                continue
            dropped, around = True, self._around(v)
            self._keep(v, states)
            waiting = set(todo)
            todo += [w for w in around if w != v and w in self._left and w not in waiting]
        return dropped

    def _undominated(self, v: int) -> list[int]:
        """The states of a variable without those for which another one costs no more, whatever its neighbours
        do; of equal ones the first."""
        n = self.sizes[v]
        more = np.zeros((n, n))  # the least by which the first state costs more than the second one
        for number in self._holding[v]:
            variables, table = self._tables[number]
            costs = np.moveaxis(table, variables.index(v), 0).reshape(n, -1)
            if n * costs.size <= COMPARED:
                more += (costs[:, None] - costs[None]).min(-1)
            else:
                more += costs.min(-1)[:, None] - costs.max(-1)[None]
        left = list(range(n))
        for state in reversed(range(n)):
            if any([more[state, other] > 0 or (more[state, other] == 0 and other < state)
                    for other in left if other != state]):
                left.remove(state)
        return left

    def _keep(self, v: int, states: list[int]) -> None:
        """Keep these states of a variable alone; one that has a single one is no variable any more."""
        kept = self._kept[v]
        self._kept[v] = np.array(states) if kept is None else kept[states]
        self.sizes[v] = len(states)
        if len(states) == 1:
            self._left.discard(v)
        for number in sorted(self._holding[v]):
            variables, table = self._taken(number)
            self._put(variables, table.take(states, axis=variables.index(v)))


def _spread(variables: tuple[int, ...], table: Any, into: list[int]) -> Any:
    """A table with a dimension for each of some variables, of length 1 where it does not depend on one."""
    order = sorted(range(len(variables)), key=lambda k: into.index(variables[k]))
    extents = dict(zip(variables, table.shape, strict=True))
    return table.transpose(order).reshape([extents.get(w, 1) for w in into])
