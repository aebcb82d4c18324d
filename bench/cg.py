"""Conjugate gradients with a sparse matrix under SciPy, Numba, JAX, PETSc and Diffuse; also fused by hand."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from types import ModuleType
from typing import Any

import harness
import petsc
from case import Case, Goal, Peer, diffused, fused, jax_solver, lazy, plain
from krylov import BLOCK, jax_product, numba_kernels, prepared, unsigned


def in_place(app: ModuleType, state: Any) -> None:
    """One iteration as one writes it who knows what a temporary costs: each update into arrays that exist.

    These are the operations of PETSc's own form (VecAXPY, VecAYPX), and all that NumPy can say of them.
    """
    np, work = app.np, state.work
    x, r, p, rr = state.x, state.r, state.p, state.rr
    q = state.A @ p
    alpha = rr / np.dot(p, q)
    np.multiply(p, alpha, out=work)
    x += work
    np.multiply(q, alpha, out=work)
    r -= work
    state.rr = np.dot(r, r)
    p *= state.rr / rr
    p += r


def scipy_by_hand(args: argparse.Namespace) -> Peer:
    app, state = prepared("cg", args)
    state.work = app.np.empty_like(state.b)
    return Peer(lambda: in_place(app, state), lambda: app.results(state), app=app)


def diffuse_by_hand(args: argparse.Namespace) -> Peer:
    app, state, started = diffused("cg", args)
    state.work = app.np.empty_like(state.b)
    return lazy(app, state, lambda: in_place(app, state), started)


def numba_loops() -> tuple[Any, Any, Any]:
    """Three loops: x (by the step before) and p; q and p . q; r and r . r."""
    kernels = numba_kernels()
    prange = kernels.prange

    @kernels.loose
    def turn(alpha, beta, x, r, p):  # type: ignore[no-untyped-def]
        for i in prange(len(x)):
            x[i] += alpha * p[i]
            p[i] = r[i] + beta * p[i]

    @kernels.loose
    def advance(alpha, r, q, sums):  # type: ignore[no-untyped-def]
        for block in prange(len(sums)):
            total = 0.0
            for i in range(block * BLOCK, min(len(r), (block + 1) * BLOCK)):
                rest = r[i] - alpha * q[i]
                r[i] = rest
                total += rest * rest
            sums[block] = total

    return turn, kernels.apply, advance


def numba_peer(args: argparse.Namespace) -> Peer:
    import numpy as np

    app, state = prepared("cg", args)
    real, A, x, r, p = state.b.dtype.type, unsigned(state.A), state.x, state.r, state.p
    q, sums = np.empty_like(p), np.empty(-(-len(p) // BLOCK))
    turn, apply, advance = numba_loops()
    alpha, beta, rr = real(0), real(0), state.rr        # x lags behind by alpha p

    def step() -> None:
        nonlocal alpha, beta, rr
        turn(alpha, beta, x, r, p)
        apply(A, p, p, q, sums)
        alpha = real(rr / sums.sum())
        advance(alpha, r, q, sums)
        rr, before = sums.sum(), rr
        beta = real(rr / before)

    return Peer(step, lambda: {"x": x + alpha * p})


def jax_peer(args: argparse.Namespace) -> Peer:
    import jax
    import jax.numpy as jnp

    app, state = prepared("cg", args)
    product = jax_product(state.A)
    found = tuple(map(jnp.asarray, (state.x, state.r, state.p, state.rr)))

    @jax.jit
    def advance(x, r, p, rr):  # type: ignore[no-untyped-def]
        q = product(p)
        alpha = rr / jnp.dot(p, q)
        x, r = x + alpha * p, r - alpha * q
        after = jnp.dot(r, r)
        return x, r, r + after / rr * p, after

    return jax_solver(advance, found)


CONTENDERS: dict[str, Callable[[argparse.Namespace], Peer]] = {
    "numpy": plain("cg"), "numpy, by hand": scipy_by_hand, "numba": numba_peer, "jax": jax_peer,
    "petsc": petsc.contender("cg", "cg", 1), "petsc, 2 ranks": petsc.contender("cg", "cg", 2),
    "diffuse": fused("cg"), "diffuse, unfused": fused("cg", window=1), "diffuse, by hand": diffuse_by_hand,
}

CASE = Case(
    name="cg", size=2000, quick=96, batch=10,
    elements=lambda n: 19 * n * n,
    contenders=CONTENDERS,
    goals=(Goal("numpy", 2.0), Goal("petsc, 2 ranks", 1.1), Goal("numba", 1 / 1.15),
           Goal("numpy, by hand", 1.0), Goal("diffuse, by hand", 1.0)),
    most_tasks=4,
    notes=("bytes: the matrix (five values, 32-bit columns a row), p to q; x and r from p and q; p from r;",
           "by hand: updates in place; Numba: three loops, dot products inside, x one step behind",
           petsc.NOTE),
)

if __name__ == "__main__":
    harness.main(CASE)
