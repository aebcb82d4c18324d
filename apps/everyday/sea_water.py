"""The density of sea water by the international equation of state of 1980, and how it changes with warmth.

Polynomials of some eighty operations, three times over: a chain of more than two hundred.
"""

import numpy as np
from common import check, chosen, finish, show

n, rounds = chosen(tiny=(4, 1), small=(16, 200), medium=(40, 40), large=(110, 8))


def density(s, t, p):
    """kg/m3 at salinity s, temperature t (degrees), pressure p (bar)."""
    root = s * np.sqrt(s)
    water = 999.842594 + t * (6.793952e-2 + t * (-9.095290e-3 + t * (1.001685e-4
                              + t * (-1.120083e-6 + t * 6.536332e-9))))
    surface = (water + s * (0.824493 + t * (-4.0899e-3 + t * (7.6438e-5 + t * (-8.2467e-7 + t * 5.3875e-9))))
               + root * (-5.72466e-3 + t * (1.0227e-4 - t * 1.6546e-6)) + 4.8314e-4 * s**2)
    stiff = (19652.21 + t * (148.4206 + t * (-2.327105 + t * (1.360477e-2 - t * 5.155288e-5)))
             + s * (54.6746 + t * (-0.603459 + t * (1.09987e-2 - t * 6.1670e-5)))
             + root * (7.944e-2 + t * (1.6483e-2 - t * 5.3009e-4)))
    linear = (3.239908 + t * (1.43713e-3 + t * (1.16092e-4 - t * 5.77905e-7))
              + s * (2.2838e-3 + t * (-1.0981e-5 - t * 1.6078e-6)) + 1.91075e-4 * root)
    square = (8.50935e-5 + t * (-6.12293e-6 + t * 5.2787e-8)
              + s * (-9.9348e-7 + t * (2.0816e-8 + t * 9.1697e-10)))
    return surface / (1.0 - p / (stiff + p * (linear + p * square)))


known = density(np.array([0.0, 35.0, 35.0]), np.array([5.0, 5.0, 25.0]), np.array([0.0, 0.0, 1000.0]))
check(np.abs(known - [999.96675, 1027.67547, 1062.53817]).max() < 1e-4, f"not the published {known}")

rng = np.random.default_rng(22)
salt = 34.0 + 2.0 * rng.random((n, n, n))
warmth = 2.0 + 20.0 * rng.random((n, n, n))
depth = np.linspace(0.0, 500.0, n)[None, None, :]
total = 0.0
for _ in range(rounds):
    here = density(salt, warmth, depth)
    expansion = -(density(salt, warmth + 0.01, depth) - density(salt, warmth - 0.01, depth)) / (0.02 * here)
    warmth = warmth - 1e-3 * expansion / 2e-4
    total += float(expansion.mean())

check(1020.0 < here.min() and here.max() < 1060.0, "this is no sea water")
check(5e-5 < total / rounds < 4e-4, f"thermal expansion {total / rounds}")
show("density", here.mean(), 1e-12)
show("expansion", total / rounds, 1e-6)
finish()
