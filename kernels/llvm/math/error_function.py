"""erf x = 1 - e^-p with p = -log(erfc x), a rational function without a constant term on 0 <= x <= 6.

So the result keeps its relative precision near zero, and where erf is close to 1 an error of p matters
little.
"""

from __future__ import annotations

from diffuse.kernels.llvm.math.exponential import expm1_falling
from diffuse.kernels.llvm.math.values import Real, beyond, fma, paired

ERF_SLOPE = 1.1283791670955126
ERF_ABOVE = (0.6366197723675796, 0.8242717839635849, 0.5128944564003439, 0.17824403241926634,
             0.034362905111801303, 0.0028912952622209094, -1.986541225501927e-06, 2.0258716375831278e-07,
             -1.290182045184338e-08, 3.9500220868440806e-10)
ERF_BELOW = (1.0, 1.1333282627685526, 0.6527409695557888, 0.20899154200870584, 0.03755947111930614,
             0.0028795956238483497)
"""p(x) = x (ERF_SLOPE + x ERF_ABOVE(x) / ERF_BELOW(x)), x <= 6: erf x has a relative error of 2^-55.3."""
ERF_SHORT = (1.1283791666276952, 0.6366198345632781, 0.10277127737635575, -0.01911769601878755,
             -0.0002530582506127553, 0.001799350190264611, -0.0007406832249372237, 0.00016747987396766424,
             -2.1354371826469607e-05, 1.1932810793788668e-06)
"""A polynomial for p(x) / x, 0 <= x <= 4, and results of 24 bits, with an error of 2^-31.1."""


def erf_single(x: Real) -> Real:
    return erf(x, short=True)


def erf(x: Real, short: bool) -> Real:
    size, flat = x.size(), 4.0 if short else 6.0
    near = beyond(size, flat).pick(x.format.bits(flat), size).real()
    if short:
        first, *rest = ERF_SHORT
        p = fma(near * paired(rest, near), near, near * first)
    else:
        ratio = paired(ERF_ABOVE, near) / paired(ERF_BELOW, near)
        p = fma(near * ratio, near, near * ERF_SLOPE)
    return x.nan().choose(x, expm1_falling(-p, short).signed(x))
