"""Jacobi's method for a dense system of linear equations.

Source: any textbook on numerical analysis; the program of "Composing Distributed Computations Through Task
and Kernel Fusion" (figure 14b): one matrix-vector product and two vector operations an iteration.  The
matrix is diagonally dominant, off-diagonal d**2 / (1 + d**2)**2 at distance d, so that the method converges.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np

DIAGONAL = 4.0


@dataclass
class State:
    rest: np.ndarray        # the matrix without its diagonal
    diagonal: np.ndarray
    right: np.ndarray
    x: np.ndarray
    iterations: int = 0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=8192, help="number of unknowns")
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--plot", metavar="FILE", help="draw the residual of each iteration")


def setup(args: argparse.Namespace) -> State:
    index = np.arange(args.size, dtype=args.dtype)
    distance = index[:, None] - index[None, :]
    distance *= distance
    rest = distance / (1.0 + distance) ** 2
    right = 1.0 + index / args.size
    return State(rest, np.full_like(right, DIAGONAL), right, np.zeros_like(right))


def step(state: State) -> None:
    product = state.rest @ state.x
    state.x = (state.right - product) / state.diagonal
    state.iterations += 1


def results(state: State) -> dict[str, np.ndarray]:
    return {"x": state.x}


def residual(state: State) -> float:
    rest = state.right - state.diagonal * state.x - state.rest @ state.x
    return float(np.sqrt(np.sum(rest * rest) / np.sum(state.right * state.right)))


def check(state: State) -> tuple[str, float, float]:
    """The residual falls at least by the dominance of the diagonal (row sums below 2.2) each iteration."""
    floor = 1e-14 if state.x.dtype == np.float64 else 1e-5
    return "relative residual", residual(state), max((2.2 / DIAGONAL) ** state.iterations, floor)


def plot(history: list[float], path: str) -> None:
    """The relative residual after each iteration."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.semilogy(range(1, len(history) + 1), history, marker=".")
    axes.set(title="Jacobi's method", xlabel="iteration", ylabel="relative residual")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    figure.savefig(path)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="dense Jacobi iteration")
    arguments(parser)
    args = parser.parse_args(argv)
    state = setup(args)
    history: list[float] = []
    start = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        step(state)
        if args.plot:
            history.append(residual(state))
        if iteration % 5 == 0 or iteration == args.iterations:
            error = residual(state)
            print(f"iteration {iteration:4}  residual {error:.3e}  {time.perf_counter() - start:9.3f} s")
    what, error, bound = check(state)
    print(f"check: {what} {error:.3g} (at most {bound:.3g})")
    if not error <= bound:
        sys.exit("check failed")
    if args.plot:
        plot(history, args.plot)


if __name__ == "__main__":
    main()
