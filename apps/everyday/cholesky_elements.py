"""Cholesky's factorisation as the textbook has it, element by element, with sums over parts of rows."""

import numpy as np
from common import check, chosen, finish, show

n, rounds = chosen(tiny=(12, 1), small=(80, 15), medium=(330, 3), large=(1100, 1))
for i in range(rounds):
    rng = np.random.default_rng(300 + i)
    square = rng.random((n, n))
    matrix = square @ square.T + n * np.eye(n)
    lower = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            lower[i, j] = (matrix[i, j] - np.dot(lower[i, :j], lower[j, :j])) / lower[j, j]
        lower[i, i] = np.sqrt(matrix[i, i] - np.dot(lower[i, :i], lower[i, :i]))

error = np.abs(lower @ lower.T - matrix).max()
check(error < 1e-9 * n, f"the factors differ from the matrix by {error}")
show("trace", np.trace(lower), 1e-10)
show("last", lower[-1, -1], 1e-9)
finish()
