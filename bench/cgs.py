"""Conjugate gradients squared with a sparse matrix under SciPy, Numba, JAX, PETSc and Diffuse."""

from __future__ import annotations

import argparse
from typing import Any

import harness
import petsc
from case import Case, Goal, Peer, fused, jax_solver, plain
from krylov import BLOCK, jax_product, numba_kernels, prepared, unsigned


def numba_loops() -> tuple[Any, Any, Any, Any]:
    """Four loops: u and p; v and v . shadow; q, w and x; r and r . shadow without A w in memory."""
    kernels = numba_kernels()
    row, prange = kernels.row, kernels.prange

    @kernels.loose
    def turn(beta, r, q, u, p):  # type: ignore[no-untyped-def]
        for i in prange(len(r)):
            ahead = r[i] + beta * q[i]
            u[i] = ahead
            p[i] = ahead + beta * (q[i] + beta * p[i])

    @kernels.loose
    def advance(alpha, u, v, q, w, x):  # type: ignore[no-untyped-def]
        for i in prange(len(u)):
            behind = u[i] - alpha * v[i]
            q[i] = behind
            both = u[i] + behind
            w[i] = both
            x[i] += alpha * both

    @kernels.exact
    def reduce(A, alpha, w, shadow, r, sums):  # type: ignore[no-untyped-def]
        for block in prange(len(sums)):
            total = 0.0
            for i in range(block * BLOCK, min(len(w), (block + 1) * BLOCK)):
                rest = r[i] - alpha * row(A, i, w)
                r[i] = rest
                total += rest * shadow[i]
            sums[block] = total

    return turn, kernels.apply, advance, reduce


def numba_peer(args: argparse.Namespace) -> Peer:
    import numpy as np

    app, state = prepared("cgs", args)
    real, A, x, r, u, p = state.b.dtype.type, unsigned(state.A), state.x, state.r, state.u, state.p
    q, v, w, sums = np.zeros_like(p), np.empty_like(p), np.empty_like(p), np.empty(-(-len(p) // BLOCK))
    p[...] = 0
    turn, apply, advance, reduce = numba_loops()
    beta, rho = real(0), state.rho

    def step() -> None:
        nonlocal beta, rho
        turn(beta, r, q, u, p)
        apply(A, p, state.shadow, v, sums)
        alpha = real(rho / sums.sum())
        advance(alpha, u, v, q, w, x)
        reduce(A, alpha, w, state.shadow, r, sums)
        rho, before = sums.sum(), rho
        beta = real(rho / before)

    return Peer(step, lambda: app.results(state))


def jax_peer(args: argparse.Namespace) -> Peer:
    import jax
    import jax.numpy as jnp

    app, state = prepared("cgs", args)
    product, shadow = jax_product(state.A), jnp.asarray(state.shadow)
    found = tuple(map(jnp.asarray, (state.x, state.r, state.u, state.p, state.rho)))

    @jax.jit
    def advance(x, r, u, p, rho):  # type: ignore[no-untyped-def]
        v = product(p)
        alpha = rho / jnp.dot(v, shadow)
        q = u - alpha * v
        w = u + q
        x, r = x + alpha * w, r - alpha * product(w)
        after = jnp.dot(r, shadow)
        beta = after / rho
        u = r + beta * q
        return x, r, u, u + beta * (q + beta * p), after

    return jax_solver(advance, found)


CASE = Case(
    name="cgs", size=2000, quick=96, batch=5,
    elements=lambda n: 38 * n * n,
    contenders={
        "numpy": plain("cgs"), "numba": numba_peer, "jax": jax_peer,
        "petsc": petsc.contender("cgs", "cgs", 1), "petsc, 2 ranks": petsc.contender("cgs", "cgs", 2),
        "diffuse": fused("cgs"), "diffuse, unfused": fused("cgs", window=1),
    },
    goals=(Goal("numpy", 2.0), Goal("petsc, 2 ranks", 1.1), Goal("numba", 1 / 1.15)),
    most_tasks=6,
    notes=("bytes: the matrix twice (five values, 32-bit columns a row), p and shadow to v; q, w and x from",
           "u and v; r from w and shadow; u and p from r and q; Numba: these four loops",
           petsc.NOTE),
)

if __name__ == "__main__":
    harness.main(CASE)
