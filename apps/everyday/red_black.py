"""Poisson's equation by over-relaxation, red points and then black ones, until the change is small."""

import numpy as np
from common import check, chosen, finish, show

n, most, sought = chosen(tiny=(17, 60, 1e-4), small=(121, 600, 1e-9), medium=(321, 400, 1e-9),
                         large=(1201, 40, 1e-9))
h = 1.0 / (n - 1)
x = np.linspace(0.0, 1.0, n)
exact = np.sin(np.pi * x)[:, None] * np.sin(2.0 * np.pi * x)[None, :]
source = -5.0 * np.pi**2 * exact * h * h
u = np.zeros((n, n))
omega = 2.0 / (1.0 + np.sin(np.pi * h))
fields = [(slice(i, n - 1, 2), slice(j, n - 1, 2)) for i, j in ((1, 1), (2, 2), (1, 2), (2, 1))]


def shifted(part, by, axis):
    moved = list(part)
    moved[axis] = slice(part[axis].start + by, part[axis].stop + by, 2)
    return tuple(moved)


def residual(u):
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1] - source[1:-1, 1:-1]


for turns in range(1, most + 1):
    largest = 0.0
    for part in fields:
        around = sum(u[shifted(part, by, axis)] for by in (-1, 1) for axis in (0, 1))
        change = omega * (0.25 * (around - source[part]) - u[part])
        u[part] += change
        largest = max(largest, float(np.abs(change).max()))
    if largest < sought:
        break

# every turn lowers this functional, which is zero at the start and lowest at the solution
inner = u[1:-1, 1:-1]
functional = 0.5 * float(np.sum(inner * source[1:-1, 1:-1]) - np.sum(inner * residual(u)))
error = float(np.abs(u - exact).max())
check(functional < 0.0, f"the functional is {functional}")
check(turns == most or error < 10.0 * h * h, f"after {turns} turns the error is {error}")
show("turns", turns, 0)
show("norm", np.sqrt(np.sum(u**2)) * h, 1e-7)
finish()
