"""The highest tone of a square membrane by Lanczos' method: products with a sparse matrix, and dots."""

import numpy as np
from common import check, chosen, finish, show
from scipy.sparse import diags, eye, kron

n, turns, rounds = chosen(tiny=(12, 12, 1), small=(60, 60, 60), medium=(220, 80, 15), large=(1000, 40, 1))
line = diags([np.full(n - 1, -1.0), np.full(n, 2.0), np.full(n - 1, -1.0)], [-1, 0, 1])
matrix = (kron(line, eye(n)) + kron(eye(n), line)).tocsr()
for i in range(rounds):
    v = np.random.default_rng(800 + i).standard_normal(n * n)
    v /= np.sqrt(v @ v)
    before, beta = np.zeros(n * n), 0.0
    alphas, betas = [], []
    for _ in range(turns):
        w = matrix @ v - beta * before
        alpha = float(v @ w)
        w -= alpha * v
        alphas.append(alpha)
        beta = float(np.sqrt(w @ w))
        betas.append(beta)
        before, v = v, w / beta
    values = np.linalg.eigvalsh(np.diag(alphas) + np.diag(betas[:-1], 1) + np.diag(betas[:-1], -1))

exact = 8.0 * np.sin(0.5 * np.pi * n / (n + 1)) ** 2
check(values[-1] <= exact + 1e-9 and values[-1] > 0.95 * exact, f"highest {values[-1]}, exact {exact}")
show("highest", values[-1], 1e-6)
show("mean", np.mean(alphas), 1e-4)
finish()
