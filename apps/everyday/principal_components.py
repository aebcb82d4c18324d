"""Principal components of a table of measurements: standardise, covariance, eigenvectors, projections."""

import numpy as np
from common import check, chosen, finish, show

n, d, rounds = chosen(tiny=(50, 4, 1), small=(500, 12, 500), medium=(8_000, 20, 60), large=(100_000, 24, 6))
for i in range(rounds):
    rng = np.random.default_rng(200 + i)
    hidden = rng.standard_normal((n, 3)) * np.array([3.0, 2.0, 1.0])
    table = hidden @ rng.standard_normal((3, d)) + 0.1 * rng.standard_normal((n, d))
    centred = (table - table.mean(axis=0)) / table.std(axis=0)
    covariance = centred.T @ centred / n
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    scores = centred @ vectors[:, :3]
    rest = centred - scores @ vectors[:, :3].T

check(abs(values.sum() - d) < 1e-9, f"the variances sum to {values.sum()}, not {d}")
check(np.allclose(scores.var(axis=0), values[:3]), "a component has another variance than its eigenvalue")
check(float((rest**2).mean()) < 0.1, "three components do not explain the table")
show("first", values[0], 1e-9)
show("explained", values[:3].sum() / d, 1e-9)
show("rest", (rest**2).mean(), 1e-8)
finish()
