"""Heat in many rods at once by Crank and Nicolson, with SciPy's solver for banded matrices."""

import numpy as np
from common import check, chosen, finish, show
from scipy.linalg import solve_banded

n, rods, steps = chosen(tiny=(50, 4, 5), small=(200, 20, 2000), medium=(500, 200, 250),
                        large=(1000, 1500, 50))
h, r = 1.0 / (n + 1), 2.0
x = h * np.arange(1, n + 1)
modes = 1 + np.arange(rods) % 4
heat = np.sin(np.pi * x[:, None] * modes[None, :])
start = heat.copy()
bands = np.empty((3, n))
bands[0], bands[1], bands[2] = -0.5 * r, 1.0 + r, -0.5 * r

for _ in range(steps):
    right = (1.0 - r) * heat
    right[1:] += 0.5 * r * heat[:-1]
    right[:-1] += 0.5 * r * heat[1:]
    heat = solve_banded((1, 1), bands, right)

rate = 2.0 * np.sin(0.5 * modes * np.pi * h) ** 2
exact = start * ((1.0 - r * rate) / (1.0 + r * rate)) ** steps
error = np.abs(heat - exact).max()
check(error < 1e-10, f"off the exact decay of these shapes by {error}")
show("warmest", heat.max(), 1e-9)
show("heat", h * np.abs(heat).sum(), 1e-9)
finish()
