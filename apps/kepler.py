"""Kepler's equation for many orbits: a function of one body, written with `math` and a loop, over arrays.

Source: the textbook solution of M = E - e sin E by Newton's method.  How many steps it takes depends on the
body, which is awkward to say with arrays.  `diffuse.vectorize` compiles the function and fuses it with the
array code around it: a step in time is one task.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass

import diffuse
import diffuse.numpy as np


@dataclass
class State:
    axis: np.ndarray            # semi-major axes
    eccentricity: np.ndarray
    mean: np.ndarray            # mean anomalies: they grow evenly
    x: np.ndarray
    y: np.ndarray
    distance: np.ndarray


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=1_000_000, help="bodies")
    parser.add_argument("--iterations", type=int, default=20)


def setup(args: argparse.Namespace) -> State:
    k = np.arange(args.size)
    axis = 1.0 + (k % 7)
    return State(axis, 0.9 * ((k * 0.618034) % 1.0), (k * 0.414214) % math.tau, axis, axis, axis)


@diffuse.vectorize
def eccentric(mean: float, eccentricity: float) -> float:
    """The eccentric anomaly E, of which M = E - e sin E."""
    found = mean + eccentricity * math.sin(mean)
    for _ in range(20):
        change = (found - eccentricity * math.sin(found) - mean) / (1.0 - eccentricity * math.cos(found))
        found -= change
        if abs(change) < 1e-14:
            break
    return found


def step(state: State) -> None:
    """Move all bodies on by a hundredth of the innermost orbit, and say where they are."""
    a, e = state.axis, state.eccentricity
    state.mean = (state.mean + 0.01 * math.tau * a**-1.5) % math.tau
    anomaly = eccentric(state.mean, e)
    cosine = np.cos(anomaly)
    state.x = a * (cosine - e)
    state.y = a * np.sqrt(1.0 - e * e) * np.sin(anomaly)
    state.distance = a * (1.0 - e * cosine)


def results(state: State) -> dict[str, np.ndarray]:
    return {"x": state.x, "y": state.y, "distance": state.distance}


def check(state: State) -> tuple[str, float, float]:
    """Bodies are as far from the focus as their coordinates say."""
    error = abs(np.hypot(state.x, state.y) - state.distance) / state.axis
    return "distances differ by", float(error.max()), 1e-13


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="orbits")
    arguments(parser)
    args = parser.parse_args(argv)
    state = setup(args)
    start = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        step(state)
        if iteration % 10 == 0 or iteration == args.iterations:
            mean = float(np.mean(state.distance))
            print(f"step {iteration:4}  mean distance {mean:.6f}  {time.perf_counter() - start:9.3f} s")
    what, error, bound = check(state)
    print(f"check: {what} {error:.3g} (at most {bound:.3g})")
    if not error <= bound:
        sys.exit("check failed")


if __name__ == "__main__":
    main()
