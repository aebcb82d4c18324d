"""The spectrum of a long noisy record by Welch's method: overlapping pieces, a window, real transforms."""

import numpy as np
from common import check, chosen, finish, show

n, piece, rounds = chosen(tiny=(500, 64, 1), small=(8_000, 256, 100), medium=(100_000, 1024, 50),
                          large=(2_000_000, 4096, 10))
rng = np.random.default_rng(19)
time = np.arange(n)
window = np.hanning(piece + 1)[:-1]
for _ in range(rounds):
    record = np.sin(2.0 * np.pi * 0.125 * time) + rng.standard_normal(n)
    power, pieces, energy = np.zeros(piece // 2 + 1), 0, 0.0
    for start in range(0, n - piece + 1, piece // 2):
        part = record[start:start + piece]
        part = (part - part.mean()) * window
        transform = np.fft.rfft(part)
        power += transform.real**2 + transform.imag**2
        energy += float(np.sum(part**2))
        pieces += 1
    power /= pieces * np.sum(window**2)

twice = np.full(piece // 2 + 1, 2.0)
twice[[0, -1]] = 1.0
parseval = float(np.sum(twice * power) / piece)
check(abs(parseval * pieces * np.sum(window**2) / energy - 1.0) < 1e-9, "the spectrum has another energy")
check(int(power.argmax()) == piece // 8, f"the tone is at {int(power.argmax())}")
show("tone", power.max(), 1e-9)
show("noise", np.median(power), 1e-9)
finish()
