"""Conjugate gradients for Poisson's equation, with a sparse matrix.

Source: M. R. Hestenes and E. Stiefel, "Methods of Conjugate Gradients for Solving Linear Systems", 1952, as
in Y. Saad, "Iterative Methods for Sparse Linear Systems", second edition, algorithm 6.18.
An iteration is one product with the matrix, two dot products and three updates of vectors: 11 operations.

The matrix is the five-point (--dimension 2) or seven-point (3) Laplacian on the unit square or cube, in CSR.
Poisson's equation is solved exactly by u = (x - x**3) (y - y**3) [(z - z**3)], and so is its discretisation:
the formula is exact for polynomials of third degree in any one direction.  (A product of sines would be an
eigenvector of the matrix, found in one iteration.)
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass
class State:
    A: Any                  # (n**d, n**d), CSR
    b: np.ndarray
    exact: np.ndarray       # the solution
    x: np.ndarray
    r: np.ndarray           # the residual
    p: np.ndarray           # the direction
    rr: Any                 # r . r
    dimension: int
    iterations: int = 0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=2000, help="inner points along each side")
    parser.add_argument("--dimension", type=int, default=2, choices=[2, 3])
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--iterations", type=int, default=50, help="at most, with a tolerance")


def laplacian(n: int, dimension: int, dtype: Any) -> Any:
    """Twice the dimension times each inner point less its neighbours, as a matrix in CSR."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n), dtype=dtype)
    matrix = sp.kronsum(line, line, format="csr")
    return sp.kronsum(matrix, line, format="csr") if dimension == 3 else matrix


def problem(n: int, dimension: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """The right side and the solution; the second difference of t - t**3 is -6 t h**2."""
    t = np.arange(1, n + 1, dtype=dtype) / (n + 1)
    curve, bend = t - t**3, 6.0 * t / (n + 1) ** 2
    exact, b = curve, bend
    for _ in range(dimension - 1):
        exact, b = np.multiply.outer(exact, curve), (
            np.multiply.outer(b, curve) + np.multiply.outer(exact, bend))
    return b.ravel().astype(dtype), exact.ravel().astype(dtype)


def setup(args: argparse.Namespace) -> State:
    A = laplacian(args.size, args.dimension, args.dtype)
    b, exact = problem(args.size, args.dimension, args.dtype)
    return State(A, b, exact, np.zeros_like(b), b.copy(), b.copy(), np.dot(b, b), args.dimension)


def step(state: State) -> None:
    A, x, r, p, rr = state.A, state.x, state.r, state.p, state.rr
    q = A @ p
    alpha = rr / np.dot(p, q)
    x += alpha * p
    r -= alpha * q
    state.rr = np.dot(r, r)
    beta = state.rr / rr
    state.p = r + beta * p
    state.iterations += 1


def results(state: State) -> dict[str, np.ndarray]:
    return {"x": state.x}


def norm(a: np.ndarray) -> float:
    return math.sqrt(float(np.dot(a, a)))


def residual(state: State) -> float:
    """Of x itself, not of the recurrence, relative to the right side."""
    return norm(state.b - state.A @ state.x) / norm(state.b)


def error(state: State) -> float:
    """Of x, relative to the solution."""
    return norm(state.x - state.exact) / norm(state.exact)


def condition(state: State) -> float:
    """Of the matrix: its eigenvalues are sums of those of the second difference."""
    n = round(len(state.b) ** (1.0 / state.dimension))
    return 1.0 / math.tan(math.pi / (2 * (n + 1))) ** 2


def drift(state: State) -> float:
    """How far the recurrence's residual is from that of x, relative to what rounding could make of it."""
    scale = norm(state.b) + 4.0 * state.dimension * norm(state.x)
    return norm(state.b - state.A @ state.x - state.r) / scale


def outside(state: State) -> float:
    """The error above the condition number times the residual, which no solution of this matrix exceeds."""
    epsilon = float(np.finfo(state.b.dtype).eps)
    return error(state) - condition(state) * (residual(state) + 4.0 * epsilon)


def slow(state: State) -> float:
    """What the method's theory leaves of the error, in the norm of the matrix, less than what is left.

    The theory: after m iterations at most 2 ((k - 1) / (k + 1))**m of it, and never more than all; k**2 is
    the condition number.
    """
    gap, k = state.x - state.exact, math.sqrt(condition(state))
    left = float(np.dot(gap, state.A @ gap)) / float(np.dot(state.exact, state.b))
    return math.sqrt(max(0.0, left)) - min(1.0, 2.0 * ((k - 1.0) / (k + 1.0)) ** state.iterations)


def check(state: State) -> tuple[str, float, float]:
    """The recurrence's residual is that of x; the error is as small as residual and theory promise."""
    bound = 1e-9 if state.b.dtype == np.float64 else 1e-3
    worst = max(drift(state), outside(state), slow(state))
    return "residual off the true one, or error above its bounds, by", worst, bound


def converged(state: State, tolerance: float | None) -> bool:
    """By the recurrence's residual; without a tolerance no value is read."""
    return tolerance is not None and norm(state.r) <= tolerance * norm(state.b)


def solve(state: State, iterations: int, tolerance: float | None, remember: bool) -> list[Any]:
    """Iterate and report ten times; the recurrence's residuals, squared, if they are to be remembered."""
    start, history = time.perf_counter(), []
    while state.iterations < iterations and not converged(state, tolerance):
        step(state)
        if remember:
            history.append(np.dot(state.r, state.r))
        if state.iterations % max(1, iterations // 10) == 0 or state.iterations == iterations:
            seconds = time.perf_counter() - start
            print(f"iteration {state.iterations:4}  residual {residual(state):.3e}  {seconds:9.3f} s")
    return history


def plot(path: str, history: list[Any], scale: float) -> None:
    """The residual of each iteration, relative to the right side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    axes.semilogy(range(1, len(history) + 1), [math.sqrt(float(value)) / scale for value in history])
    axes.set(xlabel="iteration", ylabel="residual / right side", title="conjugate gradients")
    figure.savefig(path)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="conjugate gradients for Poisson's equation")
    arguments(parser)
    parser.add_argument("--tolerance", type=float, help="stop at this part of the right side")
    parser.add_argument("--plot", metavar="FILE", help="draw the residuals; needs matplotlib")
    args = parser.parse_args(argv)
    state = setup(args)
    history = solve(state, args.iterations, args.tolerance, args.plot is not None)
    if args.plot:
        plot(args.plot, history, norm(state.b))
    if args.tolerance is not None:
        reached = "" if converged(state, args.tolerance) else " not"
        print(f"tolerance {args.tolerance:g}{reached} reached after {state.iterations} iterations")
    print(f"residual {residual(state):.3e}, error {error(state):.3e}")
    what, wrong, bound = check(state)
    print(f"check: {what} {wrong:.3g} (at most {bound:g})")
    if not wrong <= bound:
        sys.exit("check failed")


if __name__ == "__main__":
    main()
