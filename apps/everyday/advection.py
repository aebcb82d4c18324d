"""Pulses carried round a ring without spreading: finite volumes with van Leer's limiter and np.roll."""

import numpy as np
from common import check, chosen, finish, show

n, steps = chosen(tiny=(100, 20), small=(4_000, 1600), medium=(60_000, 400), large=(1_500_000, 18))
courant = 0.4
x = (np.arange(n) + 0.5) / n
start = np.exp(-200.0 * (x - 0.3) ** 2) + np.where(np.abs(x - 0.7) < 0.1, 1.0, 0.0)


def advance(u):
    left = u - np.roll(u, 1)
    right = np.roll(u, -1) - u
    product = left * right
    slope = np.where(product > 0.0, 2.0 * product / np.where(product > 0.0, left + right, 1.0), 0.0)
    face = u + 0.5 * (1.0 - courant) * slope
    return u - courant * (face - np.roll(face, 1))


u = start.copy()
for _ in range(steps):
    u = advance(u)

variation = np.abs(u - np.roll(u, 1)).sum()
before = np.abs(start - np.roll(start, 1)).sum()
check(abs(u.sum() - start.sum()) < 1e-9 * n, f"mass was {start.sum()} and is {u.sum()}")
check(variation <= before + 1e-9, f"variation grew from {before} to {variation}")
centre = np.angle(np.sum(u * np.exp(2j * np.pi * x))) - np.angle(np.sum(start * np.exp(2j * np.pi * x)))
moved = (centre / (2.0 * np.pi)) % 1.0
check(abs(moved - courant * steps / n % 1.0) < 1e-3, f"the pulses moved by {moved}")
show("moved", moved, 1e-6)
show("variation", variation, 1e-9)
finish()
