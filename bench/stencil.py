"""Five-point stencil under NumPy, numexpr, Numba, JAX and Diffuse: two passes an iteration, memory bound."""

from __future__ import annotations

import argparse
from typing import Any

import harness
from case import Case, Goal, Peer, application, fused, plain


def numexpr_peer(args: argparse.Namespace) -> Peer:
    import numexpr
    import numpy as np

    app = application("stencil")
    state = app.setup(args)
    work = np.empty_like(state.centre)
    names = {"c": state.centre, "n": state.north, "s": state.south, "w": state.west, "e": state.east,
             "fifth": np.dtype(args.dtype).type(0.2)}

    def step() -> None:
        numexpr.evaluate("fifth * (c + n + s + w + e)", names, out=work)
        state.centre[:] = work

    return Peer(step, lambda: app.results(state))


def numba_peer(args: argparse.Namespace) -> Peer:
    import numba
    import numpy as np

    app = application("stencil")
    state = app.setup(args)
    work = np.empty_like(state.centre)
    fifth = np.dtype(args.dtype).type(0.2)

    @numba.njit(error_model="numpy", parallel=True)
    def sweep(grid, work):  # type: ignore[no-untyped-def]
        rows, columns = work.shape
        for i in numba.prange(rows):
            for j in range(columns):
                work[i, j] = fifth * (grid[i + 1, j + 1] + grid[i, j + 1] + grid[i + 2, j + 1]
                                      + grid[i + 1, j] + grid[i + 1, j + 2])
        for i in numba.prange(rows):
            for j in range(columns):
                grid[i + 1, j + 1] = work[i, j]

    return Peer(lambda: sweep(state.grid, work), lambda: app.results(state))


def jax_sweep(grid: Any) -> Any:
    """The fastest of five ways to write one sweep without updating in place."""
    import jax.numpy as jnp

    total = grid[1:-1, 1:-1] + grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
    rows = jnp.concatenate([grid[1:-1, :1], 0.2 * total, grid[1:-1, -1:]], axis=1)
    return jnp.concatenate([grid[:1], rows, grid[-1:]])


def jax_masked(grid: Any) -> Any:
    """One sweep as a mask over the whole grid: slower alone, several times faster inside a compiled loop."""
    import jax.numpy as jnp
    from jax.lax import broadcasted_iota

    total = grid[1:-1, 1:-1] + grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
    row, column = (broadcasted_iota(jnp.int32, grid.shape, axis) for axis in (0, 1))
    last = grid.shape[0] - 1
    inner = (row > 0) & (row < last) & (column > 0) & (column < last)
    return jnp.where(inner, jnp.pad(0.2 * total, 1), grid)


def jax_peer(args: argparse.Namespace) -> Peer:
    import jax
    import jax.numpy as jnp

    grid = jnp.asarray(application("stencil").setup(args).grid)
    compiled = jax.jit(jax_sweep, donate_argnums=0)

    def step() -> None:
        nonlocal grid
        grid = compiled(grid)

    return Peer(step, lambda: {"grid": grid}, lambda: jax.block_until_ready(grid))


def jax_loop_peer(args: argparse.Namespace) -> Peer:
    """The loop over iterations inside the compiled function, which rewrites the program's main loop."""
    import jax
    import jax.numpy as jnp

    grid = jnp.asarray(application("stencil").setup(args).grid)
    sweeps = lambda grid, n: jax.lax.fori_loop(0, n, lambda _, g: jax_masked(g), grid)  # noqa: E731
    compiled = jax.jit(sweeps, donate_argnums=0)
    asked = 0

    def step() -> None:
        nonlocal asked
        asked += 1

    def wait() -> None:
        nonlocal grid, asked
        grid, asked = jax.block_until_ready(compiled(grid, asked)), 0

    return Peer(step, lambda: {"grid": grid}, wait)


CASE = Case(
    name="stencil", size=4096, quick=96, batch=10,
    elements=lambda n: 4 * n * n,
    contenders={"numpy": plain("stencil"), "numexpr": numexpr_peer, "numba": numba_peer, "jax": jax_peer,
                "jax loop": jax_loop_peer, "diffuse": fused("stencil")},
    goals=(Goal("numpy", 6.0), Goal("jax", 3.5), Goal("numba", 1 / 1.15)),
    most_tasks=2,
    notes=("bytes: the new values written and read back, the grid read and written; "
           "Numba: one loop to the work array and one back; JAX: the step jitted, its argument "
           "donated; JAX loop: the iterations of a sample inside one compiled loop",),
)

if __name__ == "__main__":
    harness.main(CASE)
