"""erf and erfc.

erf x = 1 - e^-p with p = -log(erfc x), a rational function without a constant term on 0 <= x <= 6.  So the
result keeps its relative precision near zero, and where erf is close to 1 an error of p matters little.

erfc x = e^(-x^2) R(x) for x >= 0, with a rational function R and x^2 as the sum of two floats; for negative x
it is 2 - erfc(-x).
"""

from __future__ import annotations

from diffuse.kernels.llvm.math.branches import rarely
from diffuse.kernels.llvm.math.exponential import as_double, expm1_falling, growth_of_sum, raised, scaled
from diffuse.kernels.llvm.math.values import INFINITY, LAST, Real, Whole, at_most, beyond, fma, paired

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
ROOT_PI = 1.772453850905516
ERFC_ABOVE = (0.6440746838100035, 1.2688798537256107, 1.240494264796836, 0.7744783342696637,
              0.33719554676957364, 0.10575609706963235, 0.023891018429231085, 0.003761770674423901,
              0.00037761298451998836, 1.870998358404034e-05)
ERFC_BELOW = (1.0, 3.522696840534278, 5.8114223809381755, 5.939334441629182, 4.188901682737298,
              2.147166624825132, 0.8191965548104747, 0.2336802934266323, 0.04912340989891696,
              0.007303345130633963, 0.0006986911620394928, 3.316258245399625e-05)
"""q(x) = x ERFC_ABOVE(x) / ERFC_BELOW(x), 0 <= x <= 26.7: (1 + q) / (1 + ROOT_PI x) is e^(x^2) erfc x with a
relative error of 2^-57.  As q is at most 0.19, rounding errors of the two polynomials matter little."""
ERFC_SHORT_ABOVE = (0.6440746829821148, 0.7016114898019875, 0.3657727203510568, 0.10244268093973373,
                    0.013451910263043694)
ERFC_SHORT_BELOW = (1.0, 2.64194732850469, 3.0858546568233165, 2.059231907648566, 0.8397233829947922,
                    0.20271360976121056, 0.023842688735522588)
"""The same for results of 24 bits and x <= 10.1, with an error of 2^-32."""
ERFC_LIMITS = {"float64": 26.5, "float32": 9.1}
"""Up to here erfc x is a normal number."""


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


def erfc(x: Real, short: bool) -> Real:
    size, limit = x.size(), ERFC_LIMITS[x.dtype]
    unknown, falls = beyond(size, INFINITY), x.negative()
    tail, n = _tail(at_most(size, limit), short)
    tail = scaled(tail, n)
    found = falls.choose(2.0 - tail, tail)
    return rarely("erfc", (beyond(size, limit) & ~falls) | unknown, found, as_double(_erfc_far), x)


def _erfc_far(x: Real) -> Real:
    """Return erfc x, which may underflow, for positive x and NaN."""
    end = beyond(x.size(), LAST)
    tail, n = _tail(at_most(end.choose(1.0, x).size(), 30.0), short=False)
    return end.choose(x.nan().choose(x, 0.0), raised(tail, n << 32 >> 32))


def _tail(x: Real, short: bool) -> tuple[Real, Whole]:
    """Return a number and n, in the low bits, whose product with 2^n is erfc x, for 0 <= x <= 30."""
    square = x.squared()
    n, more = growth_of_sum(-square, fma(-x, x, square), short)
    above, below = (ERFC_SHORT_ABOVE, ERFC_SHORT_BELOW) if short else (ERFC_ABOVE, ERFC_BELOW)
    divisor = paired(below, x, square)
    dividend = fma(x, paired(above, x, square), divisor)
    found = dividend / fma(divisor * x, ROOT_PI, divisor)
    return fma(found, more, found), n
