"""The wave equation on a square drum, with a look at its centre after every step: a standing wave."""

import numpy as np
from common import check, chosen, finish, show

n, steps = chosen(tiny=(20, 30), small=(90, 3000), medium=(400, 240), large=(1500, 40))
h, dt = 1.0 / (n - 1), 0.5 / (n - 1)
x = np.linspace(0.0, 1.0, n)
now = np.sin(np.pi * x)[:, None] * np.sin(2.0 * np.pi * x)[None, :]
now[[0, -1], :] = 0.0
now[:, [0, -1]] = 0.0
# what the difference scheme itself makes of this shape is known: its amplitude is cos(omega * t)
curvature = 4.0 / h**2 * (np.sin(0.5 * np.pi * h) ** 2 + np.sin(np.pi * h) ** 2)
omega = np.arccos(1.0 - 0.5 * dt**2 * curvature) / dt
shape, before = now.copy(), now * np.cos(omega * dt)
record = []
for _ in range(steps):
    after = np.zeros((n, n))
    laplacian = (now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]) / h**2
    laplacian -= 4.0 / h**2 * now[1:-1, 1:-1]
    after[1:-1, 1:-1] = 2.0 * now[1:-1, 1:-1] - before[1:-1, 1:-1] + dt**2 * laplacian
    before, now = now, after
    record.append(float(now[n // 2, n // 4]))

exact = shape * np.cos(omega * steps * dt)
error = np.abs(now - exact).max()
check(error < 1e-8, f"off the exact standing wave by {error}")
check(max(record) <= 1.0 and min(record) >= -1.0, "the drum swings farther than it was pulled")
show("amplitude", np.sqrt(np.sum(now**2)) * h, 1e-8)
show("heard", np.sqrt(np.mean(np.square(record))), 1e-8)
finish()
