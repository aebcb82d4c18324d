"""Grains of sand in integers: every heap of four topples, until none is left."""

import numpy as np
from common import check, chosen, finish, show

n, height, pile, most = chosen(tiny=(12, 4, 0, 100), small=(60, 5, 0, 100_000), medium=(200, 0, 150, 100_000),
                               large=(1000, 3, 64, 600))
heaps = np.full((n, n), height, dtype=np.int32)
heaps[n // 2 - 5:n // 2 + 5, n // 2 - 5:n // 2 + 5] += pile
before, lost, turns = int(heaps.sum()), 0, 0
while turns < most and (heaps >= 4).any():
    falls = heaps // 4
    heaps -= 4 * falls
    heaps[1:, :] += falls[:-1, :]
    heaps[:-1, :] += falls[1:, :]
    heaps[:, 1:] += falls[:, :-1]
    heaps[:, :-1] += falls[:, 1:]
    lost += int(falls[0].sum() + falls[-1].sum() + falls[:, 0].sum() + falls[:, -1].sum())
    turns += 1

check(turns == most or int(heaps.max()) < 4, "a heap is too high")
check(int(heaps.sum()) + lost == before, f"{before} grains became {int(heaps.sum())} and {lost} lost ones")
show("grains", heaps.sum(), 0)
show("turns", turns, 0)
show("full heaps", np.count_nonzero(heaps == 3), 0)
finish()
