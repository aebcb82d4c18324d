"""Conjugate gradients with a multigrid cycle, down to nine points: SciPy, Numba, JAX, PETSc and Diffuse."""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import Any

import harness
import petsc
from case import Case, Goal, Peer, fused, jax_solver, plain
from krylov import BLOCK, jax_product, numba_kernels, prepared, unsigned


def numba_loops() -> SimpleNamespace:
    """Sweeps; the residual at the points that injection keeps, and only there; correction; product."""
    kernels = numba_kernels()
    row, prange = kernels.row, kernels.prange

    @kernels.exact
    def first(weight, b, x):  # type: ignore[no-untyped-def]
        for i in prange(len(x)):
            x[i] = weight[i] * b[i]

    @kernels.exact
    def sweep(A, weight, b, x, after):  # type: ignore[no-untyped-def]
        for i in prange(len(x)):
            after[i] = x[i] + weight[i] * (b[i] - row(A, i, x))

    @kernels.exact
    def restrict(A, R, b, x, rest):  # type: ignore[no-untyped-def]
        for i in prange(len(rest)):
            total = x.dtype.type(0)
            for k in range(R[0][i], R[0][i + 1]):
                j = R[1][k]
                total += R[2][k] * (b[j] - row(A, j, x))
            rest[i] = total

    @kernels.exact
    def correct(P, coarse, x):  # type: ignore[no-untyped-def]
        for i in prange(len(x)):
            x[i] += row(P, i, coarse)

    return SimpleNamespace(first=first, sweep=sweep, restrict=restrict, correct=correct,
                           apply=kernels.apply)


def numba_vectors() -> tuple[Any, Any, Any]:
    """x and r; r . z and q . z; p."""
    kernels = numba_kernels()
    prange = kernels.prange

    @kernels.loose
    def advance(alpha, p, q, x, r):  # type: ignore[no-untyped-def]
        for i in prange(len(x)):
            x[i] += alpha * p[i]
            r[i] -= alpha * q[i]

    @kernels.loose
    def products(r, q, z, sums, others):  # type: ignore[no-untyped-def]
        for block in prange(len(sums)):
            total = other = 0.0
            for i in range(block * BLOCK, min(len(r), (block + 1) * BLOCK)):
                total += r[i] * z[i]
                other += q[i] * z[i]
            sums[block], others[block] = total, other

    @kernels.loose
    def turn(beta, z, p):  # type: ignore[no-untyped-def]
        for i in prange(len(p)):
            p[i] = z[i] + beta * p[i]

    return advance, products, turn


def numba_cycle(state: Any, loops: SimpleNamespace) -> Any:
    """r to z, with two vectors a grid; the last sweep's is the answer."""
    import numpy as np

    grids = [SimpleNamespace(A=unsigned(grid.A), weight=grid.weight, x=np.empty_like(grid.weight),
                             spare=np.empty_like(grid.weight), rest=np.empty_like(grid.weight),
                             R=grid.restriction is not None and unsigned(grid.restriction),
                             P=grid.prolongation is not None and unsigned(grid.prolongation))
             for grid in state.grids]

    def relax(grid: Any, b: Any, sweeps: int) -> None:
        for _ in range(sweeps):
            loops.sweep(grid.A, grid.weight, b, grid.x, grid.spare)
            grid.x, grid.spare = grid.spare, grid.x

    def cycle(level: int, b: Any) -> Any:
        grid = grids[level]
        loops.first(grid.weight, b, grid.x)
        if level == len(grids) - 1:
            relax(grid, b, state.coarse_sweeps - 1)
            return grid.x
        relax(grid, b, state.sweeps - 1)
        rest = grids[level + 1].rest
        loops.restrict(grid.A, grid.R, b, grid.x, rest)
        loops.correct(grid.P, cycle(level + 1, rest), grid.x)
        relax(grid, b, state.sweeps)
        return grid.x

    return cycle


def numba_peer(args: argparse.Namespace) -> Peer:
    import numpy as np

    app, state = prepared("gmg", args)
    real, A, x, p = state.b.dtype.type, unsigned(state.grids[0].A), state.x, state.p.copy()
    r, q, sums = state.r.copy(), np.empty_like(p), np.empty(-(-len(p) // BLOCK))
    others, loops = sums.copy(), numba_loops()
    advance, products, turn = numba_vectors()
    cycle, rz = numba_cycle(state, loops), state.rz

    def step() -> None:
        nonlocal rz
        loops.apply(A, p, p, q, sums)
        alpha = real(rz / sums.sum())
        advance(alpha, p, q, x, r)
        z = cycle(0, r)
        products(r, q, z, sums, others)
        beta = real(-alpha * others.sum() / rz)        # what r lost is alpha q
        rz = sums.sum()
        turn(beta, z, p)

    return Peer(step, lambda: app.results(state))


def jax_peer(args: argparse.Namespace) -> Peer:
    import jax
    import jax.numpy as jnp

    app, state = prepared("gmg", args)

    class Matrix:
        """`@` as the application writes it."""

        def __init__(self, A: Any) -> None:
            self.product = jax_product(A)

        def __matmul__(self, x: Any) -> Any:
            return self.product(x)

    grids = [app.Grid(Matrix(grid.A), jnp.asarray(grid.weight),
                      grid.restriction is not None and Matrix(grid.restriction),
                      grid.prolongation is not None and Matrix(grid.prolongation))
             for grid in state.grids]
    found = tuple(map(jnp.asarray, (state.x, state.r, state.p, state.rz)))

    @jax.jit
    def advance(x, r, p, rz):  # type: ignore[no-untyped-def]
        q = grids[0].A @ p
        alpha = rz / jnp.dot(p, q)
        after = r - alpha * q
        z = app.cycle(grids, after, state.sweeps, state.coarse_sweeps)
        beta = jnp.dot(after - r, z) / rz
        return x + alpha * p, after, z + beta * p, jnp.dot(after, z)

    return jax_solver(advance, found)


CASE = Case(
    name="gmg", size=2048, quick=128, batch=2,
    elements=lambda n: (19 + 4 / 3 * 66) * n * n,
    contenders={
        "numpy": plain("gmg"), "numba": numba_peer, "jax": jax_peer,
        "petsc": petsc.contender("gmg", "fcg", 1), "petsc, 2 ranks": petsc.contender("gmg", "fcg", 2),
        "diffuse": fused("gmg"), "diffuse, unfused": fused("gmg", window=1),
    },
    goals=(Goal("numpy", 1.4),),
    notes=("bytes: conjugate gradients; on each grid four passes over matrix and vectors, two transfers;",
           "Numba: a loop a sweep, residuals only where injection keeps them, two dot products in one loop",
           petsc.NOTE),
)

if __name__ == "__main__":
    harness.main(CASE)
