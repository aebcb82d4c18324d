"""Birds that take the mean heading of all birds near them, plus noise: the flock aligns (Vicsek's model)."""

import numpy as np
from common import check, chosen, finish, show

n, steps, within = chosen(tiny=(20, 10, 1e-10), small=(100, 800, 0), medium=(400, 150, 1e-3),
                          large=(1200, 60, 1e-3))
box, radius, speed, noise = np.sqrt(n / 4.0), 1.0, 0.03, 0.3

rng = np.random.default_rng(2)
x, y = box * rng.random((2, n))
heading = 0.8 * np.pi * (rng.random(n) - 0.5)


def order(heading):
    """1 where all fly in one direction, about 0 where each has its own."""
    return np.hypot(np.cos(heading).mean(), np.sin(heading).mean())


before = float(order(heading))
neighbours = 0
for _ in range(steps):
    dx = np.abs(x[:, None] - x[None, :])
    dy = np.abs(y[:, None] - y[None, :])
    dx = np.minimum(dx, box - dx)
    dy = np.minimum(dy, box - dy)
    near = dx * dx + dy * dy < radius**2
    neighbours += int(near.sum())
    across = np.where(near, np.sin(heading)[None, :], 0.0).sum(axis=1)
    along = np.where(near, np.cos(heading)[None, :], 0.0).sum(axis=1)
    heading = np.arctan2(across, along) + noise * (rng.random(n) - 0.5)
    x = (x + speed * np.cos(heading)) % box
    y = (y + speed * np.sin(heading)) % box

after = float(order(heading))
check(before < after <= 1.0, f"order was {before} and is {after}")
check(0 <= x.min() and x.max() <= box, "a bird has left the box")
show("order", after, within)
show("neighbours of a bird", neighbours / (n * steps), within)
finish()
