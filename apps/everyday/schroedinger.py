"""A quantum oscillator in two dimensions by split steps: a wave packet that swings as a pendulum does."""

import numpy as np
from common import check, chosen, finish, show

n, steps = chosen(tiny=(32, 10), small=(64, 800), medium=(256, 80), large=(1024, 20))
length, dt = 16.0, 0.01
x = (np.arange(n) - n // 2) * length / n
k = 2.0 * np.pi * np.fft.fftfreq(n, length / n)
potential = 0.5 * (x[:, None] ** 2 + x[None, :] ** 2)
kinetic = 0.5 * (k[:, None] ** 2 + k[None, :] ** 2)
half = np.exp(-0.5j * dt * potential)
whole = np.exp(-1j * dt * kinetic)
wave = np.exp(-0.5 * ((x[:, None] - 2.0) ** 2 + x[None, :] ** 2)).astype(complex)
wave /= np.sqrt(np.sum(np.abs(wave) ** 2))

places = []
for _ in range(steps):
    wave = half * wave
    wave = np.fft.ifft2(whole * np.fft.fft2(wave))
    wave = half * wave
    places.append(float(np.sum(x[:, None] * np.abs(wave) ** 2)))

norm = float(np.sum(np.abs(wave) ** 2))
check(abs(norm - 1.0) < 1e-9, f"the probability of all places together is {norm}")
check(abs(places[-1] - 2.0 * np.cos(dt * steps)) < 1e-3, f"the packet is at {places[-1]}")
show("place", places[-1], 1e-9)
show("spread", np.sum(potential * np.abs(wave) ** 2), 1e-9)
finish()
