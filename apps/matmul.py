"""Products of dense matrices: many distributions over the states of a Markov chain, one step after another.

Source: the matrix product that "Partition work, not data" schedules on grids of processes.  The chain goes
round a circle, so that the matrix is a circulant, and its columns sum to one as its rows do: what there is
of each distribution stays.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np


@dataclass
class State:
    a: np.ndarray           # (n, n), the chance to go from one state to another
    b: np.ndarray           # (n, n), a distribution in each column
    total: np.ndarray       # what there was of each at first


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=2048, help="rows and columns")
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--iterations", type=int, default=5)


def setup(args: argparse.Namespace) -> State:
    n = args.size
    k = np.arange(n)
    chance = 1.0 / (1.0 + k % 17)
    chance /= np.sum(chance)
    a = chance[(k[None, :] - k[:, None]) % n].astype(args.dtype)
    b = ((k[:, None] * 7 + k[None, :] * 3) % 11).astype(args.dtype)
    return State(a, b, np.sum(b, axis=0))


def step(state: State) -> None:
    state.b = state.a @ state.b


def results(state: State) -> dict[str, np.ndarray]:
    return {"b": state.b}


def check(state: State) -> tuple[str, float, float]:
    """What there is of each distribution stays, and nothing is negative."""
    lost = np.max(np.abs(np.sum(state.b, axis=0) / state.total - 1.0))
    bound = 1e-12 if state.b.dtype == np.float64 else 1e-3
    return "distributions lose at most", max(float(lost), -float(np.min(state.b))), bound


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="products of dense matrices")
    arguments(parser)
    args = parser.parse_args(argv)
    state = setup(args)
    start = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        step(state)
    print(f"iteration {iteration:4}  largest {np.max(state.b):.6f}  {time.perf_counter() - start:9.3f} s")
    what, error, bound = check(state)
    print(f"check: {what} {error:.3g} (at most {bound:.3g})")
    if not error <= bound:
        sys.exit("check failed")


if __name__ == "__main__":
    main()
