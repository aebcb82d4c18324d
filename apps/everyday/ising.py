"""Spins of a magnet by Metropolis' Monte Carlo, the fields of a chequerboard in turn; Onsager's energy."""

import numpy as np
from common import check, chosen, finish, show
from scipy.special import ellipk

side, sweeps = chosen(tiny=(16, 30), small=(64, 600), medium=(256, 150), large=(1024, 40))
beta = 0.3
rng = np.random.default_rng(4)
spins = np.ones((side, side), dtype=np.int8)
row, column = np.indices((side, side))
black = (row + column) % 2 == 0


def around(spins):
    return (np.roll(spins, 1, axis=0) + np.roll(spins, -1, axis=0)
            + np.roll(spins, 1, axis=1) + np.roll(spins, -1, axis=1))


energies = []
for sweep in range(sweeps):
    for field in (black, ~black):
        cost = 2 * spins * around(spins)
        flips = field & (rng.random((side, side)) < np.exp(-beta * cost))
        spins = np.where(flips, -spins, spins)
    energies.append(-0.5 * float((spins * around(spins)).sum()) / side**2)

k = 2 * np.sinh(2 * beta) / np.cosh(2 * beta) ** 2
exact = -(1 + 2 / np.pi * (2 * np.tanh(2 * beta) ** 2 - 1) * ellipk(k**2)) / np.tanh(2 * beta)
energy = np.mean(energies[sweeps // 2:])
check(abs(energy - exact) < 0.01 + 2.0 / side, f"the energy of a spin is {energy}, Onsager's {exact}")
check(np.all(np.abs(spins) == 1), "a spin is neither up nor down")
show("energy", energy, 0)
show("magnetisation", spins.mean(), 0)
finish()
