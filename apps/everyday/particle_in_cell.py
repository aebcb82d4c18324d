"""A plasma wave by particle in cell: charges to the grid, a sparse solve, forces back to the particles."""

import numpy as np
from common import check, chosen, finish, show
from scipy.sparse import diags
from scipy.sparse.linalg import splu

n, cells, steps = chosen(tiny=(400, 16, 10), small=(5_000, 64, 600), medium=(100_000, 256, 100),
                         large=(1_000_000, 512, 40))
length = 2.0 * np.pi
dx, dt = length / cells, 2.0 * np.pi / max(steps, 40)
start = (np.arange(n) + 0.5) * length / n
place = start + 0.05 * np.cos(start)
velocity = np.zeros(n)
charge = length / n

# the potential of the first cell is zero, so that the periodic equation has one solution
ones = np.ones(cells - 1)
poisson = diags([ones[1:], -2.0 * ones, ones[1:]], [-1, 0, 1]) / dx**2
solve = splu(poisson.tocsc()).solve


def pull_at(place):
    """What pulls an electron at each point of the grid, and between which points each of them lies."""
    cell = np.floor(place / dx).astype(int)
    share = place / dx - cell
    left, right = cell % cells, (cell + 1) % cells
    density = np.bincount(left, weights=1.0 - share, minlength=cells)
    np.add.at(density, right, share)
    density = density * charge / dx - 1.0
    potential = np.zeros(cells)
    potential[1:] = solve(density[1:])
    pull = (np.roll(potential, -1) - np.roll(potential, 1)) / (2.0 * dx)
    return pull, left, right, share


energies = []
for _ in range(steps):
    pull, left, right, share = pull_at(place)
    kicked = velocity + dt * (pull[left] * (1.0 - share) + pull[right] * share)
    energies.append(0.5 * dx * np.sum(pull**2) + 0.125 * charge * np.sum((velocity + kicked) ** 2))
    velocity = kicked
    place = (place + dt * velocity) % length

check(abs(velocity.sum()) * charge < 1e-3, "the plasma has begun to move as a whole")
check(max(energies) < 1.1 * min(energies), f"energy lies between {min(energies)} and {max(energies)}")
show("energy", energies[-1], 1e-8)
show("kinetic", 0.5 * charge * np.sum(velocity**2), 1e-8)
finish()
