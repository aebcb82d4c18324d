"""How soon points of the plane escape under z*z + c; those that escaped are taken out of the arrays."""

import numpy as np
from common import check, chosen, finish, show

n, most, rounds = chosen(tiny=(20, 20, 1), small=(90, 80, 80), medium=(400, 60, 15), large=(1200, 40, 5))
for _ in range(rounds):
    c = (np.linspace(-2.0, 0.6, n)[None, :] + 1j * np.linspace(-1.2, 1.2, n)[:, None]).ravel()
    z = np.zeros_like(c)
    left = np.arange(n * n)
    times = np.full(n * n, most)
    for turn in range(most):
        z = z * z + c
        gone = z.real**2 + z.imag**2 > 4.0
        if gone.any():
            times[left[gone]] = turn
            stay = ~gone
            z, c, left = z[stay], c[stay], left[stay]

times = times.reshape(n, n)
check(0 < left.size < n * n, "all points stay, or none")
check(np.mean(times == times[::-1]) > 0.99, "the picture has lost its symmetry")
show("inside", left.size, 1e-3)
show("mean time", times.mean(), 1e-3)
finish()
