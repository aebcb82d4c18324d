"""The covariances and correlations of many measurements, one column with all that follow it."""

import numpy as np
from common import check, chosen, finish, show

n, columns, rounds = chosen(tiny=(30, 5, 1), small=(150, 50, 150), medium=(600, 250, 12),
                            large=(2500, 500, 2))
for i in range(rounds):
    rng = np.random.default_rng(700 + i)
    table = rng.standard_normal((n, columns)).cumsum(axis=1) + rng.random(columns)
    for j in range(columns):
        table[:, j] -= table[:, j].mean()
    covariance = np.empty((columns, columns))
    for j in range(columns):
        covariance[j, j:] = (table[:, j, None] * table[:, j:]).sum(axis=0) / (n - 1)
        covariance[j:, j] = covariance[j, j:]
    scale = np.sqrt(np.diagonal(covariance))
    correlation = covariance / scale[:, None] / scale[None, :]

check(np.allclose(covariance, np.cov(table, rowvar=False)), "not what NumPy's own function gives")
check(np.abs(correlation).max() < 1.0 + 1e-9, "a correlation is above 1")
show("variance", np.trace(covariance) / columns, 1e-9)
show("correlation", correlation.mean(), 1e-9)
finish()
