"""Particles on springs in a warm liquid: after a while their places have the variance of equipartition."""

import numpy as np
from common import check, chosen, finish, show

n, steps = chosen(tiny=(200, 200), small=(2_000, 3000), medium=(50_000, 400), large=(1_000_000, 80))
dt = 3.0 / steps
rng = np.random.default_rng(8)
x = 2.0 * np.ones(n)
kick = np.sqrt(2.0 * dt)
means, variances = np.empty(steps), np.empty(steps)
for i in range(steps):
    x = x - dt * x + kick * rng.standard_normal(n)
    means[i] = x.mean()
    variances[i] = x.var()

times = dt * np.arange(1, steps + 1)
drift = np.abs(means - 2.0 * (1.0 - dt) ** np.arange(1, steps + 1)).max()
check(drift < 6.0 / np.sqrt(n), f"the mean is off its exponential decay by {drift}")
exact = (1.0 - (1.0 - dt) ** (2 * steps)) / (1.0 - dt / 2.0)
check(abs(variances[-1] - exact) < 8.0 / np.sqrt(n), f"variance {variances[-1]}, expected {exact}")
show("mean", means[-1], 1e-9)
show("variance", variances[-1], 1e-9)
show("time", times[-1], 1e-12)
finish()
