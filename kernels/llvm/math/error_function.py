"""erf x = 1 - e^-p with p = -log(erfc x), a rational function without a constant term on 0 <= x <= 6.

So the result keeps its relative precision near zero, and where erf is close to 1 an error of p matters
little.
"""

from __future__ import annotations

from diffuse.kernels.llvm.math.exponential import expm1_falling
from diffuse.kernels.llvm.math.values import Real, at_most, fma, paired

ERF_SLOPE = 1.1283791670955126
ERF_ABOVE = (0.6366197723675693, 0.8545592499097269, 0.544382352722332, 0.1938362633815986,
             0.03825896252294017, 0.0033170433357726553, -2.9904682926949376e-07, 2.9718888333714398e-08,
             -1.1155566793653547e-09)
ERF_BELOW = (1.0, 1.1809037030237375, 0.6945217084522302, 0.22816838878413706, 0.041854588733578925,
             0.003318147820645334)
"""p(x) = x (ERF_SLOPE + x ERF_ABOVE(x) / ERF_BELOW(x)), x <= 6: erf x has a relative error of 2^-53.8."""
ERF_SHORT = (1.128379171610361, 0.6366193819876185, 0.10277783104619477, -0.019153068207627563,
             -0.00016038418833963215, 0.001667012123971507, -0.0006328268746141497, 0.00011763811308697896,
             -9.255880194067333e-06)
"""A polynomial for p(x) / x, 0 <= x <= 4, and results of 24 bits, with an error of 2^-27.8."""


def erf(x: Real, short: bool) -> Real:
    size, flat = x.size(), 4.0 if short else 6.0
    near = at_most(size, flat)
    if short:
        first, *rest = ERF_SHORT
        p = fma(near * paired(rest, near), near, near * first)
    else:
        ratio = paired(ERF_ABOVE, near) / paired(ERF_BELOW, near)
        p = near * fma(near, ratio, ERF_SLOPE)
    return x.nan().choose(x, expm1_falling(-p, short).signed(x))
