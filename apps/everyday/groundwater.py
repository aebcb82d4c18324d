"""The pressure of water around two wells by conjugate gradients, written out, on a sparse matrix."""

import numpy as np
from common import check, chosen, finish, show
from scipy import sparse

n, most, rounds = chosen(tiny=(12, 80, 1), small=(50, 300, 30), medium=(200, 150, 8), large=(1000, 60, 1))
rng = np.random.default_rng(20)
ones = np.ones(n)
second = sparse.diags([-ones[:-1], 2.0 * ones, -ones[:-1]], [-1, 0, 1])
ground = 1.0 + rng.random(n * n)
matrix = sparse.csr_matrix(sparse.kron(second, sparse.eye(n)) + sparse.kron(sparse.eye(n), second)
                           + sparse.diags([0.01 * ground], [0]))
wells = np.zeros(n * n)
wells[n * n // 3] = 1.0
wells[n * n // 2 + n // 4] = -1.0

for _ in range(rounds):
    pressure, residual = np.zeros(n * n), wells.copy()
    direction = residual.copy()
    square = float(residual @ residual)
    turns = 0
    while turns < most and square > 1e-20:
        product = matrix @ direction
        step = square / float(direction @ product)
        pressure += step * direction
        residual -= step * product
        square, before = float(residual @ residual), square
        direction = residual + square / before * direction
        turns += 1

left = np.sqrt(np.sum((matrix @ pressure - wells) ** 2))
check(left < 1e-9 or turns == most and left < 1.0, f"a residual of {left} is left")
check(pressure[n * n // 3] > 0.0 > pressure[n * n // 2 + n // 4], "a well pumps the wrong way")
show("highest", pressure.max(), 1e-7)
show("lowest", pressure.min(), 1e-7)
finish()
