"""The Mandelbrot set: which points c stay bounded under z -> z*z + c?

Source: the textbook escape-time algorithm, on arrays: every point is updated in every iteration, and masks
freeze those that have left the disc of radius 2.  Real and imaginary parts are arrays of their own, so that
an iteration is twelve operations of plain arithmetic, with the same bits on any implementation.

The area of the set is about 1.5066; the points still inside after n iterations cover somewhat more.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np

LEFT, RIGHT, HEIGHT = -2.0, 0.5, 1.25       # the window [-2, 0.5] x [-1.25, 1.25]
AREA = 1.5066


@dataclass
class State:
    cx: np.ndarray
    cy: np.ndarray
    x: np.ndarray
    y: np.ndarray
    count: np.ndarray       # iterations before the point left
    iterations: int = 0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=2000, help="points along each side")
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--plot", metavar="FILE", help="draw the set")


def setup(args: argparse.Namespace) -> State:
    steps = (np.arange(args.size) + 0.5) / args.size
    cx = np.zeros((args.size, args.size), dtype=args.dtype)
    cy = np.zeros_like(cx)
    cx[:, :] = LEFT + (RIGHT - LEFT) * steps[None, :]
    cy[:, :] = HEIGHT - 2.0 * HEIGHT * steps[:, None]
    return State(cx, cy, np.zeros_like(cx), np.zeros_like(cx), np.zeros(cx.shape, dtype=np.int64))


def step(state: State) -> None:
    x, y = state.x, state.y
    xx, yy = x * x, y * y
    inside = xx + yy <= 4.0
    state.x = np.where(inside, xx - yy + state.cx, x)
    state.y = np.where(inside, 2.0 * x * y + state.cy, y)
    state.count += inside
    state.iterations += 1


def results(state: State) -> dict[str, np.ndarray]:
    return {"count": state.count, "x": state.x, "y": state.y}


def area(state: State) -> float:
    window = (RIGHT - LEFT) * 2.0 * HEIGHT
    return float(np.mean(state.count == state.iterations)) * window


def check(state: State) -> tuple[str, float, float]:
    """The area: above the limit by less than 10/n after n iterations, give or take the grid's cells."""
    cells = 2.0 * (RIGHT - LEFT) / state.x.shape[0]
    return "area differs from 1.5066 by", abs(area(state) - AREA), 10.0 / state.iterations + cells


def plot(state: State, path: str) -> None:
    """Iterations until a point left; black for those that are still inside."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 6), layout="constrained")
    axes = figure.subplots()
    count = np.where(state.count == state.iterations, 0, state.count)
    field = axes.imshow(count, cmap="magma", norm="symlog", extent=(LEFT, RIGHT, -HEIGHT, HEIGHT))
    figure.colorbar(field, label="iterations until the point left")
    axes.set(title=f"Mandelbrot set, {state.iterations} iterations", xlabel="Re c", ylabel="Im c")
    figure.savefig(path)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Mandelbrot set")
    arguments(parser)
    args = parser.parse_args(argv)
    state = setup(args)
    start = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        step(state)
        if iteration % 20 == 0 or iteration == args.iterations:
            print(f"iteration {iteration:4}  area {area(state):.6f}  {time.perf_counter() - start:9.3f} s")
    what, error, bound = check(state)
    print(f"check: {what} {error:.3g} (at most {bound:.3g})")
    if not error <= bound:
        sys.exit("check failed")
    if args.plot:
        plot(state, args.plot)


if __name__ == "__main__":
    main()
