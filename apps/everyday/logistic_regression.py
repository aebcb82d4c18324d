"""A logistic regression by gradient descent with momentum; the loss falls and the weights are found again."""

import numpy as np
from common import check, chosen, finish, show
from scipy.special import expit

n, d, turns = chosen(tiny=(60, 3, 20), small=(1_000, 8, 5000), medium=(15_000, 10, 1000),
                     large=(150_000, 10, 300))
rng = np.random.default_rng(13)
table = rng.standard_normal((n, d))
truth = np.linspace(-1.0, 1.0, d)
labels = (rng.random(n) < expit(table @ truth)).astype(float)
weights, momentum = np.zeros(d), np.zeros(d)


def loss(weights):
    score = table @ weights
    return float(np.mean(np.logaddexp(0.0, score) - labels * score))


losses = [loss(weights)]
for turn in range(turns):
    chance = expit(table @ weights)
    gradient = table.T @ (chance - labels) / n + 1e-3 * weights
    momentum = 0.8 * momentum - 0.5 * gradient
    weights = weights + momentum
    if turn % 10 == 9:
        losses.append(loss(weights))

right = float(np.mean((expit(table @ weights) > 0.5) == (labels > 0.5)))
check(losses[-1] < losses[0], f"the loss rose from {losses[0]} to {losses[-1]}")
check(np.abs(weights - truth).max() < 10.0 / np.sqrt(n) + 0.05, f"weights {weights}")
show("loss", losses[-1], 1e-8)
show("right", right, 1e-3)
finish()
