"""Foxes and rabbits in many valleys by Runge and Kutta's method: each valley goes round its own cycle."""

import numpy as np
from common import check, chosen, finish, show

n, steps = chosen(tiny=(50, 50), small=(2_000, 2000), medium=(50_000, 350), large=(1_000_000, 35))
dt = 0.01
rng = np.random.default_rng(26)
animals = 0.5 + rng.random((2, n))
births, hunger = 0.8 + 0.4 * rng.random(n), 0.8 + 0.4 * rng.random(n)


def change(animals):
    rabbits, foxes = animals
    return np.stack([rabbits * (births - foxes), foxes * (rabbits - hunger)])


def kept(animals):
    rabbits, foxes = animals
    return rabbits - hunger * np.log(rabbits) + foxes - births * np.log(foxes)


before = kept(animals)
for _ in range(steps):
    k1 = change(animals)
    k2 = change(animals + 0.5 * dt * k1)
    k3 = change(animals + 0.5 * dt * k2)
    k4 = change(animals + dt * k3)
    animals = animals + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

error = np.abs(kept(animals) - before).max()
check(error < 1e-7, f"what each valley keeps has changed by {error}")
check(float(animals.min()) > 0.0, "a valley is empty")
show("rabbits", animals[0].mean(), 1e-9)
show("foxes", animals[1].max(), 1e-9)
finish()
