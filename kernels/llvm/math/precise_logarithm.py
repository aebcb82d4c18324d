"""A logarithm of twice the usual precision, for functions in which its error grows.

x = 2^k m, and m lies in one of 16 intervals, for each of which a table has the inverse 1 / c of a number near
its middle and log c: log x = k ln 2 + log c + log(1 + r) with r = m / c - 1, |r| < 0.0298.  In the interval
around 1 c is 1, so that r is exact there and log x keeps its relative precision.
"""

from __future__ import annotations

from diffuse.kernels.llvm.math.logarithm import LN2, LN2_SHORT, LN2_SHORT_REST
from diffuse.kernels.llvm.math.lookup import looked_up
from diffuse.kernels.llvm.math.values import MANTISSA, Real, Whole, fma, paired

FIRST = 0x3FE6555600000000
"""The bits of the smallest m, 0.69792: with it, 1 is in the middle of an interval."""
INVERSES = (1.401459229647569, 1.3426567695855545, 1.288590076179217, 1.238709189646394, 1.1925461317562764,
            1.1497001786099998, 1.1098261980438415, 1.072625332581817, 1.0378374954347367, 1.0,
            0.9504944751130812, 0.8971957499020301, 0.8495570632491318, 0.8067222753073939,
            0.7679996250001832, 0.7328240860455527)
LOGS = (-0.3375140006876336, -0.29465031494873983, -0.2535486564504481, -0.21406986133342798,
        -0.1760906279430401, -0.13950119413107132, -0.10420342472571065, -0.0701092252086255,
        -0.037139217029789506, 0.0, 0.050772929681670576, 0.10848121341587103, 0.16304016737854,
        0.2147758145440548, 0.26396603411558317, 0.310849597650531)
"""log c, rounded to a multiple of 2^-42, so that its sum with a multiple of LN2_SHORT is exact."""
RESTS = (-3.290455560927372e-14, 4.889941517534349e-14, -3.6972839596288263e-14, 1.7106685852321265e-14,
         -9.095917263022154e-16, -4.445297806247135e-14, 1.723863400965804e-14, 6.735650793189789e-14,
         4.1952871760019805e-14, 0.0, 4.7759764857204584e-14, 5.721339671969861e-14, -5.5376908816020365e-14,
         -2.0525566566731986e-14, 1.2447283761386384e-14, -1.0095795769821015e-13)
LOG = (0.6666666666666666, -0.49999999999999634, 0.39999999999999536, -0.33333333338816373,
       0.28571428577200536, -0.24999977781067648, 0.2222220043412935, -0.20033343212594243,
       0.18213315462895624)
"""2 (log(1 + r) - r + r^2 / 2) / r^3 for |r| <= 0.0298: log(1 + r) has a relative error of 2^-65."""
LOG_SHORT = (-0.5000000000008253, 0.333333298212176, -0.24999996176294764, 0.200158506345119,
             -0.16681384772419258)
"""(log(1 + r) - r) / r^2 for results of 24 bits: log(1 + r) has an error of 2^-37."""


def logarithm_pair(raw: Whole) -> tuple[Real, Real]:
    """Return log x as a number and a small rest; names that end in `l` are of rounding errors.

    x is a positive normal number, given by its bits, which may have a negative exponent field.
    """
    k, place, m = _taken_apart(raw)
    inverse = looked_up("inverses", INVERSES, place)
    product = m * inverse
    r, rl = product - 1.0, fma(m, inverse, -product)
    turns = k.counted()
    base = fma(turns, LN2_SHORT, looked_up("logs", LOGS, place))
    basel = fma(turns, LN2_SHORT_REST, looked_up("rests", RESTS, place))
    slope = 1.0 - r
    rl = rl * fma(slope, r * r, slope)  # by 1 / (1 + r), nearly
    half = r * 0.5
    square = half * r
    squarel = fma(half, r, -square)
    total = base + r
    totall = (base - total) + r
    found = total - square
    foundl = (total - found) - square
    more = fma(r * square, paired(LOG, r), basel)
    return found, more + ((totall + foundl) + (rl - squarel))


def logarithm_shortly(raw: Whole) -> Real:
    """Return the logarithm of a positive normal number, by its bits, with an error of 2^-36 units."""
    k, place, m = _taken_apart(raw)
    r = fma(m, looked_up("inverses", INVERSES, place), -1.0)
    base = fma(k.counted(), LN2, looked_up("logs", LOGS, place))
    return base + fma(r * r, paired(LOG_SHORT, r), r)


def _taken_apart(raw: Whole) -> tuple[Whole, Whole, Real]:
    """Return k, the interval of m in the lowest four bits, and m."""
    past = raw - FIRST
    m = ((past & ((1 << MANTISSA) - 1)) + FIRST).real()
    return past >> MANTISSA, past >> MANTISSA - 4, m
