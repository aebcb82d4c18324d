"""Waves in a closed basin with a bumpy bed, an island and a beach: the shallow water equations.

Sources: the semi-discrete central-upwind scheme with minmod slopes and desingularised velocities is that of
A. Kurganov and G. Petrova, "A Second-Order Well-Balanced Positivity Preserving Central-Upwind Scheme for the
Saint-Venant System", 2007.  What makes it stay at rest where the water ends, too, is the hydrostatic
reconstruction of E. Audusse, F. Bouchut, M.-O. Bristeau, R. Klein and B. Perthame, "A Fast and Stable
Well-Balanced Scheme with Hydrostatic Reconstruction for Shallow Water Flows", 2004: surface and depth have
slopes of their own, and across a face the water stands on the higher of the two beds.  Time steps are those
of the strong stability preserving Runge-Kutta method of second order (Heun's).

The grid has two ghost cells on each side, which mirror the basin: walls.  Each cell owns its eastern and its
northern face, so that all faces are two arrays of equal shape.  A step makes 748 array operations:

    slope of the surface               2 stages x 26                    52
    fluxes through faces               2 stages x 2 directions x 148   592
    new depths, momenta, velocities    32 + 40                          72
    walls                              2 stages x 16                    32

No value is read in a step: its length is what is stable for water that runs over a dry bed.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass

import numpy as np

LENGTH = 10.0           # of each side of the basin
GRAVITY = 9.81
LEVEL = 1.0             # of the water at rest; the bed is at 0 and higher
WAVE = 0.3              # height of the wave at the start
SHALLOW = 1e-3          # depth below which velocities are damped
COURANT = 0.2           # below 1/4 depths stay positive

View = tuple[slice, slice]
INNER: View = (slice(2, -2), slice(2, -2))
OWN = slice(1, -2)      # the cells whose eastern and northern faces are used
ALONG = (slice(0, -3), OWN, slice(2, -1), slice(3, None))       # around a face: two cells before, two after
EASTERN: tuple[View, ...] = tuple((OWN, place) for place in ALONG)
NORTHERN: tuple[View, ...] = tuple((place, OWN) for place in ALONG)
CENTRE: View = (OWN, OWN)


@dataclass
class State:
    h: np.ndarray           # depth
    u: np.ndarray           # velocity along x, which are columns
    v: np.ndarray           # velocity along y, which are rows
    b: np.ndarray           # height of the bed
    stage: tuple[np.ndarray, np.ndarray, np.ndarray]    # depth and velocities between the stages of a step
    d: float                # side of a cell
    dt: float
    mass: float             # sum of all depths at the start
    steps: int = 0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=2000, help="cells along each side")
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--plot", metavar="FILE", help="draw the water's surface")


def setup(args: argparse.Namespace) -> State:
    return basin(args.size, args.dtype, WAVE)


def basin(n: int, dtype: str, wave: float) -> State:
    """Water at rest in the basin but for a wave of this height in the south-west."""
    d = LENGTH / n
    line = (np.arange(n + 4, dtype=dtype) - 1.5) * d
    x, y = line[None, :], line[:, None]

    def hill(x0: float, y0: float, radius: float) -> np.ndarray:
        """A smooth hill of height 1."""
        flat = np.maximum(0.0, 1.0 - ((x - x0) ** 2 + (y - y0) ** 2) / radius**2)
        return np.asarray(flat * flat)

    b = 0.4 * hill(2.5, 7.0, 2.0) + 0.5 * hill(7.5, 3.0, 1.5) + 1.6 * hill(5.5, 5.5, 1.5)
    b += np.maximum(0.0, 0.6 * (x - 8.0)) + 0.0 * y
    h = np.maximum(0.0, LEVEL + wave * hill(2.5, 2.5, 1.5) - b)
    u, v = np.zeros_like(h), np.zeros_like(h)
    walls(h, u, v)
    walls(b, u, v)
    dt = COURANT * d / (2.0 * math.sqrt(GRAVITY * (LEVEL + wave)))      # water that runs dry: twice its waves
    stage = np.zeros_like(h), np.zeros_like(h), np.zeros_like(h)
    return State(h, u, v, b, stage, d, dt, volume(h))


def volume(h: np.ndarray) -> float:
    return float(np.sum(h[INNER], dtype=np.float64))


def walls(h: np.ndarray, u: np.ndarray, v: np.ndarray) -> None:
    """Ghost cells mirror the two rows and columns beside them; velocities across a wall change sign."""
    h[:2], h[-2:] = h[3:1:-1], h[-3:-5:-1]
    u[:2], u[-2:] = u[3:1:-1], u[-3:-5:-1]
    v[:2], v[-2:] = -v[3:1:-1], -v[-3:-5:-1]
    h[:, :2], h[:, -2:] = h[:, 3:1:-1], h[:, -3:-5:-1]
    u[:, :2], u[:, -2:] = -u[:, 3:1:-1], -u[:, -3:-5:-1]
    v[:, :2], v[:, -2:] = v[:, 3:1:-1], v[:, -3:-5:-1]


def minmod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smaller of two slopes in magnitude, or 0 where their signs differ."""
    return np.where(a * b > 0.0, np.where(np.abs(a) < np.abs(b), a, b), 0.0)


def limits(before: np.ndarray, left: np.ndarray, right: np.ndarray, after: np.ndarray
           ) -> tuple[np.ndarray, np.ndarray]:
    """The values on both sides of the face between left and right: linear in each cell, slopes limited."""
    across = right - left
    return left + 0.5 * minmod(left - before, across), right - 0.5 * minmod(across, after - right)


def fluxes(h: np.ndarray, u: np.ndarray, v: np.ndarray, b: np.ndarray, places: tuple[View, ...]
           ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What passes through the faces between places 1 and 2; u is the velocity across them, v along them.

    Mass; momentum across, less the pressure of the water of the cell before the face; the same for the cell
    after it; momentum along.
    """
    hl, hr = limits(*(h[place] for place in places))
    wl, wr = limits(*(h[place] + b[place] for place in places))
    ul, ur = limits(*(u[place] for place in places))
    vl, vr = limits(*(v[place] for place in places))
    bed = np.maximum(wl - hl, wr - hr)
    hl, hr = np.maximum(wl - bed, 0.0), np.maximum(wr - bed, 0.0)
    cl, cr = np.sqrt(GRAVITY * hl), np.sqrt(GRAVITY * hr)
    fastest = np.maximum(np.maximum(ul + cl, ur + cr), 0.0)
    slowest = np.minimum(np.minimum(ul - cl, ur - cr), 0.0)
    spread = 1.0 / np.maximum(fastest - slowest, 1e-12)
    forth, back, mixed = fastest * spread, slowest * spread, fastest * slowest * spread
    ml, mr = hl * ul, hr * ur
    pl, pr = 0.5 * GRAVITY * hl * hl, 0.5 * GRAVITY * hr * hr
    mass = forth * ml - back * mr + mixed * (hr - hl)
    across = forth * (ml * ul + pl) - back * (mr * ur + pr) + mixed * (mr - ml)
    along = forth * (ml * vl) - back * (mr * vr) + mixed * (hr * vr - hl * vl)
    return mass, across - pl, across - pr, along


def pushes(h: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the slope of the surface does to the momentum along x and along y, in the cells that own faces."""
    w = h[CENTRE] + b[CENTRE]
    weight = GRAVITY * h[CENTRE]
    west, east = h[EASTERN[0]] + b[EASTERN[0]], h[EASTERN[2]] + b[EASTERN[2]]
    south, north = h[NORTHERN[0]] + b[NORTHERN[0]], h[NORTHERN[2]] + b[NORTHERN[2]]
    return weight * minmod(w - west, east - w), weight * minmod(w - south, north - w)


def change(h: np.ndarray, u: np.ndarray, v: np.ndarray, b: np.ndarray, ratio: float
           ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Depth and momenta of the inner cells after an explicit Euler step of `ratio` = dt / d."""
    push_x, push_y = pushes(h, b)
    mass_x, before_x, after_x, along_x = fluxes(h, u, v, b, EASTERN)
    mass_y, before_y, after_y, along_y = fluxes(h, v, u, b, NORTHERN)
    new_h = h[INNER] - ratio * (mass_x[1:, 1:] - mass_x[1:, :-1] + mass_y[1:, 1:] - mass_y[:-1, 1:])
    new_hu = h[INNER] * u[INNER] - ratio * (
        before_x[1:, 1:] - after_x[1:, :-1] + along_y[1:, 1:] - along_y[:-1, 1:] + push_x[1:, 1:])
    new_hv = h[INNER] * v[INNER] - ratio * (
        along_x[1:, 1:] - along_x[1:, :-1] + before_y[1:, 1:] - after_y[:-1, 1:] + push_y[1:, 1:])
    return new_h, new_hu, new_hv


def velocity_factor(h: np.ndarray) -> np.ndarray:
    """What momentum is multiplied by to get velocity: 1 / h, but less than that in shallow water."""
    h4 = h * h * (h * h)
    factor: np.ndarray = math.sqrt(2.0) * h / np.sqrt(h4 + np.maximum(h4, SHALLOW**4))
    return factor


def step(state: State) -> None:
    h, u, v, b, ratio = state.h, state.u, state.v, state.b, state.dt / state.d
    h1, u1, v1 = state.stage
    new_h, new_hu, new_hv = change(h, u, v, b, ratio)
    factor = velocity_factor(new_h)
    h1[INNER], u1[INNER], v1[INNER] = new_h, new_hu * factor, new_hv * factor
    walls(h1, u1, v1)
    new_h, new_hu, new_hv = change(h1, u1, v1, b, ratio)
    new_h = 0.5 * (h[INNER] + new_h)
    new_hu = 0.5 * (h[INNER] * u[INNER] + new_hu)
    new_hv = 0.5 * (h[INNER] * v[INNER] + new_hv)
    factor = velocity_factor(new_h)
    h[INNER], u[INNER], v[INNER] = new_h, new_hu * factor, new_hv * factor
    walls(h, u, v)
    state.steps += 1


def results(state: State) -> dict[str, np.ndarray]:
    return {"h": state.h, "u": state.u, "v": state.v}


def motion_at_rest(dtype: str) -> float:
    """The largest velocity, relative to that of waves, in a small basin at rest after 20 steps."""
    lake = basin(64, dtype, 0.0)
    for _ in range(20):
        step(lake)
    largest = max(float(np.max(np.abs(lake.u))), float(np.max(np.abs(lake.v))))
    return largest / math.sqrt(GRAVITY * LEVEL)


def check(state: State) -> tuple[str, float, float]:
    """No water is gained or lost, no depth is negative, and water at rest stays at rest."""
    lost = abs(volume(state.h) - state.mass) / state.mass
    below = max(0.0, -float(state.h.min()))
    rest = motion_at_rest(str(state.h.dtype))
    bound = 1e-11 if state.h.dtype == np.float64 else 1e-3
    return "water lost, depth below zero, or motion of water at rest, at most", max(lost, below, rest), bound


def plot(state: State, path: str) -> None:
    """The height of the water's surface over its level at rest; dry land in brown, by its height."""
    from matplotlib.figure import Figure

    h, b = state.h[INNER], state.b[INNER]
    dry = h < SHALLOW
    figure = Figure(figsize=(7.5, 6), layout="constrained")
    axes = figure.subplots()
    frame = (0.0, LENGTH, 0.0, LENGTH)
    axes.imshow(np.where(dry, b, np.nan), origin="lower", extent=frame, cmap="copper", vmin=0.0)
    water = axes.imshow(np.where(dry, np.nan, h + b - LEVEL), origin="lower", extent=frame, cmap="RdBu_r",
                        vmin=-WAVE / 2, vmax=WAVE / 2)
    axes.contour(b, levels=6, extent=frame, colors="black", linewidths=0.3)
    figure.colorbar(water, label="surface above its level at rest")
    axes.set(title=f"water at t = {state.steps * state.dt:.3f}", xlabel="x", ylabel="y")
    figure.savefig(path)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="shallow water")
    arguments(parser)
    args = parser.parse_args(argv)
    state = setup(args)
    start = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        step(state)
        if iteration % 4 == 0 or iteration == args.iterations:
            fastest = math.sqrt(float(np.max(state.u * state.u + state.v * state.v)))
            print(f"iteration {iteration:4}  fastest {fastest:.6f}  {time.perf_counter() - start:9.3f} s")
    what, error, bound = check(state)
    print(f"check: {what} {error:.3g} (at most {bound:g})")
    if not error <= bound:
        sys.exit("check failed")
    if args.plot:
        plot(state, args.plot)


if __name__ == "__main__":
    main()
