"""Counts of events by energy, by hour and by detector, in batches as they come from an experiment."""

import numpy as np
from common import check, chosen, finish, show

n, batches = chosen(tiny=(200, 2), small=(2_000, 300), medium=(50_000, 50), large=(1_000_000, 9))
rng = np.random.default_rng(14)
edges = np.linspace(0.0, 10.0, 51)
spectrum, hours, sums = np.zeros(50, dtype=int), np.zeros(24, dtype=int), np.zeros(16)
picture = np.zeros((20, 24))
medians = []
for _ in range(batches):
    energy = rng.exponential(2.0, n)
    time = 24.0 * rng.random(n)
    detector = rng.integers(0, 16, n)
    spectrum += np.histogram(energy, bins=edges)[0]
    hours += np.bincount(time.astype(int), minlength=24)
    sums += np.bincount(detector, weights=energy, minlength=16)
    picture += np.histogram2d(energy, time, bins=(20, 24), range=((0.0, 10.0), (0.0, 24.0)))[0]
    medians.append(float(np.median(energy)))
    late = np.digitize(time, [6.0, 12.0, 18.0]) == 3
    check(abs(float(late.mean()) - 0.25) < 5.0 / np.sqrt(n), "the nights have not their share")

total = n * batches
check(int(hours.sum()) == total, "an event has no hour")
check(int(spectrum.sum()) == int(picture.sum()), "two counts of the same events differ")
check(abs(np.mean(medians) - 2.0 * np.log(2.0)) < 5.0 / np.sqrt(total), f"median {np.mean(medians)}")
show("median", np.mean(medians), 1e-12)
show("counted", spectrum.sum() / total, 0)
show("energy", sums.sum() / total, 1e-10)
finish()
