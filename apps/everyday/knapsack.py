"""What fits best into a knapsack: a table over all weights, of which each item raises a part."""

import numpy as np
from common import check, chosen, finish, show

items, most = chosen(tiny=(10, 100), small=(30_000, 4_000), medium=(4_000, 60_000), large=(150, 2_000_000))
rng = np.random.default_rng(4)
weights = rng.integers(1, most // 4, items)
values = rng.integers(1, 100, items)
best = np.zeros(most + 1, dtype=np.int64)
for weight, value in zip(weights, values):
    best[weight:] = np.maximum(best[weight:], best[:-weight] + value)

# the items of most value by weight, as many as fit, and a part of the first one that does not
order = np.argsort(-values / weights)
packed = np.cumsum(weights[order])
fit = int(np.searchsorted(packed, most, side="right"))
least = int(values[order][:fit].sum())
check(np.all(np.diff(best) >= 0), "more room is worth less")
check(least <= best[-1] <= least + values[order][fit:].max(initial=0), f"{best[-1]} is not near {least}")
show("best", best[-1], 0)
show("mean", best.mean(), 1e-12)
finish()
