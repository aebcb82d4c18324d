"""Shallow water under NumPy, Numba, JAX and Diffuse: 748 operations a step, arithmetic bound once fused."""

from __future__ import annotations

import argparse
from typing import Any

import harness
from case import Case, Goal, Peer, application, fused, plain


def numba_kernels(app: Any) -> tuple[Any, Any]:
    """The two loops of a stage that a programmer would write: faces, then cells."""
    import numba

    gravity, shallow4 = app.GRAVITY, app.SHALLOW**4
    half, root2 = 0.5 * gravity, 2.0**0.5
    inline = numba.njit(error_model="numpy", inline="always")
    parallel = numba.njit(error_model="numpy", parallel=True)

    @inline
    def minmod(a, b):  # type: ignore[no-untyped-def]
        return (a if abs(a) < abs(b) else b) if a * b > 0.0 else 0.0

    @inline
    def face(h0, h1, h2, h3, b0, b1, b2, b3, u0, u1, u2, u3, v0, v1, v2, v3):  # type: ignore[no-untyped-def]
        w0, w1, w2, w3 = h0 + b0, h1 + b1, h2 + b2, h3 + b3
        hl, hr = h1 + 0.5 * minmod(h1 - h0, h2 - h1), h2 - 0.5 * minmod(h2 - h1, h3 - h2)
        wl, wr = w1 + 0.5 * minmod(w1 - w0, w2 - w1), w2 - 0.5 * minmod(w2 - w1, w3 - w2)
        ul, ur = u1 + 0.5 * minmod(u1 - u0, u2 - u1), u2 - 0.5 * minmod(u2 - u1, u3 - u2)
        vl, vr = v1 + 0.5 * minmod(v1 - v0, v2 - v1), v2 - 0.5 * minmod(v2 - v1, v3 - v2)
        bed = max(wl - hl, wr - hr)
        hl, hr = max(wl - bed, 0.0), max(wr - bed, 0.0)
        cl, cr = (gravity * hl) ** 0.5, (gravity * hr) ** 0.5
        fastest, slowest = max(max(ul + cl, ur + cr), 0.0), min(min(ul - cl, ur - cr), 0.0)
        spread = 1.0 / max(fastest - slowest, 1e-12)
        forth, back, mixed = fastest * spread, slowest * spread, fastest * slowest * spread
        ml, mr, pl, pr = hl * ul, hr * ur, half * hl * hl, half * hr * hr
        mass = forth * ml - back * mr + mixed * (hr - hl)
        across = forth * (ml * ul + pl) - back * (mr * ur + pr) + mixed * (mr - ml)
        along = forth * (ml * vl) - back * (mr * vr) + mixed * (hr * vr - hl * vl)
        return mass, across - pl, across - pr, along

    @parallel
    def faces(h, u, v, b, east, north):  # type: ignore[no-untyped-def]
        for i in numba.prange(1, h.shape[0] - 2):
            for j in range(1, h.shape[1] - 2):
                east[0, i, j], east[1, i, j], east[2, i, j], east[3, i, j] = face(
                    h[i, j - 1], h[i, j], h[i, j + 1], h[i, j + 2],
                    b[i, j - 1], b[i, j], b[i, j + 1], b[i, j + 2],
                    u[i, j - 1], u[i, j], u[i, j + 1], u[i, j + 2],
                    v[i, j - 1], v[i, j], v[i, j + 1], v[i, j + 2])
                north[0, i, j], north[1, i, j], north[2, i, j], north[3, i, j] = face(
                    h[i - 1, j], h[i, j], h[i + 1, j], h[i + 2, j],
                    b[i - 1, j], b[i, j], b[i + 1, j], b[i + 2, j],
                    v[i - 1, j], v[i, j], v[i + 1, j], v[i + 2, j],
                    u[i - 1, j], u[i, j], u[i + 1, j], u[i + 2, j])

    @parallel
    def cells(h, u, v, b, east, north, ratio, h0, u0, v0, share, h1, u1, v1):  # type: ignore[no-untyped-def]
        """Set (h1, u1, v1) to the step from (h, u, v); where `share` is not 1, to `share` times its sum with
        (h0, u0, v0)."""
        for i in numba.prange(2, h.shape[0] - 2):
            for j in range(2, h.shape[1] - 2):
                w, weight = h[i, j] + b[i, j], gravity * h[i, j]
                x = weight * minmod(w - (h[i, j - 1] + b[i, j - 1]), h[i, j + 1] + b[i, j + 1] - w)
                y = weight * minmod(w - (h[i - 1, j] + b[i - 1, j]), h[i + 1, j] + b[i + 1, j] - w)
                nh = h[i, j] - ratio * (
                    east[0, i, j] - east[0, i, j - 1] + north[0, i, j] - north[0, i - 1, j])
                nu = h[i, j] * u[i, j] - ratio * (
                    east[1, i, j] - east[2, i, j - 1] + north[3, i, j] - north[3, i - 1, j] + x)
                nv = h[i, j] * v[i, j] - ratio * (
                    east[3, i, j] - east[3, i, j - 1] + north[1, i, j] - north[2, i - 1, j] + y)
                if share != 1.0:
                    nu, nv = share * (h0[i, j] * u0[i, j] + nu), share * (h0[i, j] * v0[i, j] + nv)
                    nh = share * (h0[i, j] + nh)
                h4 = nh * nh * (nh * nh)
                factor = root2 * nh / (h4 + max(h4, shallow4)) ** 0.5
                h1[i, j], u1[i, j], v1[i, j] = nh, nu * factor, nv * factor

    return faces, cells


def numba_peer(args: argparse.Namespace) -> Peer:
    import numpy as np

    app = application("shallow_water")
    state = app.setup(args)
    faces, cells = numba_kernels(app)
    ratio = state.h.dtype.type(state.dt / state.d)
    east, north = np.zeros((4, *state.h.shape), args.dtype), np.zeros((4, *state.h.shape), args.dtype)

    def step() -> None:
        now, between, b = (state.h, state.u, state.v), state.stage, state.b
        faces(*now, b, east, north)
        cells(*now, b, east, north, ratio, *now, 1.0, *between)
        app.walls(*between)
        faces(*between, b, east, north)
        cells(*between, b, east, north, ratio, *now, 0.5, *now)
        app.walls(*now)

    return Peer(step, lambda: app.results(state))


def jax_function(app: Any, b: Any, ratio: float) -> Any:
    """The program's own functions over JAX's arrays, but for what it updates in place: walls and results."""
    import jax.numpy as jnp

    def mirrored(inner: Any, axis: int | None) -> Any:
        """Add ghost cells, in which the velocity along `axis` has the opposite sign."""
        padded = jnp.pad(inner, 2, mode="symmetric")
        if axis is None:
            return padded
        place = jnp.arange(padded.shape[axis])
        ghost = (place < 2) | (place >= padded.shape[axis] - 2)
        return jnp.where(ghost[:, None] if axis == 0 else ghost[None, :], -padded, padded)

    def walled(h: Any, hu: Any, hv: Any) -> tuple[Any, Any, Any]:
        factor = app.velocity_factor(h)
        return mirrored(h, None), mirrored(hu * factor, 1), mirrored(hv * factor, 0)

    def step(h: Any, u: Any, v: Any) -> tuple[Any, Any, Any]:
        between = walled(*app.change(h, u, v, b, ratio))
        new_h, new_hu, new_hv = app.change(*between, b, ratio)
        h, u, v = h[app.INNER], u[app.INNER], v[app.INNER]
        return walled(0.5 * (h + new_h), 0.5 * (h * u + new_hu), 0.5 * (h * v + new_hv))

    return step


def jax_peer(args: argparse.Namespace) -> Peer:
    import jax
    import jax.numpy as jnp

    app = application("shallow_water")
    state = app.setup(args)
    water = jnp.asarray(state.h), jnp.asarray(state.u), jnp.asarray(state.v)
    setattr(app, "np", jnp)
    compiled = jax.jit(jax_function(app, jnp.asarray(state.b), state.dt / state.d))

    def step() -> None:
        nonlocal water
        water = compiled(*water)

    return Peer(step, lambda: dict(zip(("h", "u", "v"), water, strict=True)),
                lambda: jax.block_until_ready(water))


CASE = Case(
    name="shallow_water", size=2000, quick=64, batch=2,
    elements=lambda n: (7 + 10) * n * n,
    contenders={"numpy": plain("shallow_water"), "numba": numba_peer, "jax": jax_peer,
                "diffuse": fused("shallow_water")},
    goals=(Goal("numpy", 10.0), Goal("jax", 8.0), Goal("numba", 1 / 1.5)),
    most_tasks=8,
    notes=("bytes: each stage reads depth, velocities and bed and writes all but the bed, the second also "
           "reads what the first began with; Numba: a loop over faces and one over cells; JAX: the program's "
           "own functions, the step jitted",),
)

if __name__ == "__main__":
    harness.main(CASE)
