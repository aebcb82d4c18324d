"""Cholesky's factorisation by columns, each from all columns before it."""

import numpy as np
from common import check, chosen, finish, show

n, rounds = chosen(tiny=(16, 1), small=(100, 150), medium=(400, 40), large=(1400, 2))
for i in range(rounds):
    rng = np.random.default_rng(400 + i)
    square = rng.random((n, n))
    matrix = square @ square.T + n * np.eye(n)
    lower = matrix.copy()
    for j in range(n):
        if j > 0:
            lower[j:, j] -= lower[j:, :j] @ lower[j, :j]
        lower[j:, j] /= np.sqrt(lower[j, j])
        lower[j, j + 1:] = 0.0

error = np.abs(lower @ lower.T - matrix).max()
check(error < 1e-9 * n, f"the factors differ from the matrix by {error}")
show("trace", np.trace(lower), 1e-10)
show("determinant", 2.0 * np.log(np.diagonal(lower)).sum(), 1e-10)
finish()
