"""Mandelbrot under NumPy, Numba, JAX and Diffuse: twelve operations of arithmetic and masks."""

from __future__ import annotations

import argparse

import harness
from case import Case, Goal, Peer, application, fused, plain


def numba_peer(args: argparse.Namespace) -> Peer:
    import numba
    import numpy as np

    app = application("mandelbrot")
    state = app.setup(args)
    two, four = np.dtype(args.dtype).type(2), np.dtype(args.dtype).type(4)

    @numba.njit(error_model="numpy", parallel=True)
    def update(cx, cy, zx, zy, count):  # type: ignore[no-untyped-def]
        rows, columns = cx.shape
        for i in numba.prange(rows):
            for j in range(columns):
                x, y = zx[i, j], zy[i, j]
                xx, yy = x * x, y * y
                inside = xx + yy <= four
                zx[i, j] = xx - yy + cx[i, j] if inside else x
                zy[i, j] = two * x * y + cy[i, j] if inside else y
                count[i, j] += inside

    arrays = state.cx, state.cy, state.x, state.y, state.count
    return Peer(lambda: update(*arrays), lambda: app.results(state))


def jax_peer(args: argparse.Namespace) -> Peer:
    import jax
    import jax.numpy as jnp

    app = application("mandelbrot")
    state = app.setup(args)
    cx, cy = jnp.asarray(state.cx), jnp.asarray(state.cy)
    z = jnp.asarray(state.x), jnp.asarray(state.y), jnp.asarray(state.count)

    def update(
        cx: jax.Array, cy: jax.Array, z: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        x, y, count = z
        xx, yy = x * x, y * y
        inside = xx + yy <= 4.0
        return (jnp.where(inside, xx - yy + cx, x), jnp.where(inside, 2.0 * x * y + cy, y), count + inside)

    compiled = jax.jit(update, donate_argnums=2)

    def step() -> None:
        nonlocal z
        z = compiled(cx, cy, z)

    return Peer(step, lambda: dict(zip(("x", "y", "count"), z, strict=True)),
                lambda: jax.block_until_ready(z))


CASE = Case(
    name="mandelbrot", size=2000, quick=96, batch=10,
    elements=lambda n: 8 * n * n,
    contenders={"numpy": plain("mandelbrot"), "numba": numba_peer, "jax": jax_peer,
                "diffuse": fused("mandelbrot")},
    goals=(Goal("numba", 1 / 1.1),),
    notes=("bytes: c, z and the count read, z and the count written; Numba: one loop over the points",),
)

if __name__ == "__main__":
    harness.main(CASE)
