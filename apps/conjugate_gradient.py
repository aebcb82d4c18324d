"""Conjugate gradients for Poisson's equation on a square, without a matrix.

Source: M. R. Hestenes and E. Stiefel, "Methods of Conjugate Gradients for Solving Linear Systems", 1952.  The
operator is the five-point Laplacian, applied by slices: 18 array operations an iteration, two of them sums.

The equation is solved exactly by u = x (1 - x) y (1 - y), and so is its discretisation: the five-point
formula is exact for polynomials of third degree in either direction.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class State:
    right: np.ndarray
    x: np.ndarray
    r: np.ndarray
    p: np.ndarray           # with the boundary, which is zero
    rr: Any                 # r . r
    iterations: int = 0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=2000, help="inner points along each side")
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--plot", metavar="FILE", help="draw the residual of each iteration")


def parabola(n: int, dtype: Any) -> np.ndarray:
    """t (1 - t) at the inner points of [0, 1]."""
    t = np.arange(1, n + 1, dtype=dtype) / (n + 1)
    values: np.ndarray = t * (1.0 - t)
    return values


def setup(args: argparse.Namespace) -> State:
    n = args.size
    line = parabola(n, args.dtype)
    right = (line[:, None] + line[None, :]) * (2.0 / (n + 1) ** 2)
    p = np.zeros((n + 2, n + 2), dtype=args.dtype)
    p[1:-1, 1:-1] = right
    return State(right, np.zeros_like(right), right.copy(), p, np.sum(right * right))


def laplacian(p: np.ndarray) -> np.ndarray:
    """Four times each inner point less its neighbours."""
    values: np.ndarray = 4.0 * p[1:-1, 1:-1] - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]
    return values


def step(state: State) -> None:
    x, r, p, rr = state.x, state.r, state.p, state.rr
    q = laplacian(p)
    alpha = rr / np.sum(p[1:-1, 1:-1] * q)
    x += alpha * p[1:-1, 1:-1]
    r -= alpha * q
    state.rr = np.sum(r * r)
    beta = state.rr / rr
    p[1:-1, 1:-1] = r + beta * p[1:-1, 1:-1]
    state.iterations += 1


def results(state: State) -> dict[str, np.ndarray]:
    return {"x": state.x}


def applied(x: np.ndarray) -> np.ndarray:
    """The operator on a grid without its boundary."""
    padded = np.zeros((x.shape[0] + 2, x.shape[1] + 2), dtype=x.dtype)
    padded[1:-1, 1:-1] = x
    return laplacian(padded)


def norm(a: np.ndarray) -> float:
    return math.sqrt(float(np.sum(a * a)))


def residual(state: State) -> float:
    return norm(state.right - applied(state.x)) / norm(state.right)


def check(state: State) -> tuple[str, float, float]:
    """The recurrence's residual is that of x; the error has fallen as the theory of the method promises.

    The theory: in the norm of the operator, after m iterations, to at most 2 ((k - 1) / (k + 1))**m of what
    it was, and never above that; k**2 is the condition number of the operator.
    """
    n = state.x.shape[0]
    line = parabola(n, state.x.dtype)
    exact = line[:, None] * line[None, :]
    drift = norm(state.right - applied(state.x) - state.r) / (norm(state.right) + 8.0 * norm(state.x))
    error = state.x - exact
    k = 1.0 / math.tan(math.pi / (2 * (n + 1)))
    fallen = math.sqrt(max(0.0, float(np.sum(error * applied(error)) / np.sum(exact * state.right))))
    excess = fallen - min(1.0, 2.0 * ((k - 1.0) / (k + 1.0)) ** state.iterations)
    bound = 1e-9 if state.x.dtype == np.float64 else 1e-3
    return "residual off the true one, or error above the method's bound, by", max(drift, excess), bound


def plot(history: list[float], path: str) -> None:
    """The relative residual after each iteration."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.semilogy(range(1, len(history) + 1), history, marker=".")
    axes.set(title="conjugate gradients", xlabel="iteration", ylabel="relative residual")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    figure.savefig(path)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="conjugate gradients for Poisson's equation")
    arguments(parser)
    args = parser.parse_args(argv)
    state = setup(args)
    history: list[float] = []
    start = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        step(state)
        if args.plot:
            history.append(math.sqrt(float(state.rr)) / norm(state.right))
        if iteration % 10 == 0 or iteration == args.iterations:
            rest = residual(state)
            print(f"iteration {iteration:4}  residual {rest:.3e}  {time.perf_counter() - start:9.3f} s")
    what, error, bound = check(state)
    print(f"check: {what} {error:.3g} (at most {bound:g})")
    if not error <= bound:
        sys.exit("check failed")
    if args.plot:
        plot(history, args.plot)


if __name__ == "__main__":
    main()
