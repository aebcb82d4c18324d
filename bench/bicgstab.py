"""BiCGSTAB with a sparse matrix under SciPy, Numba, JAX, PETSc and Diffuse."""

from __future__ import annotations

import argparse
from typing import Any

import harness
import petsc
from case import Case, Goal, Peer, fused, jax_solver, plain
from krylov import BLOCK, jax_product, numba_kernels, prepared, unsigned


def numba_products() -> tuple[Any, Any]:
    """v and v . shadow; t, t . s and t . t."""
    kernels = numba_kernels()
    row, prange = kernels.row, kernels.prange

    @kernels.exact
    def apply_twice(A, s, t, sums, squares):  # type: ignore[no-untyped-def]
        for block in prange(len(sums)):
            total = square = 0.0
            for i in range(block * BLOCK, min(len(s), (block + 1) * BLOCK)):
                value = row(A, i, s)
                t[i] = value
                total += value * s[i]
                square += value * value
            sums[block], squares[block] = total, square

    return kernels.apply, apply_twice


def numba_updates() -> tuple[Any, Any, Any]:
    """s, over r; r, over s, and r . shadow; x and p in one pass over p."""
    kernels = numba_kernels()
    prange = kernels.prange

    @kernels.loose
    def halve(alpha, r, v, s):  # type: ignore[no-untyped-def]
        for i in prange(len(r)):
            s[i] = r[i] - alpha * v[i]

    @kernels.loose
    def reduce(omega, s, t, shadow, r, sums):  # type: ignore[no-untyped-def]
        for block in prange(len(sums)):
            total = 0.0
            for i in range(block * BLOCK, min(len(r), (block + 1) * BLOCK)):
                rest = s[i] - omega * t[i]
                r[i] = rest
                total += rest * shadow[i]
            sums[block] = total

    @kernels.loose
    def turn(alpha, omega, beta, x, s, r, v, p):  # type: ignore[no-untyped-def]
        for i in prange(len(r)):
            x[i] += alpha * p[i] + omega * s[i]
            p[i] = r[i] + beta * (p[i] - omega * v[i])

    return halve, reduce, turn


def numba_peer(args: argparse.Namespace) -> Peer:
    import numpy as np

    app, state = prepared("bicgstab", args)
    real, A, x, r, p = state.b.dtype.type, unsigned(state.A), state.x, state.r, state.p
    v, s, t, sums = np.empty_like(p), np.empty_like(p), np.empty_like(p), np.empty(-(-len(p) // BLOCK))
    squares = sums.copy()
    apply, apply_twice = numba_products()
    halve, reduce, turn = numba_updates()
    rho = state.rho

    def step() -> None:
        nonlocal rho
        apply(A, p, state.shadow, v, sums)
        alpha = real(rho / sums.sum())
        halve(alpha, r, v, s)
        apply_twice(A, s, t, sums, squares)
        omega = real(sums.sum() / squares.sum())
        reduce(omega, s, t, state.shadow, r, sums)
        rho, before = sums.sum(), rho
        turn(alpha, omega, real(rho / before * (alpha / omega)), x, s, r, v, p)

    return Peer(step, lambda: app.results(state))


def jax_peer(args: argparse.Namespace) -> Peer:
    import jax
    import jax.numpy as jnp

    app, state = prepared("bicgstab", args)
    product, shadow = jax_product(state.A), jnp.asarray(state.shadow)
    found = tuple(map(jnp.asarray, (state.x, state.r, state.p, state.rho)))

    @jax.jit
    def advance(x, r, p, rho):  # type: ignore[no-untyped-def]
        v = product(p)
        alpha = rho / jnp.dot(v, shadow)
        s = r - alpha * v
        t = product(s)
        omega = jnp.dot(t, s) / jnp.dot(t, t)
        x, r = x + alpha * p + omega * s, s - omega * t
        after = jnp.dot(r, shadow)
        return x, r, r + after / rho * (alpha / omega) * (p - omega * v), after

    return jax_solver(advance, found)


CASE = Case(
    name="bicgstab", size=2000, quick=96, batch=5,
    elements=lambda n: 36 * n * n,
    contenders={
        "numpy": plain("bicgstab"), "numba": numba_peer, "jax": jax_peer,
        "petsc": petsc.contender("bicgstab", "bcgs", 1),
        "petsc, 2 ranks": petsc.contender("bicgstab", "bcgs", 2),
        "diffuse": fused("bicgstab"), "diffuse, unfused": fused("bicgstab", window=1),
    },
    goals=(Goal("numpy", 2.0), Goal("petsc, 2 ranks", 1.1), Goal("numba", 1 / 1.15)),
    most_tasks=8,
    notes=("bytes: the matrix twice (five values, 32-bit columns a row), p and shadow to v; s from r and v;",
           "s to t; r from s, t and shadow; x and p from s, r and v; Numba: these five loops",
           petsc.NOTE),
)

if __name__ == "__main__":
    harness.main(CASE)
