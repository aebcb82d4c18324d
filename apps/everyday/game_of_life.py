"""Conway's game of life on a torus of bytes: a glider that comes back, and a soup that settles."""

import numpy as np
from common import check, chosen, finish, show

n, steps = chosen(tiny=(32, 8), small=(96, 1200), medium=(400, 1000), large=(1500, 250))


def step(board):
    around = sum(np.roll(np.roll(board, i, axis=0), j, axis=1)
                 for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return ((around == 3) | ((board == 1) & (around == 2))).astype(np.uint8)


glider = np.zeros((n, n), dtype=np.uint8)
glider[1, 2] = glider[2, 3] = glider[3, 1] = glider[3, 2] = glider[3, 3] = 1
moved = glider
for _ in range(8):
    moved = step(moved)
check(np.array_equal(moved, np.roll(glider, (2, 2), axis=(0, 1))), "the glider is not where it belongs")

soup = (np.random.default_rng(9).random((n, n)) < 0.3).astype(np.uint8)
populations = []
for _ in range(steps):
    soup = step(soup)
    populations.append(int(soup.sum()))
check(set(np.unique(soup).tolist()) <= {0, 1}, "a cell is neither dead nor alive")
check(0 < populations[-1] < n * n // 2, f"{populations[-1]} cells live")
show("alive", populations[-1], 0)
show("at most", max(populations), 0)
finish()
