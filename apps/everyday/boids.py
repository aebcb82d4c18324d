"""Birds that see few others: each bird in turn, in a Python loop, steers by those within its reach."""

import numpy as np
from common import check, chosen, finish, show

n, steps, within = chosen(tiny=(20, 3, 1e-10), small=(200, 30, 0), medium=(10_000, 1, 1e-6),
                          large=(1_000_000, 1, 1e-6))
turns = min(n, 80 if n == 1_000_000 else 2000)
rng = np.random.default_rng(3)
place = rng.random((n, 2)) * np.sqrt(n)
velocity = rng.standard_normal((n, 2))
seen = 0

for _ in range(steps):
    steering = np.zeros((n, 2))
    for i in range(turns):
        apart = place - place[i]
        distance = np.sqrt(apart[:, 0] ** 2 + apart[:, 1] ** 2)
        near = distance < 2.0
        near[i] = False
        count = np.count_nonzero(near)
        seen += int(count)
        if count > 0:
            cohesion = apart[near].mean(axis=0)
            alignment = velocity[near].mean(axis=0) - velocity[i]
            crowded = near & (distance < 0.5)
            separation = -apart[crowded].sum(axis=0)
            steering[i] = 0.01 * cohesion + 0.1 * alignment + 0.05 * separation
    velocity += steering
    velocity /= np.maximum(1.0, np.hypot(velocity[:, 0], velocity[:, 1]) / 2.0)[:, None]
    place += 0.1 * velocity

speed = np.hypot(velocity[:, 0], velocity[:, 1])
check(float(speed.max()) < 2.0 + 1e-9, "a bird flies faster than birds can")
check(seen > 0, "no bird sees another")
show("seen", seen, 0)
show("mean speed", speed.mean(), within)
finish()
