"""The equation of Black and Scholes by explicit differences, for many volatilities at once."""

import numpy as np
from common import check, chosen, finish, show
from scipy.special import ndtr

kinds, n, steps = chosen(tiny=(3, 60, 100), small=(20, 200, 3000), medium=(300, 300, 500),
                         large=(4000, 300, 60))
strike, rate = 100.0, 0.04
sigma = np.linspace(0.1, 0.4, kinds)[:, None]
logs = np.linspace(np.log(20.0), np.log(500.0), n)
dx = logs[1] - logs[0]
dt = 0.8 * dx**2 / 0.16
dt = min(dt, 1.0 / steps)
price = np.exp(logs)[None, :]
value = np.repeat(np.maximum(strike - price, 0.0), kinds, axis=0)
for i in range(1, steps + 1):
    inner = value[:, 1:-1]
    first = (value[:, 2:] - value[:, :-2]) / (2.0 * dx)
    second = (value[:, 2:] - 2.0 * inner + value[:, :-2]) / dx**2
    change = 0.5 * sigma**2 * second + (rate - 0.5 * sigma**2) * first - rate * inner
    value[:, 1:-1] += dt * change
    value[:, 0] = strike * np.exp(-rate * i * dt) - price[0, 0]
    value[:, -1] = 0.0

years = steps * dt
d1 = (np.log(price / strike) + (rate + 0.5 * sigma**2) * years) / (sigma * np.sqrt(years))
exact = strike * np.exp(-rate * years) * ndtr(sigma * np.sqrt(years) - d1) - price * ndtr(-d1)
error = np.abs(value - exact).max()
check(error < 60.0 * dx, f"off the formula by {error}")
show("at the money", value[:, np.abs(logs - np.log(strike)).argmin()].mean(), 1e-9)
show("error", error, 1e-6)
finish()
