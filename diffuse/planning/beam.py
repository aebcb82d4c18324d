"""Solution by beam search, as in papers/004: one variable after another, keeping the cheapest partial
choices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diffuse.planning.problem import Problem


def beam(problem: Problem, width: int = 64, order: Sequence[int] | None = None) -> list[int]:
    """The best states that a beam of this width finds, with variables in this order, or that of the problem.
    There is no bound on their distance from the optimum."""
    order = range(len(problem.sizes)) if order is None else order
    place = {v: k for k, v in enumerate(order)}
    ready: list[list[int]] = [[] for _ in problem.sizes]
    for number, (variables, _) in enumerate(problem.tables):
        ready[max(variables, key=place.__getitem__)].append(number)
    kept = np.zeros((1, len(problem.sizes)), np.int64)
    costs = np.zeros(1)
    for v in order:
        states = problem.sizes[v]
        added = np.zeros((len(kept), states))
        for number in ready[v]:
            variables, table = problem.tables[number]
            columns = [np.arange(states)[None, :] if w == v else kept[:, w, None] for w in variables]
            added += table[tuple(columns)]
        total = (costs[:, None] + added).ravel()
        best = np.argsort(total, kind="stable")[:width]
        rows, picked = np.divmod(best, states)
        kept = kept[rows]
        kept[:, v] = picked
        costs = total[best]
    return [int(state) for state in kept[0]]
