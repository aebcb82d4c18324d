"""erf x = 1 - e^-p with p = -log(erfc x), a polynomial without a constant term on 0 <= x <= 6.

So the result keeps its relative precision near zero, and where erf is close to 1 an error of p matters
little.
"""

from __future__ import annotations

from diffuse.kernels.llvm.math.exponential import expm1_falling
from diffuse.kernels.llvm.math.values import Real, beyond, fma, paired

ERF = (1.1283791670955126, 0.6366197723675909, 0.10277260330131487, -0.01912844699308366,
       -0.0002091948540438248, 0.0016962076707059137, -0.0005901324340844153, 2.590451275098994e-05,
       6.442044064982232e-05, -2.957561042915849e-05, 3.1695910244673845e-06, 3.133052058967437e-06,
       -2.037267915224105e-06, 5.706883886541231e-07, -1.1739550690698624e-08, -6.571958910778391e-08,
       3.457992914654211e-08, -1.077198623952748e-08, 2.3602213355536525e-09, -3.760232208131761e-10,
       4.301212147560852e-11, -3.3638756401430027e-12, 1.6146294851100365e-13, -3.591624355967689e-15)
"""-log(erfc x) / x for 0 <= x <= 6: erf x has a relative error of 2^-54.8."""
ERF_SHORT = (1.1283791666276952, 0.6366198345632781, 0.10277127737635575, -0.01911769601878755,
             -0.0002530582506127553, 0.001799350190264611, -0.0007406832249372237, 0.00016747987396766424,
             -2.1354371826469607e-05, 1.1932810793788668e-06)
"""The same for 0 <= x <= 4 and results of 24 bits, with an error of 2^-31.1."""


def erf_single(x: Real) -> Real:
    return erf(x, short=True)


def erf(x: Real, short: bool) -> Real:
    size, flat = x.size(), 4.0 if short else 6.0
    near = beyond(size, flat).pick(x.format.bits(flat), size).real()
    first, *rest = ERF_SHORT if short else ERF
    p = fma(near * paired(rest, near), near, near * first)
    return x.nan().choose(x, expm1_falling(-p, short).signed(x))
