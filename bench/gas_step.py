"""A step of a gas in two dimensions by finite volumes, with np.roll for all neighbours, as NumPy functions.

Source: the method of MUSCL and Hancock with the flux of Rusanov (E. F. Toro, Riemann Solvers and Numerical
Methods for Fluid Dynamics, sections 14.4 and 10.5): central slopes, half a step in time, periodic borders.
"""

from __future__ import annotations

from typing import Any

import numpy as np

GAMMA = 5.0 / 3.0
State = tuple[Any, Any, Any, Any]


def start(n: int) -> State:
    """Density, momenta along both axes and energy of two streams of gas that shear each other."""
    x, y = (np.indices((n, n)) + 0.5) / n
    inside = np.abs(y - 0.5) < 0.25
    density, along = np.where(inside, 2.0, 1.0), np.where(inside, 0.5, -0.5)
    across = 0.1 * np.sin(4.0 * np.pi * x) * np.exp(-200.0 * (np.abs(y - 0.5) - 0.25) ** 2)
    energy = 2.5 / (GAMMA - 1.0) + 0.5 * density * (along**2 + across**2)
    return density, density * along, density * across, energy


def slopes(f: Any, dx: float) -> tuple[Any, Any]:
    """The derivatives along both axes."""
    return ((np.roll(f, -1, axis=0) - np.roll(f, 1, axis=0)) / (2.0 * dx),
            (np.roll(f, -1, axis=1) - np.roll(f, 1, axis=1)) / (2.0 * dx))


def flux(left: State, right: State) -> State:
    """Rusanov's flux of mass, of the momenta across and along the face, and of energy, from density, both
    velocities and pressure on both sides of a face."""
    (r1, u1, v1, p1), (r2, u2, v2, p2) = left, right
    e1 = p1 / (GAMMA - 1.0) + 0.5 * r1 * (u1**2 + v1**2)
    e2 = p2 / (GAMMA - 1.0) + 0.5 * r2 * (u2**2 + v2**2)
    r, m, n, e = 0.5 * (r1 + r2), 0.5 * (r1 * u1 + r2 * u2), 0.5 * (r1 * v1 + r2 * v2), 0.5 * (e1 + e2)
    p = (GAMMA - 1.0) * (e - 0.5 * (m**2 + n**2) / r)
    speed = np.maximum(np.sqrt(GAMMA * p1 / r1) + np.abs(u1), np.sqrt(GAMMA * p2 / r2) + np.abs(u2))
    return (m - speed * 0.5 * (r2 - r1), m**2 / r + p - speed * 0.5 * (r2 * u2 - r1 * u1),
            m * n / r - speed * 0.5 * (r2 * v2 - r1 * v1), (e + p) * m / r - speed * 0.5 * (e2 - e1))


def step(state: State) -> State:
    """The state after a step in time whose length the fastest wave limits: some 370 operations."""
    r, ru, rv, e = state
    dx = 1.0 / r.shape[0]
    u, v = ru / r, rv / r
    p = (GAMMA - 1.0) * (e - 0.5 * r * (u**2 + v**2))
    dt = 0.4 * float(np.min(dx / (np.sqrt(GAMMA * p / r) + np.sqrt(u**2 + v**2))))
    (rx, ry), (ux, uy), (vx, vy), (px, py) = (slopes(f, dx) for f in (r, u, v, p))
    half = (r - 0.5 * dt * (u * rx + r * ux + v * ry + r * vy),
            u - 0.5 * dt * (u * ux + v * uy + (1 / r) * px),
            v - 0.5 * dt * (u * vx + v * vy + (1 / r) * py),
            p - 0.5 * dt * (GAMMA * p * (ux + vy) + u * px + v * py))
    found = list(state)
    for axis, along in ((0, (rx, ux, vx, px)), (1, (ry, uy, vy, py))):
        low = [np.roll(f - s * (0.5 * dx), -1, axis=axis) for f, s in zip(half, along, strict=True)]
        high = [f + s * (0.5 * dx) for f, s in zip(half, along, strict=True)]
        one, other = (1, 2) if axis == 0 else (2, 1)      # the velocities across and along the faces
        through = flux((high[0], high[one], high[other], high[3]), (low[0], low[one], low[other], low[3]))
        for place, amount in zip((0, one, other, 3), through, strict=True):
            found[place] = found[place] - dt / dx * (amount - np.roll(amount, 1, axis=axis))
    return found[0], found[1], found[2], found[3]
