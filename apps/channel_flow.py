"""Flow through a channel, driven by a constant force: Navier-Stokes with a pressure equation.

Source: the discretisation is that of step 12 of "CFD Python" (L. A. Barba and G. F. Forsyth, 2018): first
order upwind advection, central diffusion, and a Poisson equation for the pressure that is relaxed by a few
Jacobi sweeps a step.  The channel is periodic along x (columns) and has walls at the first and last row.

Five sweeps a step make 378 array operations:

    source of the pressure equation    3 regions x 23             69
    pressure sweeps                    5 x (1 + 3 x 9 + 2)       150
    copies of u and v                                              2
    u and v                            3 regions x (26 + 25)     153
    walls                                                          4

A region is the inner columns, the last or the first column: the same formula with other neighbours.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

LENGTH = 2.0            # of the channel, and its width
DENSITY = 1.0
VISCOSITY = 0.1
FORCE = 1.0
DISTURBANCE = 0.01      # largest velocity of the eddies at the start
SWEEPS = 5

Column = int | slice
# (centre, west, east): the inner columns; the last, whose eastern neighbour is the first; the first.
REGIONS: tuple[tuple[Column, Column, Column], ...] = (
    (slice(1, -1), slice(0, -2), slice(2, None)),
    (-1, -2, 0),
    (0, -1, 1),
)


@dataclass
class State:
    u: np.ndarray
    v: np.ndarray
    p: np.ndarray
    b: np.ndarray
    d: float                # distance of grid points
    dt: float
    steps: int = 0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=2000, help="grid points along each side")
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--plot", metavar="FILE", help="draw the velocities")


def setup(args: argparse.Namespace) -> State:
    """Fluid at rest but for a row of eddies: free of divergence, periodic, still at the walls."""
    n, d = args.size, LENGTH / (args.size - 1)
    wave, wall = 2.0 * math.pi / (n * d), math.pi / LENGTH

    def line(function: Callable[[float], float], scale: float) -> np.ndarray:
        return np.array([function(scale * i * d) for i in range(n)], dtype=args.dtype)

    u = DISTURBANCE * wall / wave * line(math.sin, 2.0 * wall)[:, None] * line(math.sin, wave)[None, :]
    v = -DISTURBANCE * line(math.sin, wall)[:, None] ** 2 * line(math.cos, wave)[None, :]
    dt = min(0.1 * d * d / VISCOSITY, 0.1 * d)      # stable up to the steady velocity, which is 5
    return State(u, v, np.ones_like(u), np.zeros_like(u), d, dt)


def pressure_source(b: np.ndarray, u: np.ndarray, v: np.ndarray, d: float, dt: float) -> None:
    """The right side of the pressure equation, into b."""
    for centre, west, east in REGIONS:
        u_west, u_east, u_south, u_north = u[1:-1, west], u[1:-1, east], u[:-2, centre], u[2:, centre]
        v_west, v_east, v_south, v_north = v[1:-1, west], v[1:-1, east], v[:-2, centre], v[2:, centre]
        b[1:-1, centre] = DENSITY * (
            1 / dt * ((u_east - u_west) / (2 * d) + (v_north - v_south) / (2 * d))
            - ((u_east - u_west) / (2 * d)) ** 2
            - 2 * ((u_north - u_south) / (2 * d) * (v_east - v_west) / (2 * d))
            - ((v_north - v_south) / (2 * d)) ** 2
        )


def pressure_sweep(p: np.ndarray, b: np.ndarray, d: float) -> None:
    """One Jacobi sweep; no pressure gradient across the walls."""
    old = p.copy()
    for centre, west, east in REGIONS:
        p[1:-1, centre] = (
            (old[1:-1, east] + old[1:-1, west]) * d**2 + (old[2:, centre] + old[:-2, centre]) * d**2
        ) / (2 * (d**2 + d**2)) - d**2 * d**2 / (2 * (d**2 + d**2)) * b[1:-1, centre]
    p[-1, :] = p[-2, :]
    p[0, :] = p[1, :]


def velocities(state: State) -> None:
    """One explicit time step of both momentum equations."""
    u, v, p, d, dt = state.u, state.v, state.p, state.d, state.dt
    un, vn = u.copy(), v.copy()
    for centre, west, east in REGIONS:
        uc, u_west, u_east = un[1:-1, centre], un[1:-1, west], un[1:-1, east]
        vc, v_west, v_east = vn[1:-1, centre], vn[1:-1, west], vn[1:-1, east]
        u_south, u_north, v_south, v_north = un[:-2, centre], un[2:, centre], vn[:-2, centre], vn[2:, centre]
        u[1:-1, centre] = (
            uc
            - uc * dt / d * (uc - u_west)
            - vc * dt / d * (uc - u_south)
            - dt / (2 * DENSITY * d) * (p[1:-1, east] - p[1:-1, west])
            + VISCOSITY * (dt / d**2 * (u_east - 2 * uc + u_west) + dt / d**2 * (u_north - 2 * uc + u_south))
            + FORCE * dt
        )
        v[1:-1, centre] = (
            vc
            - uc * dt / d * (vc - v_west)
            - vc * dt / d * (vc - v_south)
            - dt / (2 * DENSITY * d) * (p[2:, centre] - p[:-2, centre])
            + VISCOSITY * (dt / d**2 * (v_east - 2 * vc + v_west) + dt / d**2 * (v_north - 2 * vc + v_south))
        )
    u[0, :] = u[-1, :] = 0.0
    v[0, :] = v[-1, :] = 0.0


def step(state: State) -> None:
    pressure_source(state.b, state.u, state.v, state.d, state.dt)
    for _ in range(SWEEPS):
        pressure_sweep(state.p, state.b, state.d)
    velocities(state)
    state.steps += 1


def results(state: State) -> dict[str, np.ndarray]:
    return {"u": state.u, "v": state.v, "p": state.p}


def start_up_profile(y: float, t: float) -> float:
    """Exact u of the undisturbed flow from rest: the parabola less a series that dies away."""
    steady = FORCE / (2.0 * VISCOSITY) * y * (LENGTH - y)
    rate = VISCOSITY / DENSITY * (math.pi / LENGTH) ** 2 * t
    missing = sum(
        math.sin(n * math.pi * y / LENGTH) * math.exp(-rate * n * n) / n**3 for n in range(1, 20001, 2)
    )
    return steady - 4.0 * FORCE * LENGTH**2 / (VISCOSITY * math.pi**3) * missing


def check(state: State) -> tuple[str, float, float]:
    """The mean velocity along three rows against the exact start-up of the flow, relative to the largest."""
    n, t = state.u.shape[0], state.steps * state.dt
    rows = (n // 4, n // 2, 3 * n // 4)
    exact = [start_up_profile(row * state.d, t) for row in rows]
    errors = [abs(float(state.u[row, :].mean()) - e) for row, e in zip(rows, exact, strict=True)]
    bound = (0.02 if state.u.dtype == np.float64 else 0.05) + state.d**2
    return "velocity differs from the exact start-up flow by", max(errors) / max(exact), bound


def plot(state: State, path: str) -> None:
    """The speed with arrows along the flow; and the mean velocity across the channel beside the exact one."""
    from matplotlib.figure import Figure

    n, t = state.u.shape[0], state.steps * state.dt
    every = max(1, n // 16)
    some = slice(every // 2, None, every)
    places = [i * state.d for i in range(every // 2, n, every)]
    figure = Figure(figsize=(11, 5), layout="constrained")
    field, profile = figure.subplots(1, 2)
    speed = field.imshow(np.sqrt(state.u**2 + state.v**2), origin="lower", cmap="viridis",
                         extent=(0.0, LENGTH, 0.0, LENGTH))
    field.quiver(places, places, state.u[some, some], state.v[some, some], color="white")
    figure.colorbar(speed, label="speed")
    field.set(title=f"velocity at t = {t:.3g}", xlabel="x", ylabel="y")
    rows = range(0, n, max(1, n // 40))
    heights = [row * state.d for row in rows]
    exact, computed = [start_up_profile(y, t) for y in heights], [float(state.u[row].mean()) for row in rows]
    profile.plot(exact, heights, "k-", linewidth=0.8, label="exact, undisturbed")
    profile.plot(computed, heights, "o", markersize=3, label="computed")
    profile.set(title="mean velocity along the channel", xlabel="u", ylabel="y")
    profile.legend()
    figure.savefig(path)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="channel flow")
    arguments(parser)
    args = parser.parse_args(argv)
    state = setup(args)
    start = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        step(state)
        if iteration % 4 == 0 or iteration == args.iterations:
            rate = float(state.u.mean()) * LENGTH
            print(f"iteration {iteration:4}  flow rate {rate:.6e}  {time.perf_counter() - start:9.3f} s")
    what, error, bound = check(state)
    print(f"check: {what} {error:.3g} (at most {bound:g})")
    if not error <= bound:
        sys.exit("check failed")
    if args.plot:
        plot(state, args.plot)


if __name__ == "__main__":
    main()
