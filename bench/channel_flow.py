"""Channel flow under NumPy, Numba, JAX and Diffuse: 378 operations a step, memory bound once fused."""

from __future__ import annotations

import argparse
from typing import Any

import harness
from case import Case, Goal, Peer, application, fused, plain


def numba_kernels(app: Any) -> tuple[Any, Any, Any]:
    """The three loops that a programmer would write: source, pressure sweep, velocities.

    Each takes the inner columns in a loop of their own, without a test for the edge, so that it vectorises.
    """
    import numba

    density, viscosity, force = app.DENSITY, app.VISCOSITY, app.FORCE
    inline = numba.njit(error_model="numpy", inline="always")
    parallel = numba.njit(error_model="numpy", parallel=True)

    @inline
    def source_at(b, u, v, d, dt, i, j, w, e):  # type: ignore[no-untyped-def]
        ux, vy = (u[i, e] - u[i, w]) / (2 * d), (v[i + 1, j] - v[i - 1, j]) / (2 * d)
        cross = (u[i + 1, j] - u[i - 1, j]) / (2 * d) * (v[i, e] - v[i, w]) / (2 * d)
        b[i, j] = density * (1 / dt * (ux + vy) - ux * ux - 2 * cross - vy * vy)

    @inline
    def pressure_at(p, old, b, dd, i, j, w, e):  # type: ignore[no-untyped-def]
        p[i, j] = ((old[i, e] + old[i, w]) * dd + (old[i + 1, j] + old[i - 1, j]) * dd) / (
            2 * (dd + dd)) - dd * dd / (2 * (dd + dd)) * b[i, j]

    @inline
    def velocity_at(u, v, un, vn, p, d, dt, i, j, w, e):  # type: ignore[no-untyped-def]
        c = dt / d**2
        uc, vc = un[i, j], vn[i, j]
        u[i, j] = (uc - uc * dt / d * (uc - un[i, w]) - vc * dt / d * (uc - un[i - 1, j])
                   - dt / (2 * density * d) * (p[i, e] - p[i, w])
                   + viscosity * (c * (un[i, e] - 2 * uc + un[i, w])
                                  + c * (un[i + 1, j] - 2 * uc + un[i - 1, j])) + force * dt)
        v[i, j] = (vc - uc * dt / d * (vc - vn[i, w]) - vc * dt / d * (vc - vn[i - 1, j])
                   - dt / (2 * density * d) * (p[i + 1, j] - p[i - 1, j])
                   + viscosity * (c * (vn[i, e] - 2 * vc + vn[i, w])
                                  + c * (vn[i + 1, j] - 2 * vc + vn[i - 1, j])))

    @parallel
    def source(b, u, v, d, dt):  # type: ignore[no-untyped-def]
        rows, n = u.shape
        for i in numba.prange(1, rows - 1):
            for j in range(1, n - 1):
                source_at(b, u, v, d, dt, i, j, j - 1, j + 1)
            source_at(b, u, v, d, dt, i, 0, n - 1, 1)
            source_at(b, u, v, d, dt, i, n - 1, n - 2, 0)

    @parallel
    def sweep(p, old, b, d):  # type: ignore[no-untyped-def]
        rows, n = p.shape
        for i in numba.prange(1, rows - 1):
            for j in range(1, n - 1):
                pressure_at(p, old, b, d * d, i, j, j - 1, j + 1)
            pressure_at(p, old, b, d * d, i, 0, n - 1, 1)
            pressure_at(p, old, b, d * d, i, n - 1, n - 2, 0)
        p[rows - 1, :] = p[rows - 2, :]
        p[0, :] = p[1, :]

    @parallel
    def velocities(u, v, un, vn, p, d, dt):  # type: ignore[no-untyped-def]
        rows, n = u.shape
        for i in numba.prange(1, rows - 1):
            for j in range(1, n - 1):
                velocity_at(u, v, un, vn, p, d, dt, i, j, j - 1, j + 1)
            velocity_at(u, v, un, vn, p, d, dt, i, 0, n - 1, 1)
            velocity_at(u, v, un, vn, p, d, dt, i, n - 1, n - 2, 0)
        u[0, :] = u[rows - 1, :] = 0.0
        v[0, :] = v[rows - 1, :] = 0.0

    return source, sweep, velocities


def numba_peer(args: argparse.Namespace) -> Peer:
    import numpy as np

    app = application("channel_flow")
    state = app.setup(args)
    source, sweep, velocities = numba_kernels(app)
    real = np.dtype(args.dtype).type
    d, dt = real(state.d), real(state.dt)
    other = [np.empty_like(state.u) for _ in range(3)]      # u, v and p are computed into these, then swapped

    def step() -> None:
        source(state.b, state.u, state.v, d, dt)
        for _ in range(app.SWEEPS):
            sweep(other[2], state.p, state.b, d)
            state.p, other[2] = other[2], state.p
        velocities(other[0], other[1], state.u, state.v, state.p, d, dt)
        state.u, other[0] = other[0], state.u
        state.v, other[1] = other[1], state.v

    return Peer(step, lambda: app.results(state))


def jax_functions(app: Any) -> Any:
    """The program's step without updates in place, which JAX does not have."""
    import jax.numpy as jnp

    def both_sides(a: Any) -> tuple[Any, Any]:
        """Western and eastern neighbours in the periodic direction."""
        return jnp.roll(a, 1, axis=1)[1:-1], jnp.roll(a, -1, axis=1)[1:-1]

    def walled(first: Any, inner: Any, last: Any) -> Any:
        return jnp.concatenate([first[None, :], inner, last[None, :]])

    def source(u: Any, v: Any, d: float, dt: float) -> Any:
        (uw, ue), (vw, ve) = both_sides(u), both_sides(v)
        ux, vy = (ue - uw) / (2 * d), (v[2:] - v[:-2]) / (2 * d)
        cross = (u[2:] - u[:-2]) / (2 * d) * (ve - vw) / (2 * d)
        return app.DENSITY * (1 / dt * (ux + vy) - ux**2 - 2 * cross - vy**2)

    def sweep(p: Any, b: Any, d: float) -> Any:
        west, east = both_sides(p)
        inner = ((east + west) * d**2 + (p[2:] + p[:-2]) * d**2) / (2 * (d**2 + d**2)) - d**2 * d**2 / (
            2 * (d**2 + d**2)) * b
        return walled(inner[0], inner, inner[-1])

    def momentum(a: Any, u: Any, v: Any, gradient: Any, d: float, dt: float, push: float) -> Any:
        west, east = both_sides(a)
        c, uc, vc = a[1:-1], u[1:-1], v[1:-1]
        inner = (c - uc * dt / d * (c - west) - vc * dt / d * (c - a[:-2])
                 - dt / (2 * app.DENSITY * d) * gradient
                 + app.VISCOSITY * (dt / d**2 * (east - 2 * c + west) + dt / d**2 * (a[2:] - 2 * c + a[:-2])))
        still = jnp.zeros_like(a[0])
        return walled(still, inner + push if push else inner, still)

    def step(u: Any, v: Any, p: Any, d: float, dt: float) -> tuple[Any, Any, Any]:
        b = source(u, v, d, dt)
        for _ in range(app.SWEEPS):
            p = sweep(p, b, d)
        west, east = both_sides(p)
        return (momentum(u, u, v, east - west, d, dt, app.FORCE * dt),
                momentum(v, u, v, p[2:] - p[:-2], d, dt, 0.0), p)

    return step


def jax_peer(args: argparse.Namespace) -> Peer:
    import jax
    import jax.numpy as jnp

    app = application("channel_flow")
    state = app.setup(args)
    flow = jnp.asarray(state.u), jnp.asarray(state.v), jnp.asarray(state.p)
    d, dt = state.d, state.dt
    advance = jax_functions(app)
    compiled = jax.jit(lambda u, v, p: advance(u, v, p, d, dt))

    def step() -> None:
        nonlocal flow
        flow = compiled(*flow)

    return Peer(step, lambda: dict(zip(("u", "v", "p"), flow, strict=True)),
                lambda: jax.block_until_ready(flow))


CASE = Case(
    name="channel_flow", size=2000, quick=64, batch=2,
    elements=lambda n: (3 + 5 * 3 + 5) * n * n,
    contenders={"numpy": plain("channel_flow"), "numba": numba_peer, "jax": jax_peer,
                "diffuse": fused("channel_flow")},
    goals=(Goal("numpy", 8.0), Goal("jax", 3.5), Goal("numba", 1 / 2.2)),
    most_tasks=41,
    notes=("bytes: source 3 arrays, five sweeps of 3, velocities 5; Numba: three loops, ping-pong in place "
           "of copies; JAX: the step jitted, neighbours by roll",),
)

if __name__ == "__main__":
    harness.main(CASE)
