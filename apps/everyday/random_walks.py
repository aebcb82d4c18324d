"""Walkers that step left or right at random: how far they come, and how many come home."""

import numpy as np
from common import check, chosen, finish, show

walkers, steps, rounds = chosen(tiny=(10, 50, 3), small=(50, 200, 2000), medium=(400, 400, 400),
                                large=(2000, 1000, 80))
rng = np.random.default_rng(7)
square, homes, farthest = 0.0, 0, 0
for _ in range(rounds):
    paths = np.cumsum(2 * rng.integers(0, 2, (walkers, steps)) - 1, axis=1)
    square += float(np.mean(paths[:, -1] ** 2))
    homes += int(np.any(paths == 0, axis=1).sum())
    farthest = max(farthest, int(np.abs(paths).max()))

total = walkers * rounds
square /= rounds
home = homes / total
expected = 1.0 - np.sqrt(2.0 / (np.pi * steps))
check(abs(square / steps - 1.0) < 8.0 / np.sqrt(total), f"mean square distance {square} after {steps} steps")
check(abs(home - expected) < 0.02 + 3.0 / np.sqrt(total), f"{home} came home, expected {expected}")
show("mean square distance", square, 1e-12)
show("came home", home, 0)
show("farthest", farthest, 0)
finish()
