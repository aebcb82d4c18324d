"""Products of a sparse matrix and a vector: heat that spreads on a ring with a few long wires.

Source: the SpMV that "Partition work, not data" schedules.  The matrix is in CSR; each place gives a fifth of
its heat to itself, its neighbours, and the places half and a third of the way round: no heat is lost.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass
class State:
    A: Any                  # (n, n), CSR
    x: np.ndarray
    total: float            # the heat at first
    highest: float


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=4_000_000, help="places")
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--iterations", type=int, default=20)


def ring(n: int, dtype: Any) -> Any:
    """The matrix that spreads heat."""
    shifts = np.array([0, 1, n - 1, n // 2, n // 3])
    columns = (np.arange(n)[:, None] + shifts[None, :]) % n
    values = np.full(columns.size, 0.2, dtype=dtype)
    return sp.csr_array((values, columns.ravel(), np.arange(n + 1) * len(shifts)), shape=(n, n))


def setup(args: argparse.Namespace) -> State:
    x = (np.arange(args.size) % 97).astype(args.dtype)
    return State(ring(args.size, args.dtype), x, float(np.sum(x)), float(np.max(x)))


def step(state: State) -> None:
    state.x = state.A @ state.x


def results(state: State) -> dict[str, np.ndarray]:
    return {"x": state.x}


def check(state: State) -> tuple[str, float, float]:
    """The heat stays, and nothing is hotter than at first."""
    lost = abs(float(np.sum(state.x)) / state.total - 1.0)
    hotter = float(np.max(state.x)) / state.highest - 1.0
    return "heat is lost, or too high, by", max(lost, hotter), 1e-12 if state.x.dtype == np.float64 else 1e-3


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="products of a sparse matrix and a vector")
    arguments(parser)
    args = parser.parse_args(argv)
    state = setup(args)
    start = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        step(state)
    print(f"iteration {iteration:4}  hottest {np.max(state.x):.6f}  {time.perf_counter() - start:9.3f} s")
    what, error, bound = check(state)
    print(f"check: {what} {error:.3g} (at most {bound:.3g})")
    if not error <= bound:
        sys.exit("check failed")


if __name__ == "__main__":
    main()
