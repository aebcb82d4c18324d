"""A fluid by the lattice Boltzmann method, its nine populations in the last axis: vortices that decay."""

import numpy as np
from common import check, chosen, finish, show

n, steps = chosen(tiny=(12, 10), small=(32, 700), medium=(120, 60), large=(400, 30))
cx = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
cy = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
weights = np.array([4 / 9] + 4 * [1 / 9] + 4 * [1 / 36])
relaxation = 0.8
viscosity, k = (relaxation - 0.5) / 3.0, 2.0 * np.pi / n
y, x = np.indices((n, n))
speed = 0.02


def equilibrium(density, ux, uy):
    along = 3.0 * (ux[:, :, None] * cx + uy[:, :, None] * cy)
    square = 1.5 * (ux**2 + uy**2)
    return weights * density[:, :, None] * (1.0 + along + 0.5 * along**2 - square[:, :, None])


ux, uy = -speed * np.cos(k * x) * np.sin(k * y), speed * np.sin(k * x) * np.cos(k * y)
f = equilibrium(np.ones((n, n)), ux, uy)
for _ in range(steps):
    density = f.sum(axis=2)
    ux = (f * cx).sum(axis=2) / density
    uy = (f * cy).sum(axis=2) / density
    f += (equilibrium(density, ux, uy) - f) / relaxation
    for i in range(1, 9):
        f[:, :, i] = np.roll(f[:, :, i], (cy[i], cx[i]), axis=(0, 1))

ux, uy = (f * cx).sum(axis=2) / f.sum(axis=2), (f * cy).sum(axis=2) / f.sum(axis=2)
energy = float(np.mean(ux**2 + uy**2))
exact = 0.5 * speed**2 * np.exp(-4.0 * viscosity * k**2 * steps)
check(abs(f.sum() / n**2 - 1.0) < 1e-12, f"mass is {f.sum() / n**2} of what it was")
check(abs(energy / exact - 1.0) < 0.1, f"kinetic energy {energy}, expected {exact}")
show("energy", energy, 1e-9)
show("density", f.sum(axis=2).max(), 1e-12)
finish()
