"""Short last dimensions and operands that repeat: NumPy, hand-written Numba, JAX and Diffuse.

Three programs: an equation of state of about 200 operations over (n, n, 26) with pressures of (1, 1, 26);
particles with positions and velocities of (n, 3); a lattice Boltzmann step with nine populations in the last
dimension.  Prints a table.

    python bench/broadcast.py [--quick] [--rounds N] [--only numba jax]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy

DEPTHS = 26
WEIGHTS = (4 / 9, *[1 / 9] * 4, *[1 / 36] * 4)
VELOCITIES = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))

Arrays = tuple[Any, ...]


class Program(NamedTuple):
    """One program: its arrays, a step from arrays to arrays, and its sizes."""

    name: str
    setup: Callable[[int], Arrays]
    step: Callable[..., Arrays]
    """Of the library and the arrays."""
    numba: Callable[[], Any]
    """Compiles a step over the arrays, written by hand."""
    size: int
    quick: int


# -- an equation of state --------------------------------------------------------------------------------

COEFFICIENTS = [0.1 + 0.013 * k for k in range(60)]


def ocean(n: int) -> Arrays:
    """Salinities, temperatures, and the pressure at each depth."""
    random = numpy.random.default_rng(0)
    pressure = numpy.linspace(1.0, 2.0, DEPTHS).reshape(1, 1, DEPTHS)
    return random.random((n, n, DEPTHS)) + 0.5, random.random((n, n, DEPTHS)), pressure


def polynomial(c: Any, salinity: Any, root: Any, heat: Any) -> Any:
    """Eighteen operations."""
    return (c[0] + heat * (c[1] + heat * (c[2] + c[3] * heat))
            + salinity * (c[4] + heat * (c[5] + c[6] * heat) + root * (c[7] + heat * (c[8] + heat * c[9]))))


def density(np: Any, salinity: Any, heat: Any, pressure: Any) -> Arrays:
    """Ten polynomials of salinity and temperature, in powers of pressure."""
    root, c = np.sqrt(salinity), COEFFICIENTS
    terms = [polynomial(c[5 * k:5 * k + 10], salinity, root, heat) for k in range(10)]
    above, below = terms[4], terms[9]
    for k in range(3, -1, -1):
        above, below = terms[k] + pressure * above, terms[k + 5] + pressure * below
    return (above / below + 1e-3 * pressure ** 2 - 0.5 * pressure,)


def density_by_hand() -> Any:
    import numba
    import numpy as np

    poly = numba.njit(polynomial)
    c = np.array(COEFFICIENTS)

    @numba.njit(error_model="numpy", parallel=True)
    def step(salinity, heat, pressure):  # type: ignore[no-untyped-def]
        out = np.empty_like(salinity)
        n, m, depths = salinity.shape
        for i in numba.prange(n):
            for j in range(m):
                for k in range(depths):
                    s, h, p = salinity[i, j, k], heat[i, j, k], pressure[0, 0, k]
                    root, above, below = np.sqrt(s), 0.0, 0.0
                    for q in range(4, -1, -1):
                        above = poly(c[5 * q:5 * q + 10], s, root, h) + p * above
                        below = poly(c[5 * q + 25:5 * q + 35], s, root, h) + p * below
                    out[i, j, k] = above / below + 1e-3 * p ** 2 - 0.5 * p
        return out

    return step


# -- particles -------------------------------------------------------------------------------------------

def crowd(n: int) -> Arrays:
    """Positions, velocities, masses, and the strength of a field along each axis."""
    random = numpy.random.default_rng(1)
    return (random.random((n, 3)), random.random((n, 3)) - 0.5, random.random((n, 1)) + 1.0,
            numpy.array([1.0, 2.0, 3.0]))


def moved(np: Any, x: Any, v: Any, mass: Any, field: Any) -> Arrays:
    """A step of leapfrog in a well, with friction."""
    force = -field * x - 0.1 * v * mass
    half = v + 0.005 * force / mass
    x = x + 0.01 * half
    force = -field * x - 0.1 * half * mass
    v = half + 0.005 * force / mass
    energy = 0.5 * mass[:, 0] * (v[:, 0] * v[:, 0] + v[:, 1] * v[:, 1] + v[:, 2] * v[:, 2])
    return x, v, energy


def moved_by_hand() -> Any:
    import numba
    import numpy as np

    @numba.njit(error_model="numpy", parallel=True)
    def step(x, v, mass, field):  # type: ignore[no-untyped-def]
        position, velocity, energy = np.empty_like(x), np.empty_like(x), np.empty(len(x))
        for i in numba.prange(len(x)):
            m, total = mass[i, 0], 0.0
            for k in range(3):
                half = v[i, k] + 0.005 * (-field[k] * x[i, k] - 0.1 * v[i, k] * m) / m
                place = x[i, k] + 0.01 * half
                speed = half + 0.005 * (-field[k] * place - 0.1 * half * m) / m
                position[i, k], velocity[i, k] = place, speed
                total += speed * speed
            energy[i] = 0.5 * m * total
        return position, velocity, energy

    return step


# -- lattice Boltzmann -----------------------------------------------------------------------------------

def channel(n: int) -> Arrays:
    """Populations, their weights and their velocities."""
    random = numpy.random.default_rng(2)
    weights = numpy.array(WEIGHTS)
    return (weights * (1.0 + 0.1 * random.random((n, n, 9))), weights,
            *(numpy.array([float(c[k]) for c in VELOCITIES]) for k in range(2)))


def collided(np: Any, f: Any, weights: Any, cx: Any, cy: Any) -> Arrays:
    """Relaxation towards the equilibrium of density and velocity; streaming is left out."""
    part = [f[:, :, k] for k in range(9)]
    rho = part[0] + part[1] + part[2] + part[3] + part[4] + part[5] + part[6] + part[7] + part[8]
    ux = (part[1] + part[5] + part[8] - part[3] - part[6] - part[7]) / rho
    uy = (part[2] + part[5] + part[6] - part[4] - part[7] - part[8]) / rho
    rest = (1.5 * (ux * ux + uy * uy))[:, :, None]
    along = cx * ux[:, :, None] + cy * uy[:, :, None]
    equilibrium = weights * rho[:, :, None] * (1.0 + 3.0 * along + 4.5 * along * along - rest)
    return (f - 0.6 * (f - equilibrium),)


def collided_by_hand() -> Any:
    import numba
    import numpy as np

    @numba.njit(error_model="numpy", parallel=True)
    def step(f, weights, cx, cy):  # type: ignore[no-untyped-def]
        out = np.empty_like(f)
        for i in numba.prange(f.shape[0]):
            for j in range(f.shape[1]):
                rho = ux = uy = 0.0
                for k in range(9):
                    rho += f[i, j, k]
                    ux += cx[k] * f[i, j, k]
                    uy += cy[k] * f[i, j, k]
                ux, uy = ux / rho, uy / rho
                rest = 1.5 * (ux * ux + uy * uy)
                for k in range(9):
                    along = cx[k] * ux + cy[k] * uy
                    equilibrium = weights[k] * rho * (1.0 + 3.0 * along + 4.5 * along * along - rest)
                    out[i, j, k] = f[i, j, k] - 0.6 * (f[i, j, k] - equilibrium)
        return out

    return step


PROGRAMS = (
    Program("equation of state (n, n, 26)", ocean, density, density_by_hand, 204, 40),
    Program("particles (n, 3)", crowd, moved, moved_by_hand, 400_000, 10_000),
    Program("lattice Boltzmann (n, n, 9)", channel, collided, collided_by_hand, 450, 60),
)


# -- contenders ------------------------------------------------------------------------------------------

def contenders(program: Program, arrays: Arrays, only: list[str]) -> dict[str, Callable[[], Any]]:
    """A call of each of these contenders that is installed, complete when it returns."""
    import diffuse.numpy
    from diffuse.stream import engine

    found: dict[str, Callable[[], Any]] = {"numpy": lambda: program.step(numpy, *arrays)}
    if find_spec("numba") and "numba" in only:
        by_hand = program.numba()
        found["numba"] = lambda: by_hand(*arrays)
    if find_spec("jax") and "jax" in only:
        import jax

        jax.config.update("jax_enable_x64", True)
        theirs = [jax.numpy.asarray(x) for x in arrays]
        compiled = jax.jit(lambda *given: program.step(jax.numpy, *given))
        found["jax"] = lambda: jax.block_until_ready(compiled(*theirs))
    ours = [diffuse.numpy.array(x) for x in arrays]

    def fused() -> Any:
        results = program.step(diffuse.numpy, *ours)
        engine.fence()
        return results

    found["diffuse"] = fused
    return found


def measure(program: Program, size: int, rounds: int, only: list[str]) -> dict[str, float]:
    """Median milliseconds of a step of each contender, in turn, when all is compiled."""
    calls = contenders(program, program.setup(size), only)
    expected = calls["numpy"]()
    for name, call in calls.items():
        found = call()
        found = found if isinstance(found, tuple) else (found,)
        for x, y in zip(found, expected, strict=True):
            assert numpy.allclose(numpy.asarray(x), y, rtol=1e-9), f"{name}, {program.name}: not as NumPy"
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(samples) for name, samples in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="operands that repeat, and short last dimensions")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="small sizes, three rounds")
    parser.add_argument("--only", nargs="+", default=["numba", "jax"], help="beside NumPy and Diffuse")
    args = parser.parse_args()
    from diffuse.settings import config

    config.compile = "wait"
    for program in PROGRAMS:
        size = program.quick if args.quick else program.size
        found = measure(program, size, 3 if args.quick else args.rounds, args.only)
        ours = found["diffuse"]
        print(f"{program.name}, n = {size}: {ours:.2f} ms")
        for name, theirs in found.items():
            if name != "diffuse":
                print(f"    {name:8} {theirs:9.2f} ms  {theirs / ours:6.2f} x")


if __name__ == "__main__":
    main()
