"""Atoms of argon in a periodic square: forces of all pairs, added up at both atoms of each pair."""

import numpy as np
from common import check, chosen, finish, show

side, steps, within = chosen(tiny=(4, 5, 1e-10), small=(10, 250, 0), medium=(20, 25, 1e-8),
                             large=(38, 8, 1e-8))
n, box, dt = side * side, 1.2 * side, 0.002
rng = np.random.default_rng(6)
place = 1.2 * (np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(n, 2) + 0.5)
velocity = 0.5 * rng.standard_normal((n, 2))
velocity -= velocity.mean(axis=0)
one, other = np.triu_indices(n, 1)


def forces(place):
    """Forces on the atoms and the potential energy, cut off at half the box."""
    apart = place[one] - place[other]
    apart -= box * np.round(apart / box)
    square = np.sum(apart**2, axis=1)
    near = square < (0.5 * box) ** 2
    inverse = np.where(near, 1.0 / square, 0.0) ** 3
    pull = (24.0 * (2.0 * inverse**2 - inverse) / square)[:, None] * apart
    total = np.zeros_like(place)
    np.add.at(total, one, pull)
    np.subtract.at(total, other, pull)
    return total, 4.0 * np.sum(inverse**2 - inverse)


force, potential = forces(place)
before = potential + 0.5 * np.sum(velocity**2)
for _ in range(steps):
    velocity += 0.5 * dt * force
    place = (place + dt * velocity) % box
    force, potential = forces(place)
    velocity += 0.5 * dt * force
after = potential + 0.5 * np.sum(velocity**2)

check(abs(after - before) < 0.02 * abs(before), f"energy was {before} and is {after}")
check(np.abs(velocity.sum(axis=0)).max() < 1e-9, "the atoms together have begun to move")
show("energy", after, within)
show("temperature", 0.5 * np.mean(np.sum(velocity**2, axis=1)), within)
finish()
