"""Points in the plane sorted into clusters by Lloyd's algorithm."""

import numpy as np
from common import check, chosen, finish, show

n, clusters, turns = chosen(tiny=(100, 3, 3), small=(800, 6, 700), medium=(8_000, 8, 160),
                            large=(150_000, 8, 25))
rng = np.random.default_rng(12)
angle = 2.0 * np.pi * np.arange(clusters) / clusters
homes = 4.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
points = homes[rng.integers(0, clusters, n)] + 0.5 * rng.standard_normal((n, 2))
centres = homes + 0.8 * rng.standard_normal((clusters, 2))

costs = []
for _ in range(turns):
    square = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    nearest = square.argmin(axis=1)
    costs.append(float(square[np.arange(n), nearest].sum()))
    for k in range(clusters):
        own = points[nearest == k]
        if len(own) > 0:
            centres[k] = own.mean(axis=0)

check(all(b <= a * (1.0 + 1e-12) for a, b in zip(costs, costs[1:])), "a turn made the clusters worse")
check(np.bincount(nearest, minlength=clusters).sum() == n, "a point belongs to no cluster")
show("cost", costs[-1] / n, 1e-9)
show("largest", np.bincount(nearest, minlength=clusters).max(), 0)
finish()
