"""Solution as an integer program, by HiGHS through SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffuse.planning.problem import Problem


def integer_program(problem: Problem, seconds: float = 60.0) -> list[int]:
    """The states of least cost, or the best ones found within so many seconds.

    A variable is a choice of one of its states, and a table with several variables a distribution over its
    entries whose margins are these choices: a tighter relaxation than the inequalities of papers/004.  Needs
    SciPy; ValueError if no choice was found in the time.
    """
    from scipy import optimize, sparse

    starts = np.concatenate([[0], np.cumsum(problem.sizes)])
    costs = [np.zeros(starts[-1])]
    rows: list[Any] = []
    columns: list[Any] = []
    values: list[Any] = []
    equals: list[float] = []

    def constrain(where: Any, coefficients: Any, right: float) -> None:
        rows.append(np.full(len(where), len(equals)))
        columns.append(where)
        values.append(coefficients)
        equals.append(right)

    for v, states in enumerate(problem.sizes):
        constrain(np.arange(starts[v], starts[v + 1]), np.ones(states), 1.0)
    count = int(starts[-1])
    for variables, table in problem.tables:
        if len(variables) == 1:
            costs[0][starts[variables[0]]:starts[variables[0] + 1]] += table
            continue
        entries = count + np.arange(table.size).reshape(table.shape)
        for k, v in enumerate(variables):
            for state in range(problem.sizes[v]):
                mine = entries.take(state, axis=k).ravel()
                constrain(np.concatenate([mine, [starts[v] + state]]), np.r_[np.ones(len(mine)), -1.0], 0.0)
        costs.append(table.ravel())
        count += table.size
    matrix = sparse.csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
                              shape=(len(equals), count))
    binary = np.zeros(count)
    binary[:starts[-1]] = 1
    goal = np.concatenate(costs)
    goal /= max(float(np.abs(goal).max(initial=0.0)), 1e-300)  # tolerances of the solver are absolute
    found = optimize.milp(goal, integrality=binary, bounds=optimize.Bounds(0, 1),
                          constraints=optimize.LinearConstraint(matrix, equals, equals),
                          options={"time_limit": seconds})
    if found.x is None:
        raise ValueError(f"integer program of {count:,} unknowns: no choice was found in {seconds:g} seconds "
                         f"({found.message})")
    return [int(found.x[starts[v]:starts[v + 1]].argmax()) for v in range(len(problem.sizes))]
