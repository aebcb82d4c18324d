"""Three kernels of an ocean model, as ordinary NumPy functions, and the arrays that they are given.

Arrays are longitude by latitude by level (the last level is the uppermost), with a border of two cells around
the basin; those with more dimensions have tracers, or the neighbours on both sides, last.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

INNER = slice(2, -2)
GRAVITY, REFERENCE = 9.81, 1024.0


def arrays(elements: int) -> dict[str, Any]:
    """What the kernels are given for about so many cells: water that is warm and light above, with land."""
    side, levels = ceil(2 * elements ** (1 / 3)), ceil(elements ** (1 / 3) / 4)
    shape = side, side, levels
    pick = np.random.default_rng(41)
    height = np.linspace(0.0, 1.0, levels + 1)[1:]
    bottom = pick.integers(0, max(2, levels // 2), (side, side))
    wet = (np.arange(levels) >= bottom[:, :, None]).astype(float)
    temperature = 2.0 + 20.0 * height**2 + pick.random(shape)
    salt = 34.0 + height + 0.5 * pick.random(shape)
    return {
        "temperature": temperature, "salt": salt, "pressure": 400.0 * (1.0 - height)[None, None, :],
        "tracers": np.stack([temperature, salt], axis=-1), "wet": wet,
        "warmth": -0.2 - 0.02 * pick.random(shape), "weight": 0.75 + 0.02 * pick.random(shape),
        "east": 2e4 + 1e2 * pick.random(side), "north": 2e4 + 1e2 * pick.random(side),
        "thickness": 20.0 + 100.0 * (1.0 - height), "bottom": bottom,
        "energy": 1e-4 + 1e-2 * pick.random(shape), "shear": 1e-5 * pick.random(shape),
        "stability": 1e-5 * pick.random(shape), "wind": 1e-4 * pick.random((side, side)),
        "u": 0.1 * pick.random(shape) - 0.05, "v": 0.1 * pick.random(shape) - 0.05,
    }


def equation_of_state(temperature: Any, salt: Any, pressure: Any) -> tuple[Any, Any, Any]:
    """Density (kg/m3) and its derivatives by temperature (degrees) and salinity; pressure is in bar.

    Source: the international equation of state of 1980 (UNESCO technical papers in marine science 36, 1981):
    surface density over one less pressure over the secant bulk modulus, which is a polynomial of pressure.
    """
    t, s, p = temperature, salt, pressure
    root = np.sqrt(s)
    high = s * root
    # the density at the surface
    water = 999.842594 + t * (6.793952e-2 + t * (-9.095290e-3 + t * (1.001685e-4
                              + t * (-1.120083e-6 + t * 6.536332e-9))))
    first = 0.824493 + t * (-4.0899e-3 + t * (7.6438e-5 + t * (-8.2467e-7 + t * 5.3875e-9)))
    second = -5.72466e-3 + t * (1.0227e-4 - t * 1.6546e-6)
    surface = water + s * first + high * second + 4.8314e-4 * s * s
    surface_t = (6.793952e-2 + t * (-1.819058e-2 + t * (3.005055e-4 + t * (-4.480332e-6 + t * 3.268166e-8)))
                 + s * (-4.0899e-3 + t * (1.52876e-4 + t * (-2.47401e-6 + t * 2.155e-8)))
                 + high * (1.0227e-4 - t * 3.3092e-6))
    surface_s = first + 1.5 * root * second + 9.6628e-4 * s
    # the secant bulk modulus: its part that is free of pressure, and those with p and with p squared
    modulus, modulus_1 = 54.6746 + t * (-0.603459 + t * (1.09987e-2 - t * 6.1670e-5)), 7.944e-2 + t * (
        1.6483e-2 - t * 5.3009e-4)
    stiff = 19652.21 + t * (148.4206 + t * (-2.327105 + t * (1.360477e-2 - t * 5.155288e-5)))
    stiff_t = (148.4206 + t * (-4.65421 + t * (4.081431e-2 - t * 2.0621152e-4))
               + s * (-0.603459 + t * (2.19974e-2 - t * 1.8501e-4)) + high * (1.6483e-2 - t * 1.06018e-3))
    stiff_s = modulus + 1.5 * root * modulus_1
    stiff = stiff + s * modulus + high * modulus_1
    linear_1 = 2.2838e-3 + t * (-1.0981e-5 - t * 1.6078e-6)
    linear = (3.239908 + t * (1.43713e-3 + t * (1.16092e-4 - t * 5.77905e-7)) + s * linear_1
              + 1.91075e-4 * high)
    linear_t = (1.43713e-3 + t * (2.32184e-4 - t * 1.733715e-6) + s * (-1.0981e-5 - t * 3.2156e-6))
    linear_s = linear_1 + 2.866125e-4 * root
    square_1 = -9.9348e-7 + t * (2.0816e-8 + t * 9.1697e-10)
    square = 8.50935e-5 + t * (-6.12293e-6 + t * 5.2787e-8) + s * square_1
    square_t = -6.12293e-6 + t * 1.05574e-7 + s * (2.0816e-8 + t * 1.83394e-9)
    # together
    bulk = stiff + p * (linear + p * square)
    bulk_t = stiff_t + p * (linear_t + p * square_t)
    bulk_s = stiff_s + p * (linear_s + p * square_1)
    pressed = 1.0 / (1.0 - p / bulk)
    density = surface * pressed
    softer = density * pressed * p / (bulk * bulk)
    return density, surface_t * pressed - softer * bulk_t, surface_s * pressed - softer * bulk_s


STEEPEST, WIDTH = 4e-3, 1e-3
"""Slopes of density surfaces at which mixing along them is tapered off, and over which range."""
ALONG, LEAST = 1000.0, 50.0
"""Diffusivity along surfaces of equal density, and the least along levels (m2/s)."""


def isoneutral_mixing(tracers: Any, warmth: Any, weight: Any, wet: Any, east: Any, north: Any,
                      thickness: Any) -> tuple[Any, ...]:
    """Slopes of density surfaces and diffusivities along the axes, and the change of both tracers.

    Sources: mixing along surfaces of equal density by triads (Griffies and others, Journal of Physical
    Oceanography 28, 1998), tapered where these are steep (Danabasoglu and McWilliams, Journal of Climate 8,
    1995).  A triad is a cell, a face of it to the side and one above or below.
    """
    shape = wet.shape
    gradients = [np.zeros_like(tracers) for _ in range(3)]
    gradients[0][:-1] = ((tracers[1:] - tracers[:-1]) / east[:-1, None, None, None]
                         * (wet[1:] * wet[:-1])[..., None])
    gradients[1][:, :-1] = ((tracers[:, 1:] - tracers[:, :-1]) / north[None, :-1, None, None]
                            * (wet[:, 1:] * wet[:, :-1])[..., None])
    gradients[2][:, :, :-1] = ((tracers[:, :, 1:] - tracers[:, :, :-1]) / thickness[None, None, :-1, None]
                               * (wet[:, :, 1:] * wet[:, :, :-1])[..., None])
    change = np.zeros_like(tracers)
    upright = np.zeros(shape)
    found: list[Any] = []
    for axis, widths in ((0, east), (1, north)):
        here = (slice(1, -2), INNER) if axis == 0 else (INNER, slice(1, -2))
        slopes, diffusivity = np.zeros((*shape, 2, 2)), np.zeros(shape)
        for side in (0, 1):     # the triad's cell is west (south) or east (north) of the face
            cell = ((slice(1 + side, -2 + side), INNER) if axis == 0 else (INNER, slice(1 + side, -2 + side)))
            for half in (0, 1):     # its other face is below or above the cell
                levels = slice(1 - half, None)
                below = slice(0, None if half else -1)
                across = (warmth[(*cell, levels)] * gradients[axis][(*here, levels, 0)]
                          + weight[(*cell, levels)] * gradients[axis][(*here, levels, 1)])
                upward = (warmth[(*cell, levels)] * gradients[2][(*cell, below, 0)]
                          + weight[(*cell, levels)] * gradients[2][(*cell, below, 1)])
                slope = -across / (np.minimum(0.0, upward) - 1e-10)
                taper = 0.5 * (1.0 + np.tanh((STEEPEST - np.abs(slope)) / WIDTH))
                diffusivity[(*here, levels)] += (0.25 * thickness[levels]
                                                 * np.maximum(LEAST, ALONG * taper) * wet[(*cell, levels)])
                slopes[(*here, levels, side, half)] = taper * slope * wet[(*cell, levels)]
                upright[(*cell, levels)] += 0.125 * ALONG * taper * slope**2 * wet[(*cell, levels)]
        diffusivity /= thickness
        flux = diffusivity[..., None] * gradients[axis]
        flux[:, :, 1:] -= 0.25 * ALONG * ((slopes[:, :, 1:, 0, 0] + slopes[:, :, 1:, 1, 0])[..., None]
                                          * gradients[2][:, :, :-1])
        flux -= 0.25 * ALONG * (slopes[..., 0, 1] + slopes[..., 1, 1])[..., None] * gradients[2]
        inner = (INNER, INNER)
        before = (slice(1, -3), INNER) if axis == 0 else (INNER, slice(1, -3))
        spread = widths[2:-2, None, None, None] if axis == 0 else widths[None, 2:-2, None, None]
        change[inner] += (flux[inner] - flux[before]) / spread * wet[inner][..., None]
        found += [slopes, diffusivity]
    flux = upright[..., None] * gradients[2]
    change[:, :, 0] += flux[:, :, 0] / thickness[0]
    change[:, :, 1:] += (flux[:, :, 1:] - flux[:, :, :-1]) / thickness[1:, None]
    return (*found, upright, change)


STEP = 3600.0


def solved(lower: Any, middle: Any, upper: Any, right: Any, bottom: Any) -> Any:
    """The solution of a tridiagonal system over the levels of each column, which begin at `bottom`.

    Source: the algorithm of Thomas (W. H. Press and others, Numerical Recipes, section 2.4).
    """
    levels = right.shape[2]
    first, inside = bottom[..., None] == np.arange(levels), bottom[..., None] <= np.arange(levels)
    lower = np.where(inside & ~first, lower, 0.0)
    middle, upper = np.where(inside, middle, 1.0), np.where(inside, upper, 0.0)
    right = np.where(inside, right, 0.0)
    above, found = np.zeros_like(right), np.zeros_like(right)
    above[:, :, 0] = upper[:, :, 0] / middle[:, :, 0]
    found[:, :, 0] = right[:, :, 0] / middle[:, :, 0]
    for k in range(1, levels):
        pivot = 1.0 / (middle[:, :, k] - lower[:, :, k] * above[:, :, k - 1])
        above[:, :, k] = upper[:, :, k] * pivot
        found[:, :, k] = (right[:, :, k] - lower[:, :, k] * found[:, :, k - 1]) * pivot
    for k in range(levels - 2, -1, -1):
        found[:, :, k] -= above[:, :, k] * found[:, :, k + 1]
    return np.where(inside, found, 0.0)


def turbulent_energy(energy: Any, shear: Any, stability: Any, wind: Any, wet: Any, bottom: Any, u: Any,
                     v: Any, east: Any, north: Any, thickness: Any) -> tuple[Any, Any, Any]:
    """The turbulent kinetic energy after a time step, and the mixing of momentum and of tracers.

    Sources: production, dissipation and diffusion of turbulent energy (Gaspar, Gregoris and Lefevre, Journal
    of Geophysical Research 95, 1990), implicit in time along columns; advection with limited slopes (Sweby,
    SIAM Journal on Numerical Analysis 21, 1984).
    """
    root = np.sqrt(np.maximum(0.0, energy))
    # the length over which eddies mix: no more than stratification and the distance to the surface allow
    length = np.sqrt(2.0) * root / np.sqrt(np.maximum(1e-12, stability))
    depth = np.cumsum(thickness[::-1])[::-1]
    length = np.maximum(1e-8, np.minimum(length, depth))
    momentum = np.minimum(10.0, 0.1 * length * root)
    prandtl = np.maximum(1.0, np.minimum(10.0, 6.6 * stability / np.maximum(1e-12, shear)))
    tracer = momentum / prandtl
    forcing = momentum * shear - tracer * stability
    # diffusion between levels and dissipation, implicit in time
    between = np.zeros_like(energy)
    between[:, :, :-1] = STEP / thickness[1:] * 0.5 * (momentum[:, :, 1:] + momentum[:, :, :-1])
    lower, middle, upper = np.zeros_like(energy), np.zeros_like(energy), np.zeros_like(energy)
    middle[:, :, 1:-1] = (1.0 + (between[:, :, 1:-1] + between[:, :, :-2]) / thickness[1:-1]
                          + STEP * 0.7 / length[:, :, 1:-1] * root[:, :, 1:-1])
    middle[:, :, 0] = 1.0 + between[:, :, 0] / thickness[0] + STEP * 0.7 / length[:, :, 0] * root[:, :, 0]
    middle[:, :, -1] = (1.0 + between[:, :, -2] / (0.5 * thickness[-1])
                        + STEP * 0.7 / length[:, :, -1] * root[:, :, -1])
    lower[:, :, 1:-1] = -between[:, :, :-2] / thickness[1:-1]
    lower[:, :, -1] = -between[:, :, -2] / (0.5 * thickness[-1])
    upper[:, :, :-1] = -between[:, :, :-1] / thickness[:-1]
    right = energy + STEP * forcing
    right[:, :, -1] += STEP * wind / (0.5 * thickness[-1])
    after = solved(lower, middle, upper, right, bottom)
    # the uppermost level may not lose energy
    after[:, :, -1] = np.maximum(after[:, :, -1], 0.0)
    # advection along levels
    fluxes = [np.zeros_like(energy), np.zeros_like(energy)]
    for axis, speed, widths in ((0, u, east[:, None, None]), (1, v, north[None, :, None])):
        here, far, back, ahead = ((part, INNER) if axis == 0 else (INNER, part) for part in (
            slice(1, -2), slice(2, -1), slice(0, -3), slice(3, None)))
        mask = wet[here] * wet[far]
        slope = (energy[far] - energy[here]) * mask
        behind, beyond = (energy[here] - energy[back]) * wet[back], (energy[ahead] - energy[far]) * wet[ahead]
        fast = speed[here]
        courant = np.abs(fast * STEP / (widths[1:-2] if axis == 0 else widths[:, 1:-2]))
        ratio = np.where(fast > 0.0, behind, beyond) / np.where(np.abs(slope) < 1e-20, 1e-20, slope)
        limited = np.maximum(0.0, np.maximum(np.minimum(1.0, 2.0 * ratio), np.minimum(2.0, ratio)))
        fluxes[axis][here] = (fast * (energy[far] + energy[here]) * 0.5
                              - np.abs(fast) * ((1.0 - limited) + courant * limited) * slope * 0.5) * mask
    inner = (INNER, INNER)
    after[inner] += STEP * wet[inner] * (
        -(fluxes[0][inner] - fluxes[0][1:-3, INNER]) / east[2:-2, None, None]
        - (fluxes[1][inner] - fluxes[1][INNER, 1:-3]) / north[None, 2:-2, None])
    return after, momentum, tracer


KERNELS: dict[str, tuple[str, ...]] = {
    "equation_of_state": ("temperature", "salt", "pressure"),
    "isoneutral_mixing": ("tracers", "warmth", "weight", "wet", "east", "north", "thickness"),
    "turbulent_energy": ("energy", "shear", "stability", "wind", "wet", "bottom", "u", "v", "east", "north",
                         "thickness"),
}
"""The functions by name, and the arrays that each of them takes."""
