"""Maxwell's equations in a metal box by Yee's scheme: fields on staggered grids, updated in place."""

import numpy as np
from common import check, chosen, finish, show

n, steps = chosen(tiny=(20, 20), small=(90, 2500), medium=(350, 700), large=(1200, 100))
h, dt = 1.0 / n, 0.5 / n
x = h * np.arange(n + 1)
ez = np.sin(np.pi * x)[:, None] * np.sin(2.0 * np.pi * x)[None, :]
ez[[0, -1], :] = 0.0
ez[:, [0, -1]] = 0.0
hx, hy = np.zeros((n + 1, n)), np.zeros((n, n + 1))


def energy(ez, ez_before, hx, hy):
    return float(np.sum(ez * ez_before) + np.sum(hx**2) + np.sum(hy**2)) * h * h


before = None
for _ in range(steps):
    earlier = ez.copy()
    hx -= dt / h * (ez[:, 1:] - ez[:, :-1])
    hy += dt / h * (ez[1:, :] - ez[:-1, :])
    ez[1:-1, 1:-1] += dt / h * (hy[1:, 1:-1] - hy[:-1, 1:-1] - hx[1:-1, 1:] + hx[1:-1, :-1])
    if before is None:
        before = energy(ez, earlier, hx, hy)

after = energy(ez, earlier, hx, hy)
check(abs(after / before - 1.0) < 1e-9, f"energy was {before} and is {after}")
check(not ez[0].any() and not ez[:, -1].any(), "the metal lets the field through")
show("energy", after, 1e-9)
show("electric", np.sum(ez**2) * h * h, 1e-8)
finish()
