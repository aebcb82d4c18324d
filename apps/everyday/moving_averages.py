"""A noisy series smoothed in four ways: running sums, convolution, windows, and exponentially."""

import numpy as np
from common import check, chosen, finish, show
from numpy.lib.stride_tricks import sliding_window_view

n, width, rounds = chosen(tiny=(100, 5, 1), small=(4_000, 20, 250), medium=(60_000, 20, 20),
                          large=(1_500_000, 20, 2))
rng = np.random.default_rng(15)
time = np.linspace(0.0, 20.0, n)
for _ in range(rounds):
    series = np.sin(time) + 0.3 * rng.standard_normal(n)
    sums = np.cumsum(np.concatenate([[0.0], series]))
    running = (sums[width:] - sums[:-width]) / width
    convolved = np.convolve(series, np.full(width, 1.0 / width), mode="valid")
    windows = sliding_window_view(series, width)
    means, deviations = windows.mean(axis=1), windows.std(axis=1)
    outside = np.abs(series[width - 1:] - means) > 2.0 * deviations
    weights = 0.9 ** np.arange(64)
    exponential = np.convolve(series, weights / weights.sum())[:n]

check(np.allclose(running, convolved) and np.allclose(running, means), "the averages differ")
clean = np.sin(time[width // 2:n - width + width // 2 + 1])
check(np.abs(running - clean).mean() < 0.2, "this is not the smooth series")
show("outside", outside.mean(), 1e-3)
show("smooth", np.std(running), 1e-8)
show("smoother", np.std(exponential), 1e-8)
finish()
