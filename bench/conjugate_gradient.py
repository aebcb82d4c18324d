"""Conjugate gradients under NumPy, Numba, JAX and Diffuse: three passes and two sums an iteration."""

from __future__ import annotations

import argparse

import harness
from case import Case, Peer, application, fused, jax_solver, plain


def numba_peer(args: argparse.Namespace) -> Peer:
    import numba

    app = application("conjugate_gradient")
    state = app.setup(args)
    q = state.right.copy()

    # Sums may be reordered, as Diffuse's and NumPy's are: without that no compiler vectorises them.
    fast = numba.njit(error_model="numpy", parallel=True, fastmath={"reassoc", "nsz"})

    @fast
    def apply(p, q):  # type: ignore[no-untyped-def]
        rows, columns = q.shape
        total = 0.0
        for i in numba.prange(rows):
            for j in range(columns):
                value = (4.0 * p[i + 1, j + 1] - p[i, j + 1] - p[i + 2, j + 1] - p[i + 1, j]
                         - p[i + 1, j + 2])
                q[i, j] = value
                total += p[i + 1, j + 1] * value
        return total

    @fast
    def advance(alpha, x, r, p, q):  # type: ignore[no-untyped-def]
        rows, columns = q.shape
        total = 0.0
        for i in numba.prange(rows):
            for j in range(columns):
                x[i, j] += alpha * p[i + 1, j + 1]
                rest = r[i, j] - alpha * q[i, j]
                r[i, j] = rest
                total += rest * rest
        return total

    @fast
    def turn(beta, r, p):  # type: ignore[no-untyped-def]
        rows, columns = r.shape
        for i in numba.prange(rows):
            for j in range(columns):
                p[i + 1, j + 1] = r[i, j] + beta * p[i + 1, j + 1]

    real = state.x.dtype.type

    def step() -> None:
        alpha = state.rr / apply(state.p, q)
        rr = advance(real(alpha), state.x, state.r, state.p, q)
        turn(real(rr / state.rr), state.r, state.p)
        state.rr = rr

    return Peer(step, lambda: app.results(state))


def jax_peer(args: argparse.Namespace) -> Peer:
    import jax
    import jax.numpy as jnp

    app = application("conjugate_gradient")
    state = app.setup(args)
    found = tuple(map(jnp.asarray, (state.x, state.r, state.p[1:-1, 1:-1], state.rr)))

    @jax.jit
    def advance(x, r, p, rr):  # type: ignore[no-untyped-def]
        q = app.laplacian(jnp.pad(p, 1))
        alpha = rr / jnp.sum(p * q)
        x, r = x + alpha * p, r - alpha * q
        after = jnp.sum(r * r)
        return x, r, r + after / rr * p, after

    return jax_solver(advance, found)


CASE = Case(
    name="conjugate_gradient", size=2000, quick=96, batch=5,
    elements=lambda n: 11 * n * n,
    contenders={"numpy": plain("conjugate_gradient"), "numba": numba_peer, "jax": jax_peer,
                "diffuse": fused("conjugate_gradient")},
    notes=("bytes: p to q; x and r from p and q; p from r; Numba: three loops with the sums inside; "
           "JAX: the step jitted",),
)

if __name__ == "__main__":
    harness.main(CASE)
