"""Five-point stencil: every inner point of a square plate becomes the mean of itself and its neighbours.

Source: the stencil of "Composing Distributed Computations Through Task and Kernel Fusion" (figure 1), which
is Jacobi's method for Laplace's equation with the point itself added to the mean.  The new values go to a
work array and are copied back into the centre of the grid: six array operations an iteration.

The plate has one hot edge; values stay between those of the edges, and grow towards the steady state.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np

HOT = 100.0


@dataclass
class State:
    grid: np.ndarray
    centre: np.ndarray
    north: np.ndarray
    south: np.ndarray
    west: np.ndarray
    east: np.ndarray


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=4096, help="inner points along each side")
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--plot", metavar="FILE", help="draw the temperature")


def setup(args: argparse.Namespace) -> State:
    n = args.size + 2
    grid = np.zeros((n, n), dtype=args.dtype)
    column = np.arange(n, dtype=args.dtype) / (n - 1)
    grid[:, :] = 4.0 * column * (1.0 - column)    # warm in the middle, so that every point changes
    grid[:, 0] = grid[:, -1] = grid[-1, :] = 0.0
    grid[0, :] = HOT
    return State(grid, grid[1:-1, 1:-1], grid[:-2, 1:-1], grid[2:, 1:-1], grid[1:-1, :-2], grid[1:-1, 2:])


def step(state: State) -> None:
    total = state.centre + state.north + state.south + state.west + state.east
    work = 0.2 * total
    state.centre[:] = work


def results(state: State) -> dict[str, np.ndarray]:
    return {"grid": state.grid}


def check(state: State) -> tuple[str, float, float]:
    """The maximum principle: no point leaves the range of the start; and left equals right."""
    outside = max(0.0, -float(state.grid.min()), float(state.grid.max()) - HOT)
    skewed = float(np.max(np.abs(state.centre - state.centre[:, ::-1])))
    bound = 1e-9 if state.grid.dtype == np.float64 else 1e-3
    return "outside the edges' range, or left unlike right, by", max(outside, skewed), bound


def plot(state: State, path: str) -> None:
    """The temperature of the plate, the hot edge above."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 6), layout="constrained")
    axes = figure.subplots()
    field = axes.imshow(state.grid, cmap="inferno", vmin=0.0, vmax=HOT, extent=(0.0, 1.0, 0.0, 1.0))
    figure.colorbar(field, label="temperature")
    axes.set(title="temperature of the plate", xlabel="x", ylabel="y")
    figure.savefig(path)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="five-point stencil")
    arguments(parser)
    args = parser.parse_args(argv)
    state = setup(args)
    start = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        step(state)
        if iteration % 10 == 0 or iteration == args.iterations:
            heat = float(state.centre.mean())
            print(f"iteration {iteration:4}  mean {heat:.6f}  {time.perf_counter() - start:9.3f} s")
    what, error, bound = check(state)
    print(f"check: {what} {error:.3g} (at most {bound:g})")
    if not error <= bound:
        sys.exit("check failed")
    if args.plot:
        plot(state, args.plot)


if __name__ == "__main__":
    main()
