"""Gauss's elimination with pivots: rows exchanged, outer products subtracted from what is left."""

import numpy as np
from common import check, chosen, finish, show

n, rounds = chosen(tiny=(12, 1), small=(100, 50), medium=(350, 12), large=(1000, 2))
for i in range(rounds):
    rng = np.random.default_rng(500 + i)
    matrix, right = rng.standard_normal((n, n)), rng.standard_normal(n)
    work, x = matrix.copy(), right.copy()
    sign = 1.0
    for k in range(n - 1):
        pivot = k + int(np.argmax(np.abs(work[k:, k])))
        if pivot != k:
            work[[k, pivot]] = work[[pivot, k]]
            x[[k, pivot]] = x[[pivot, k]]
            sign = -sign
        factors = work[k + 1:, k] / work[k, k]
        work[k + 1:, k + 1:] -= factors[:, None] * work[k, k + 1:]
        work[k + 1:, k] = 0.0
        x[k + 1:] -= factors * x[k]
    for k in range(n - 1, -1, -1):
        x[k] = (x[k] - work[k, k + 1:] @ x[k + 1:]) / work[k, k]

error = np.abs(matrix @ x - right).max()
check(error < 1e-6, f"the residual is {error}")
show("solution", np.abs(x).max(), 1e-6)
show("determinant", np.log(np.abs(np.diagonal(work))).sum(), 1e-9)
show("sign", sign, 0)
finish()
