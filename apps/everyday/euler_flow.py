"""A gas in two dimensions by finite volumes, with np.roll for all neighbours: two streams shear each other.

Second order in space (limited slopes) and time (half steps); a step is about four hundred operations.
"""

import numpy as np
from common import check, chosen, finish, show

n, steps = chosen(tiny=(16, 3), small=(64, 120), medium=(256, 24), large=(1000, 2))
gamma, dx = 5.0 / 3.0, 1.0 / n
y, x = (np.indices((n, n)) + 0.5) * dx
inner = np.abs(y - 0.5) < 0.25
across = 0.1 * np.sin(4.0 * np.pi * x) * np.exp(-200.0 * (np.abs(y - 0.5) - 0.25) ** 2)
# density, velocity along x and y, pressure; below, the axis of y is 0 and that of x is 1
state = [np.where(inner, 2.0, 1.0), np.where(inner, 0.5, -0.5), across, np.full((n, n), 2.5)]
along = {0: 2, 1: 1}


def conserved(r, u, v, p):
    return [r, r * u, r * v, p / (gamma - 1.0) + 0.5 * r * (u**2 + v**2)]


def slope(f, axis):
    left, right = f - np.roll(f, 1, axis), np.roll(f, -1, axis) - f
    limited = np.where(np.abs(left) < np.abs(right), left, right)
    return np.where(left * right > 0.0, limited, 0.0)


def flux(state, axis):
    r, p, normal = state[0], state[3], state[along[axis]]
    mass, ru, rv, e = conserved(*state)
    found = [mass * normal, ru * normal, rv * normal, (e + p) * normal]
    found[along[axis]] = found[along[axis]] + p
    return found, np.abs(normal) + np.sqrt(gamma * p / r)


def advance(state, dt):
    slopes = [[slope(f, axis) for f in state] for axis in (0, 1)]
    middle, total = list(state), conserved(*state)
    for axis in (0, 1):
        r, p, normal = state[0], state[3], state[along[axis]]
        dr, du, dv, dp = slopes[axis]
        dn = slopes[axis][along[axis]]
        changes = [normal * dr + r * dn, normal * du, normal * dv, normal * dp + gamma * p * dn]
        changes[along[axis]] = changes[along[axis]] + dp / r
        middle = [m - 0.5 * dt / dx * c for m, c in zip(middle, changes)]
    for axis in (0, 1):
        left = [m + 0.5 * s for m, s in zip(middle, slopes[axis])]
        right = [np.roll(m - 0.5 * s, -1, axis) for m, s in zip(middle, slopes[axis])]
        (from_left, fast), (from_right, faster) = flux(left, axis), flux(right, axis)
        speed = np.maximum(fast, faster)
        for i, (a, b, c, d) in enumerate(zip(from_left, from_right, conserved(*left), conserved(*right))):
            through = 0.5 * (a + b - speed * (d - c))
            total[i] = total[i] - dt / dx * (through - np.roll(through, 1, axis))
    r, ru, rv, e = total
    return [r, ru / r, rv / r, (gamma - 1.0) * (e - 0.5 * (ru**2 + rv**2) / r)]


before = [float(q.sum()) * dx * dx for q in conserved(*state)]
for _ in range(steps):
    r, u, v, p = state
    dt = 0.3 * dx / float((np.sqrt(gamma * p / r) + np.maximum(np.abs(u), np.abs(v))).max())
    state = advance(state, dt)
after = [float(q.sum()) * dx * dx for q in conserved(*state)]

check(max(abs(a - b) for a, b in zip(after, before)) < 1e-10, f"totals were {before} and are {after}")
check(float(state[0].min()) > 0.0, "density became negative")
show("step", dt, 1e-10)
show("mixing", np.mean(state[2] ** 2), 1e-8)
show("densest", state[0].max(), 1e-8)
finish()
