"""American options by binomial trees, many strikes at once: from the leaves to the root, arrays shrink."""

import numpy as np
from common import check, chosen, finish, show
from scipy.special import ndtr

strikes, levels, rounds = chosen(tiny=(3, 30, 1), small=(6, 500, 12), medium=(40, 800, 5),
                                 large=(2000, 500, 1))
spot, rate, sigma, years = 100.0, 0.03, 0.25, 1.0
strike = np.linspace(80.0, 120.0, strikes)[:, None]
dt = years / levels
up = np.exp(sigma * np.sqrt(dt))
chance = (np.exp(rate * dt) - 1.0 / up) / (up - 1.0 / up)
discount = np.exp(-rate * dt)

for _ in range(rounds):
    prices = spot * up ** np.arange(-levels, levels + 1, 2.0)
    european = np.maximum(strike - prices, 0.0)
    american = european.copy()
    for level in range(levels - 1, -1, -1):
        european = discount * (chance * european[:, 1:] + (1.0 - chance) * european[:, :-1])
        american = discount * (chance * american[:, 1:] + (1.0 - chance) * american[:, :-1])
        prices = spot * up ** np.arange(-level, level + 1, 2.0)
        american = np.maximum(american, strike - prices)

d1 = (np.log(spot / strike) + (rate + 0.5 * sigma**2) * years) / (sigma * np.sqrt(years))
exact = strike * np.exp(-rate * years) * ndtr(sigma * np.sqrt(years) - d1) - spot * ndtr(-d1)
error = np.abs(european - exact).max()
check(error < 10.0 / levels, f"European options are off their formula by {error}")
check(np.all(american >= european - 1e-12), "an American option is cheaper than a European one")
show("european", european.mean(), 1e-10)
show("american", american.mean(), 1e-10)
finish()
