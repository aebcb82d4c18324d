"""The volume of a ball in five dimensions by Monte Carlo, batch by batch until the error is small."""

import numpy as np
from common import check, chosen, finish, show

n, batches = chosen(tiny=(200, 5), small=(2_000, 1500), medium=(20_000, 400), large=(1_000_000, 30))
rng = np.random.default_rng(5)
inside, estimates = 0, []
for _ in range(batches):
    points = 2.0 * rng.random((n, 5)) - 1.0
    hits = int(np.count_nonzero((points**2).sum(axis=1) < 1.0))
    inside += hits
    estimates.append(32.0 * hits / n)

volume = 32.0 * inside / (n * batches)
error = np.std(estimates) / np.sqrt(batches)
exact = 8.0 * np.pi**2 / 15.0
check(abs(volume - exact) < 72.0 / np.sqrt(n * batches), f"the volume is {volume}, not {exact}")
show("volume", volume, 0)
show("error", error, 1e-12)
finish()
