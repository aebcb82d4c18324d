"""Asian options by Monte Carlo: paths of prices, arithmetic means, geometric means as a control."""

import numpy as np
from common import check, chosen, finish, show
from scipy.special import ndtr

paths, dates, batches = chosen(tiny=(50, 10, 3), small=(200, 50, 500), medium=(2_000, 50, 150),
                               large=(25_000, 50, 50))
spot, strike, rate, sigma, years = 100.0, 100.0, 0.05, 0.3, 1.0
dt = years / dates
rng = np.random.default_rng(21)

mean = np.log(spot) + (rate - 0.5 * sigma**2) * dt * (dates + 1) / 2.0
spread = np.sqrt(sigma**2 * dt * (dates + 1) * (2 * dates + 1) / (6.0 * dates))
d = (mean - np.log(strike)) / spread
formula = np.exp(-rate * years) * (np.exp(mean + 0.5 * spread**2) * ndtr(d + spread) - strike * ndtr(d))

estimates, controls = np.empty(batches), np.empty(batches)
for i in range(batches):
    moves = (rate - 0.5 * sigma**2) * dt + sigma * np.sqrt(dt) * rng.standard_normal((paths, dates))
    logs = np.log(spot) + np.cumsum(moves, axis=1)
    arithmetic = np.exp(-rate * years) * np.maximum(np.exp(logs).mean(axis=1) - strike, 0.0)
    geometric = np.exp(-rate * years) * np.maximum(np.exp(logs.mean(axis=1)) - strike, 0.0)
    weight = np.mean((arithmetic - arithmetic.mean()) * (geometric - geometric.mean())) / geometric.var()
    estimates[i] = np.mean(arithmetic - weight * (geometric - formula))
    controls[i] = geometric.mean()

error = controls.std() / np.sqrt(batches)
check(abs(controls.mean() - formula) < 6.0 * error + 1e-3, f"geometric {controls.mean()}, formula {formula}")
check(estimates.mean() > formula, "the arithmetic mean is below the geometric one")
show("price", estimates.mean(), 1e-8)
show("geometric", controls.mean(), 1e-9)
finish()
