"""Heat in a plate by alternating directions: tridiagonal solves along the rows, then along the columns."""

import numpy as np
from common import check, chosen, finish, show

n, steps = chosen(tiny=(16, 3), small=(80, 120), medium=(300, 60), large=(1000, 25))
h, r = 1.0 / (n + 1), 0.8
x = h * np.arange(1, n + 1)
plate = np.sin(np.pi * x)[:, None] * np.sin(3.0 * np.pi * x)[None, :]
start = plate.copy()


def explicit(u):
    """(1 + r/2 * second difference) along the first axis, between borders at zero."""
    found = (1.0 - r) * u
    found[1:] += 0.5 * r * u[:-1]
    found[:-1] += 0.5 * r * u[1:]
    return found


def solve(right):
    """Solve (1 - r/2 * second difference) u = right, a system for every row, column after column."""
    u, factors = np.empty_like(right), np.empty(n)
    factors[0] = -0.5 * r / (1.0 + r)
    u[:, 0] = right[:, 0] / (1.0 + r)
    for j in range(1, n):
        pivot = 1.0 + r + 0.5 * r * factors[j - 1]
        factors[j] = -0.5 * r / pivot
        u[:, j] = (right[:, j] + 0.5 * r * u[:, j - 1]) / pivot
    for j in range(n - 2, -1, -1):
        u[:, j] -= factors[j] * u[:, j + 1]
    return u


for _ in range(steps):
    plate = solve(explicit(plate))
    plate = solve(explicit(plate.T)).T

one, three = (2.0 * np.sin(0.5 * m * np.pi * h) ** 2 for m in (1, 3))
factor = (1.0 - r * one) * (1.0 - r * three) / ((1.0 + r * one) * (1.0 + r * three))
error = np.abs(plate - factor**steps * start).max()
check(error < 1e-10, f"off the exact decay of this shape by {error}")
show("warmest", plate.max(), 1e-9)
show("heat", np.abs(plate).sum() * h * h, 1e-9)
finish()
