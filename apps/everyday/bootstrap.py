"""How certain the statistics of a sample are: the same ones of many samples that are drawn from it."""

import numpy as np
from common import check, chosen, finish, show

n, draws = chosen(tiny=(60, 20), small=(500, 2_000), medium=(40_000, 200), large=(2_000_000, 8))
rng = np.random.default_rng(6)
income = rng.gamma(2.0, 2.0, n)
spent = 0.5 * income + rng.standard_normal(n)
means, medians, correlations = [], [], []
for _ in range(draws):
    drawn = rng.integers(0, n, n)
    one, other = income[drawn], spent[drawn]
    means.append(one.mean())
    medians.append(np.median(one))
    correlations.append(np.corrcoef(one, other)[0, 1])

low, high = np.percentile(means, [2.5, 97.5])
error = income.std() / np.sqrt(n)
check(abs(np.std(means) - error) < 0.6 * error, f"means vary by {np.std(means)}, not {error}")
check(low - error < income.mean() < high + error, f"the mean is not between {low} and {high}")
check(abs(np.mean(correlations) - np.corrcoef(income, spent)[0, 1]) < 3.0 / np.sqrt(n), "another correlation")
show("low", low, 1e-9)
show("high", high, 1e-9)
show("medians", np.std(medians), 1e-9)
show("correlation", np.mean(correlations), 1e-9)
finish()
