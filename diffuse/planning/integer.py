"""Solution as an integer program, by HiGHS through SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffuse.planning.problem import Problem

SECONDS = 60.0
"""The time that the solver may take for one problem."""
WHOLE = 1e-6
"""By how much an unknown may differ from a whole number and count as one."""


def integer_program(problem: Problem) -> list[int]:
    """The states of least cost, or the best ones found within `SECONDS`.

    A variable is a choice of one of its states, and a table with several variables a distribution over its
    entries whose margins are these choices: a tighter relaxation than the inequalities of papers/004.  Needs
    SciPy; ValueError if no choice was found in the time.
    """
    from scipy import sparse

    starts = np.concatenate([[0], np.cumsum(problem.sizes)])
    choices = int(starts[-1])
    costs = [np.zeros(choices)]
    rows = [np.repeat(np.arange(len(problem.sizes)), problem.sizes)]  # one state for each variable
    columns, values = [np.arange(choices)], [np.ones(choices)]
    count, equations = choices, len(problem.sizes)
    for variables, table in problem.tables:
        if len(variables) == 1:
            costs[0][starts[variables[0]]:starts[variables[0] + 1]] += table
            continue
        entries = count + np.arange(table.size).reshape(table.shape)
        for k, v in enumerate(variables):  # the entries with a state add up to its choice
            states = np.arange(starts[v], starts[v + 1])
            mine = np.column_stack([np.moveaxis(entries, k, 0).reshape(len(states), -1), states])
            rows.append(np.repeat(equations + np.arange(len(states)), mine.shape[1]))
            columns.append(mine.ravel())
            values.append(np.tile(np.r_[np.ones(mine.shape[1] - 1), -1.0], len(states)))
            equations += len(states)
        costs.append(table.ravel())
        count += table.size
    matrix = sparse.csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
                              shape=(equations, count))
    equals = np.zeros(equations)
    equals[:len(problem.sizes)] = 1.0
    goal = np.concatenate(costs)
    goal /= max(float(np.abs(goal).max(initial=0.0)), 1e-300)  # tolerances of the solver are absolute
    chosen = _optimum(goal, matrix, equals, choices)
    return [int(chosen[starts[v]:starts[v + 1]].argmax()) for v in range(len(problem.sizes))]


def _optimum(goal: Any, matrix: Any, equals: Any, choices: int) -> Any:
    """The unknowns of least cost, of which the first `choices` are 0 or 1.

    For most problems the optimum of the relaxation is such a vertex.  The simplex method alone then takes
    half the time of the integer program, which also looks for feasible points and bounds.
    """
    from scipy import optimize

    options = {"time_limit": SECONDS}
    relaxed = optimize.linprog(goal, A_eq=matrix, b_eq=equals, method="highs-ds", options=options)
    if relaxed.status == 0 and np.abs(relaxed.x[:choices] - np.round(relaxed.x[:choices])).max() < WHOLE:
        return relaxed.x
    binary = np.zeros(len(goal))
    binary[:choices] = 1
    found = optimize.milp(goal, integrality=binary, bounds=optimize.Bounds(0, 1),
                          constraints=optimize.LinearConstraint(matrix, equals, equals),
                          options=options)
    if found.x is None:
        raise ValueError(f"integer program of {len(goal):,} unknowns: no choice was found in {SECONDS:g} "
                         f"seconds ({found.message})")
    return found.x
