"""Poisson's equation on a square by conjugate gradients with a multigrid cycle as preconditioner.

Source: W. L. Briggs, V. E. Henson and S. F. McCormick, "A Multigrid Tutorial", second edition, 2000, chapters
3 and 5 (V-cycle, weighted Jacobi, injection, linear interpolation); Y. Notay, "Flexible Conjugate Gradients",
2000 (the beta that is computed from a difference of residuals).

The grids have their points at vertices: `size` intervals along each side, size - 1 inner points, and half as
many intervals on each next grid.  The matrix of each grid is the five-point formula, restriction keeps every
second point (injection) or takes weighted means (full), prolongation is bilinear: all of them are matrices in
CSR.  The coarsest grid is relaxed by Jacobi sweeps alone; by default it has nine points.

Injection is not the transpose of interpolation, so the preconditioner is not symmetric: the beta of Fletcher
and Reeves would lose the directions' conjugacy, that of Polak and Ribiere (the flexible one) keeps that of
neighbours.  Injection also needs a residual that is smooth before it drops three points of four: with two
sweeps of weight 4/5 before and after, the residual falls to 0.10 of what it was in each iteration from a
random right side, on grids of 64 to 1024 intervals alike, and to 0.15 to 0.23 from the smooth one here.  With
one sweep it falls to no less than 0.6 to 0.8, the worse the larger the grid.  Full weighting, which is the
transpose of interpolation but for a factor, needs one sweep: 0.12 and 0.13 to 0.17.

Two grids with one sweep each (--levels 2 --sweeps 1 --coarse-sweeps 1) make 24 operations an iteration; they
are no solver for large grids, for nobody takes care of the smooth error.

The equation is solved exactly by u = (x - x**3) (y - y**3), and so is its discretisation.
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

RATE = 0.5
"""A full cycle leaves less than this of the residual in each iteration; see the first lines for how much."""


@dataclass
class Grid:
    A: Any                  # five-point formula, CSR
    weight: np.ndarray      # of Jacobi's sweeps: omega over the diagonal
    restriction: Any        # to the next grid; None on the last
    prolongation: Any       # from the next grid


@dataclass
class State:
    grids: list[Grid]
    sweeps: int
    coarse_sweeps: int
    b: np.ndarray
    exact: np.ndarray       # the solution
    x: np.ndarray
    r: np.ndarray           # the residual
    p: np.ndarray           # the direction
    rz: Any                 # r . z, where z is the residual after a cycle
    full: bool              # as many grids as there can be
    iterations: int = 0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=2048, help="intervals along each side, a power of two")
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--iterations", type=int, default=10, help="at most, with a tolerance")
    parser.add_argument("--levels", type=int, help="grids; default: down to 3 x 3 points")
    parser.add_argument("--sweeps", type=int, default=2, help="Jacobi sweeps before and after")
    parser.add_argument("--coarse-sweeps", type=int, default=20, help="Jacobi sweeps on the coarsest grid")
    parser.add_argument("--omega", type=float, default=0.8, help="weight of Jacobi's sweeps: 2/3, 4/5")
    parser.add_argument("--restriction", default="injection", choices=["injection", "full"])


def laplacian(n: int, dtype: Any) -> Any:
    """Four times each inner point less its neighbours, over the distance squared, as a matrix in CSR."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n - 1, n - 1), dtype=dtype)
    return sp.kronsum(line, line, format="csr") * np.dtype(dtype).type(n * n)


def injection(n: int, dtype: Any) -> Any:
    """Every second point along one side: from n - 1 to n / 2 - 1."""
    coarse = np.arange(n // 2 - 1)
    keep = np.ones(n // 2 - 1, dtype=dtype)
    return sp.csr_array((keep, (coarse, 2 * coarse + 1)), shape=(n // 2 - 1, n - 1))


def interpolation(n: int, dtype: Any) -> Any:
    """Linear along one side, zero at both ends: from n / 2 - 1 points to n - 1."""
    coarse = np.arange(n // 2 - 1)
    rows = np.concatenate([2 * coarse, 2 * coarse + 1, 2 * coarse + 2])
    shares = np.repeat(np.array([0.5, 1.0, 0.5], dtype=dtype), n // 2 - 1)
    return sp.csr_array((shares, (rows, np.tile(coarse, 3))), shape=(n - 1, n // 2 - 1))


def grid(n: int, last: bool, args: argparse.Namespace) -> Grid:
    A = laplacian(n, args.dtype)
    weight = np.dtype(args.dtype).type(args.omega) / A.diagonal()
    if last:
        return Grid(A, weight, None, None)
    keep, linear = injection(n, args.dtype), interpolation(n, args.dtype)
    prolongation = sp.kron(linear, linear, format="csr")
    if args.restriction == "injection":
        return Grid(A, weight, sp.kron(keep, keep, format="csr"), prolongation)
    mean = linear.T * np.dtype(args.dtype).type(0.5)
    return Grid(A, weight, sp.kron(mean, mean, format="csr"), prolongation)


def problem(n: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """The right side and the solution; the second difference of t - t**3 is -6 t h**2."""
    t = np.arange(1, n, dtype=dtype) / n
    curve, bend = t - t**3, 6.0 * t
    b = np.multiply.outer(bend, curve) + np.multiply.outer(curve, bend)
    return b.ravel().astype(dtype), np.multiply.outer(curve, curve).ravel().astype(dtype)


def setup(args: argparse.Namespace) -> State:
    most = args.size.bit_length() - 2
    levels = most if args.levels is None else args.levels
    if args.size < 4 or args.size & (args.size - 1):
        raise ValueError(f"--size {args.size}: expected a power of two, 4 or more")
    if not 1 <= levels <= most:
        raise ValueError(f"--levels {levels}: expected 1 to {most} grids for --size {args.size}")
    grids = [grid(args.size >> level, level == levels - 1, args) for level in range(levels)]
    b, exact = problem(args.size, args.dtype)
    state = State(grids, args.sweeps, args.coarse_sweeps, b, exact, np.zeros_like(b), b.copy(), b, 0.0,
                  levels == most)
    z = precondition(state, b)
    state.p, state.rz = z, np.dot(b, z)
    return state


def relax(grid: Grid, x: np.ndarray, b: np.ndarray, sweeps: int) -> np.ndarray:
    """Jacobi's sweeps, weighted."""
    for _ in range(sweeps):
        x = x + grid.weight * (b - grid.A @ x)
    return x


def cycle(grids: list[Grid], b: np.ndarray, sweeps: int, coarse_sweeps: int) -> np.ndarray:
    """About A^-1 b on the first of the grids, by one V-cycle from zero: the first sweep is a product."""
    finest = grids[0]
    x = finest.weight * b
    if len(grids) == 1:
        return relax(finest, x, b, coarse_sweeps - 1)
    x = relax(finest, x, b, sweeps - 1)
    rest = finest.restriction @ (b - finest.A @ x)
    x = x + finest.prolongation @ cycle(grids[1:], rest, sweeps, coarse_sweeps)
    return relax(finest, x, b, sweeps)


def precondition(state: State, r: np.ndarray) -> np.ndarray:
    return cycle(state.grids, r, state.sweeps, state.coarse_sweeps)


def step(state: State) -> None:
    x, r, p, rz = state.x, state.r, state.p, state.rz
    q = state.grids[0].A @ p
    alpha = rz / np.dot(p, q)
    x += alpha * p
    state.r = r - alpha * q
    z = precondition(state, state.r)
    state.rz = np.dot(state.r, z)
    beta = np.dot(state.r - r, z) / rz
    state.p = z + beta * p
    state.iterations += 1


def results(state: State) -> dict[str, np.ndarray]:
    return {"x": state.x}


def norm(a: np.ndarray) -> float:
    return math.sqrt(float(np.dot(a, a)))


def residual(state: State) -> float:
    """Of x itself, not of the recurrence, relative to the right side."""
    return norm(state.b - state.grids[0].A @ state.x) / norm(state.b)


def error(state: State) -> float:
    """Of x, relative to the solution."""
    return norm(state.x - state.exact) / norm(state.exact)


def check(state: State) -> tuple[str, float, float]:
    """The recurrence's residual is that of x, the error at most the condition number times the residual.

    With as many grids as there can be the residual also falls as fast as a multigrid cycle promises, until
    rounding stops it.
    """
    n, A = math.isqrt(len(state.b)) + 1, state.grids[0].A
    epsilon = float(np.finfo(state.b.dtype).eps)
    bound = 1e-9 if state.b.dtype == np.float64 else 1e-3
    scale = norm(state.b) + 8.0 * n * n * norm(state.x)
    drift = norm(state.b - A @ state.x - state.r) / scale
    condition = 1.0 / math.tan(math.pi / (2 * n)) ** 2
    outside = error(state) - condition * (residual(state) + 4.0 * epsilon)
    floor = epsilon * scale / norm(state.b)
    slow = residual(state) - RATE**state.iterations - floor if state.full else 0.0
    return "residual off the true one or falls too slowly, or error above its bound, by", max(
        drift, outside, slow), bound


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
    axes.set(xlabel="iteration", ylabel="residual / right side", title="multigrid")
    figure.savefig(path)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="conjugate gradients with multigrid for Poisson's equation")
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
