"""Stars that attract each other, all pairs of them, by leapfrog steps that keep energy and momentum."""

import numpy as np
from common import check, chosen, finish, show

n, steps, within = chosen(tiny=(10, 5, 1e-10), small=(100, 1000, 0), medium=(400, 80, 1e-8),
                          large=(1200, 40, 1e-8))
dt, soft, mass = 0.005, 0.1, 1.0 / n

rng = np.random.default_rng(1)
x, y, z = rng.standard_normal((3, n))
vx, vy, vz = 0.3 * rng.standard_normal((3, n))
vx, vy, vz = vx - vx.mean(), vy - vy.mean(), vz - vz.mean()


def accelerations(x, y, z):
    dx = x[None, :] - x[:, None]
    dy = y[None, :] - y[:, None]
    dz = z[None, :] - z[:, None]
    inverse = (dx**2 + dy**2 + dz**2 + soft**2) ** -1.5
    return [mass * (d * inverse).sum(axis=1) for d in (dx, dy, dz)]


def energy(x, y, z, vx, vy, vz):
    dx, dy, dz = (a[None, :] - a[:, None] for a in (x, y, z))
    potential = -mass * mass * np.sum(np.triu(1.0 / np.sqrt(dx**2 + dy**2 + dz**2 + soft**2), 1))
    return 0.5 * mass * np.sum(vx**2 + vy**2 + vz**2) + potential


before = energy(x, y, z, vx, vy, vz)
ax, ay, az = accelerations(x, y, z)
for _ in range(steps):
    vx, vy, vz = vx + 0.5 * dt * ax, vy + 0.5 * dt * ay, vz + 0.5 * dt * az
    x, y, z = x + dt * vx, y + dt * vy, z + dt * vz
    ax, ay, az = accelerations(x, y, z)
    vx, vy, vz = vx + 0.5 * dt * ax, vy + 0.5 * dt * ay, vz + 0.5 * dt * az
after = energy(x, y, z, vx, vy, vz)

check(abs(after - before) < 0.01 * abs(before), f"energy was {before} and is {after}")
check(abs(vx.sum()) + abs(vy.sum()) + abs(vz.sum()) < 1e-9, "the stars together have begun to move")
show("energy", after, within)
show("radius", np.sqrt(np.mean(x**2 + y**2 + z**2)), within)
finish()
