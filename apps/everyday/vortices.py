"""Navier-Stokes in two dimensions by Fourier transforms: vortices of Taylor and Green, which decay alone."""

import numpy as np
from common import check, chosen, finish, show

n, steps = chosen(tiny=(16, 5), small=(64, 100), medium=(256, 40), large=(1024, 5))
viscosity, dt = 40.0 / n**2, 0.01
x = 2.0 * np.pi * np.arange(n) / n
k = np.fft.fftfreq(n, 1.0 / n)
kx, ky = k[None, : n // 2 + 1].copy(), k[:, None]
kx[0, -1] = n // 2
square = kx**2 + ky**2
inverse = 1.0 / np.where(square == 0.0, 1.0, square)
kept = (np.abs(kx) < n / 3.0) & (np.abs(ky) < n / 3.0)


def change(w):
    stream = w * inverse
    u = np.fft.irfft2(1j * ky * stream, s=(n, n))
    v = np.fft.irfft2(-1j * kx * stream, s=(n, n))
    wx = np.fft.irfft2(1j * kx * w, s=(n, n))
    wy = np.fft.irfft2(1j * ky * w, s=(n, n))
    return -np.fft.rfft2(u * wx + v * wy) * kept - viscosity * square * w


start = 2.0 * np.cos(x)[None, :] * np.cos(x)[:, None]
w = np.fft.rfft2(start)
for _ in range(steps):
    first = change(w)
    second = change(w + 0.5 * dt * first)
    third = change(w + 0.5 * dt * second)
    fourth = change(w + dt * third)
    w = w + dt / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)

vorticity = np.fft.irfft2(w, s=(n, n))
error = np.abs(vorticity - start * np.exp(-2.0 * viscosity * dt * steps)).max()
check(error < 1e-8, f"off the exact solution by {error}")
show("enstrophy", np.mean(vorticity**2), 1e-9)
show("strongest", vorticity.max(), 1e-9)
finish()
