"""Laplace's equation on a plate by Gauss and Seidel, row after row, each row from the new one above it."""

import numpy as np
from common import check, chosen, finish, show

n, turns = chosen(tiny=(12, 10), small=(60, 800), medium=(300, 250), large=(1100, 110))
plate = np.zeros((n, n))
plate[0, :], plate[-1, :] = 1.0, 0.0
plate[:, 0] = plate[:, -1] = np.linspace(1.0, 0.0, n)
exact = np.repeat(np.linspace(1.0, 0.0, n)[:, None], n, axis=1)

errors = []
for _ in range(turns):
    for i in range(1, n - 1):
        plate[i, 1:-1] = 0.25 * (plate[i - 1, 1:-1] + plate[i + 1, 1:-1] + plate[i, :-2] + plate[i, 2:])
    errors.append(float(np.abs(plate - exact).max()))

check(all(b <= a for a, b in zip(errors, errors[1:])), "a turn made the plate worse")
check(0.0 <= plate.min() and plate.max() <= 1.0, "the plate is warmer or colder than its border")
show("error", errors[-1], 1e-9)
show("mean", plate.mean(), 1e-9)
finish()
