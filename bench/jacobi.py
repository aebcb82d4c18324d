"""Dense Jacobi under NumPy, Numba, JAX and Diffuse: one pass over the matrix, little to fuse."""

from __future__ import annotations

import argparse

import harness
from case import Case, Goal, Peer, application, fused, plain


def numba_peer(args: argparse.Namespace) -> Peer:
    import numba
    import numpy as np

    app = application("jacobi")
    state = app.setup(args)
    other = np.empty_like(state.x)
    zero = np.dtype(args.dtype).type(0)

    # The sum of a row may be reordered, as in BLAS: without that no compiler vectorises it.
    @numba.njit(error_model="numpy", parallel=True, fastmath={"reassoc", "nsz"})
    def sweep(rest, diagonal, right, x, out):  # type: ignore[no-untyped-def]
        for i in numba.prange(len(x)):
            product = zero
            for j in range(len(x)):
                product += rest[i, j] * x[j]
            out[i] = (right[i] - product) / diagonal[i]

    def step() -> None:
        nonlocal other
        sweep(state.rest, state.diagonal, state.right, state.x, other)
        state.x, other = other, state.x

    return Peer(step, lambda: app.results(state))


def jax_peer(args: argparse.Namespace) -> Peer:
    import jax
    import jax.numpy as jnp

    app = application("jacobi")
    state = app.setup(args)
    rest, diagonal, right, x = map(jnp.asarray, (state.rest, state.diagonal, state.right, state.x))
    del state
    compiled = jax.jit(lambda rest, diagonal, right, x: (right - rest @ x) / diagonal)

    def step() -> None:
        nonlocal x
        x = compiled(rest, diagonal, right, x)

    return Peer(step, lambda: {"x": x}, lambda: jax.block_until_ready(x))


CASE = Case(
    name="jacobi", size=8192, quick=300, batch=5,
    elements=lambda n: n * n + 4 * n,
    contenders={"numpy": plain("jacobi"), "numba": numba_peer, "jax": jax_peer, "diffuse": fused("jacobi")},
    goals=(Goal("numba", 1 / 1.1),),
    notes=("bytes: the matrix read once; reading alone can be faster than copying",),
)

if __name__ == "__main__":
    harness.main(CASE)
