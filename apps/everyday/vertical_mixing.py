"""Turbulent mixing in the columns of an ocean: a tridiagonal system over the levels of all of them."""

import numpy as np
from common import check, chosen, finish, show

nx, ny, levels, steps = chosen(tiny=(4, 4, 8, 2), small=(16, 16, 30, 150), medium=(64, 64, 30, 40),
                               large=(200, 200, 40, 5))
rng = np.random.default_rng(23)
dz, dt = 10.0, 3600.0
z = -dz * (np.arange(levels) + 0.5)
warmth = 5.0 + 15.0 * np.exp(z / 100.0) + 0.1 * rng.random((nx, ny, levels))
heat = warmth.sum(axis=2)
before = float(warmth.var(axis=2).mean())

for _ in range(steps):
    gradient = (warmth[:, :, :-1] - warmth[:, :, 1:]) / dz
    buoyancy = np.maximum(9.81 * 2e-4 * gradient, 1e-7)
    richardson = buoyancy / (1e-5 + 1e-4 * np.exp(z[:-1] / 50.0))
    mixing = 1e-5 + 1e-2 / (1.0 + 5.0 * richardson) ** 2
    a, c = np.zeros((nx, ny, levels)), np.zeros((nx, ny, levels))
    a[:, :, 1:] = -dt / dz**2 * mixing
    c[:, :, :-1] = -dt / dz**2 * mixing
    b = 1.0 - a - c
    upper, right = np.empty_like(c), np.empty_like(c)
    upper[:, :, 0] = c[:, :, 0] / b[:, :, 0]
    right[:, :, 0] = warmth[:, :, 0] / b[:, :, 0]
    for k in range(1, levels):
        pivot = 1.0 / (b[:, :, k] - a[:, :, k] * upper[:, :, k - 1])
        upper[:, :, k] = c[:, :, k] * pivot
        right[:, :, k] = (warmth[:, :, k] - a[:, :, k] * right[:, :, k - 1]) * pivot
    mixed = np.empty_like(warmth)
    mixed[:, :, -1] = right[:, :, -1]
    for k in range(levels - 2, -1, -1):
        mixed[:, :, k] = right[:, :, k] - upper[:, :, k] * mixed[:, :, k + 1]
    residual = b * mixed - warmth
    residual[:, :, 1:] += a[:, :, 1:] * mixed[:, :, :-1]
    residual[:, :, :-1] += c[:, :, :-1] * mixed[:, :, 1:]
    check(np.abs(residual).max() < 1e-10, "the system is not solved")
    warmth = mixed

check(np.abs(warmth.sum(axis=2) - heat).max() < 1e-8, "heat was lost")
check(float(warmth.var(axis=2).mean()) < before, "mixing made the water less even")
show("warmth", warmth[:, :, 0].mean(), 1e-9)
show("variance", warmth.var(axis=2).mean(), 1e-9)
finish()
