"""Shortest paths between all towns by Floyd and Warshall: one town after another as a stop on the way."""

import numpy as np
from common import check, chosen, finish, show

n, rounds = chosen(tiny=(20, 1), small=(100, 80), medium=(300, 4), large=(1000, 1))
for i in range(rounds):
    rng = np.random.default_rng(100 + i)
    roads = rng.random((n, n))
    roads[rng.random((n, n)) < 0.8] = np.inf
    np.fill_diagonal(roads, 0.0)
    distance = roads.copy()
    for k in range(n):
        distance[:] = np.minimum(distance, distance[:, k, None] + distance[k])

check(np.all(distance <= roads) and not np.diagonal(distance).any(), "a path is longer than the road")
for k in range(0, n, max(1, n // 10)):
    detour = distance[:, k, None] + distance[k]
    check(np.all(distance <= detour + 1e-12), f"a detour by {k} is shorter")
show("mean distance", distance[np.isfinite(distance)].mean(), 1e-12)
show("farthest", distance[np.isfinite(distance)].max(), 0)
finish()
