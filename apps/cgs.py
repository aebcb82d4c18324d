"""Conjugate gradients squared for Poisson's equation, with a sparse matrix.

Source: P. Sonneveld, "CGS, a Fast Lanczos-Type Solver for Nonsymmetric Linear Systems", 1989, as in Y. Saad,
"Iterative Methods for Sparse Linear Systems", second edition, algorithm 7.6.
The method is for any matrix.  An iteration is two products with it, two dot products and the updates of
five vectors: 19 operations.

The matrix is the five-point (--dimension 2) or seven-point (3) Laplacian on the unit square or cube, in CSR.
Poisson's equation is solved exactly by u = (x - x**3) (y - y**3) [(z - z**3)], and so is its discretisation:
the formula is exact for polynomials of third degree in any one direction.  (A product of sines would be an
eigenvector of the matrix, found in one iteration.)  The first guess is random: from a smooth one the squared
polynomials of the method raise the residual to 1e10 times what it was, and rounding errors with it.
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
    shadow: np.ndarray      # the first residual, which all later ones are measured against
    x: np.ndarray
    r: np.ndarray           # the residual
    u: np.ndarray
    p: np.ndarray
    rho: Any                # r . shadow
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
    x = np.random.default_rng(0).random(b.size, dtype=args.dtype) - np.dtype(args.dtype).type(0.5)
    r = b - A @ x
    return State(A, b, exact, r.copy(), x, r, r.copy(), r.copy(), np.dot(r, r), args.dimension)


def step(state: State) -> None:
    A, x, r, u, p, rho = state.A, state.x, state.r, state.u, state.p, state.rho
    v = A @ p
    alpha = rho / np.dot(v, state.shadow)
    q = u - alpha * v
    w = u + q
    x += alpha * w
    r -= alpha * (A @ w)
    state.rho = np.dot(r, state.shadow)
    beta = state.rho / rho
    state.u = r + beta * q
    state.p = state.u + beta * (q + beta * p)
    state.iterations += 1


def results(state: State) -> dict[str, np.ndarray]:
    return {"x": state.x}


def norm(a: np.ndarray) -> float:
    return math.sqrt(float(np.dot(a, a)))


def residual(state: State) -> float:
    """Of x itself, not of the recurrence, relative to the first."""
    return norm(state.b - state.A @ state.x) / norm(state.shadow)


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
    epsilon, rest = float(np.finfo(state.b.dtype).eps), residual(state) * norm(state.shadow) / norm(state.b)
    return error(state) - condition(state) * (rest + 4.0 * epsilon)


def check(state: State) -> tuple[str, float, float]:
    """The recurrence's residual is that of x; the error is as small as the residual promises."""
    bound = 1e-9 if state.b.dtype == np.float64 else 1e-3
    worst = max(drift(state), outside(state))
    return "residual off the true one, or error above its bound, by", worst, bound


def converged(state: State, tolerance: float | None) -> bool:
    """By the recurrence's residual; without a tolerance no value is read."""
    return tolerance is not None and norm(state.r) <= tolerance * norm(state.shadow)


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
    """The residual of each iteration, relative to the first."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    axes.semilogy(range(1, len(history) + 1), [math.sqrt(float(value)) / scale for value in history])
    axes.set(xlabel="iteration", ylabel="residual / first residual", title="conjugate gradients squared")
    figure.savefig(path)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="conjugate gradients squared for Poisson's equation")
    arguments(parser)
    parser.add_argument("--tolerance", type=float, help="stop at this part of the first residual")
    parser.add_argument("--plot", metavar="FILE", help="draw the residuals; needs matplotlib")
    args = parser.parse_args(argv)
    state = setup(args)
    history = solve(state, args.iterations, args.tolerance, args.plot is not None)
    if args.plot:
        plot(args.plot, history, norm(state.shadow))
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
