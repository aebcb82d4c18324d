"""Orthogonal columns by the modified method of Gram and Schmidt, pair after pair of columns."""

import numpy as np
from common import check, chosen, finish, show

n, columns, rounds = chosen(tiny=(20, 6, 1), small=(120, 60, 20), medium=(1000, 100, 8), large=(8000, 128, 2))
for i in range(rounds):
    start = np.random.default_rng(600 + i).standard_normal((n, columns))
    q, r = start.copy(), np.zeros((columns, columns))
    for j in range(columns):
        r[j, j] = np.sqrt(np.sum(q[:, j] ** 2))
        q[:, j] /= r[j, j]
        for k in range(j + 1, columns):
            r[j, k] = q[:, j] @ q[:, k]
            q[:, k] -= r[j, k] * q[:, j]

check(np.abs(q.T @ q - np.eye(columns)).max() < 1e-9, "the columns are not orthogonal")
check(np.abs(q @ r - start).max() < 1e-9, "the factors are not those of the matrix")
show("trace", np.trace(r), 1e-9)
show("largest", np.abs(r).max(), 1e-9)
finish()
