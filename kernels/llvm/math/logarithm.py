"""log, log2, log10, log1p.

log x = k ln 2 + log(1 + f) with 1 + f in [sqrt 1/2, sqrt 2), through s = f / (2 + f): log(1 + f) =
2 s + s^3 P(s^2).  For results of 24 bits a polynomial in f is enough.
"""

from __future__ import annotations

from collections.abc import Callable

from diffuse.kernels.llvm.math.branches import rarely
from diffuse.kernels.llvm.math.values import (
    FORMATS,
    INFINITY,
    LAST,
    SINGLE,
    Real,
    Truth,
    Whole,
    at_most,
    beyond,
    bits,
    fma,
    horner,
    paired,
    raises_divide,
    raises_invalid,
    widened,
)

LOG = (0.6666666666666734, 0.3999999999941466, 0.28571428742391153, 0.22222198572866086, 0.1818356434105574,
       0.1531405020095801, 0.14795952971418255)
"""P(z) = (log((1 + s) / (1 - s)) - 2 s) / s^3 with z = s^2 <= 0.0295: log has a relative error of 2^-58.9."""
LOG_SHORT = (-0.499999997540772, 0.33333310794441895, -0.2500002560983786, 0.20002221441946827,
             -0.16667694179062859, 0.14217651095526274, -0.12407230933008723, 0.11901094484438667,
             -0.1167676237488319, 0.06725580211170071)
"""(log(1 + f) - f) / f^2 for results of 24 bits, sqrt 1/2 <= 1 + f <= sqrt 2, with an error of 2^-30.3."""
LOG_SINGLE = (-0.49999988258959877, 0.33333325555940463, -0.2500158990765381, 0.20001986127249016,
              -0.16608933753906324, 0.14181532875380412, -0.13243904407967197, 0.1290650229452947,
              -0.07622017769653473)
"""The same in float32 arithmetic, with an error of 2^-27.8."""
LN2 = 0.6931471805599453
LN2_SHORT, LN2_SHORT_REST = 0.6931471803691238, 1.9082149292705877e-10
"""ln 2 as two terms; the short one has 21 zero bits, so that its product with an exponent is exact."""
LOG2E, LOG10E = 1.4426950408889634, 0.4342944819032518
LOG10_2 = 0.3010299956639812
"""log10(2), which a float64 happens to hold to 56 bits."""
LOG10_2_SINGLE, LOG10_2_SINGLE_REST = 0.301025390625, 4.605038981195214e-06
"""For float32 as two terms, of which the first one has 9 zero bits."""

Binade = Callable[[Whole, Real, bool], Real]
"""A function of k, f, and whether 24 bits are enough, which returns a logarithm of 2^k (1 + f)."""

LEAST, LEAST_SINGLE = bits(2.0 ** -1022), FORMATS[SINGLE].bits(2.0 ** -126)
LARGE = 2.0 ** 1000
MOST_SINGLE = FORMATS[SINGLE].bits(2.0 ** 120)


def log(x: Real, short: bool) -> Real:
    return _positive("log", x, natural, short)


def log2(x: Real, short: bool) -> Real:
    return _positive("log2", x, _binary, short)


def log10(x: Real, short: bool) -> Real:
    return _positive("log10", x, _decimal, short)


def log_single(x: Real) -> Real:
    return _positive_single("log", x, _natural_single, natural)


def log2_single(x: Real) -> Real:
    return _positive_single("log2", x, lambda k, f: fma(_shortly(f), LOG2E, k), _binary)


def log10_single(x: Real) -> Real:
    return _positive_single("log10", x, _decimal_single, _decimal)


def _natural_single(k: Real, f: Real) -> Real:
    return fma(k, LN2, _shortly(f))  # a float32 happens to hold ln 2 to 28 bits


def _decimal_single(k: Real, f: Real) -> Real:
    return fma(k, LOG10_2_SINGLE, fma(_shortly(f), LOG10E, k * LOG10_2_SINGLE_REST))


def log1p(x: Real, short: bool) -> Real:
    above = x + 1.0
    special = (above.whole() - LEAST).is_("uge", bits(LARGE) - LEAST)
    found = _log1p(special.replaced(0.0, x), at_most(above.whole(), LARGE), short)
    return rarely("log1p", special, found, _log1p_anywhere, x)


def log1p_single(x: Real) -> Real:
    above = x + 1.0
    special = (above.whole() - LEAST_SINGLE).is_("uge", MOST_SINGLE - LEAST_SINGLE)
    k, f = _above_one(special.replaced(0.0, x), special.replaced(1.0, above))
    return rarely("log1p", special, _natural_single(k.counted(), f).signed(x),
                  lambda y: widened(_log1p_anywhere, y), x)


def log1p_within(x: Real, short: bool) -> Real:
    """Return log(1 + x) for -1 < x < LARGE."""
    return _log1p(x, x + 1.0, short)


def _log1p(x: Real, above: Real, short: bool) -> Real:
    k, f = _above_one(x, above)
    turns = k.counted()
    if short:
        return fma(turns, LN2, _shortly(f)).signed(x)
    s = f / (f + 2.0)
    square = s.squared()
    # no product of tiny numbers stands alone, where it could underflow
    inner = fma(s, fma(square, horner(LOG, square), -f), fma(turns, LN2_SHORT_REST, f))
    return fma(turns, LN2_SHORT, inner).signed(x)


def _above_one(x: Real, above: Real) -> tuple[Whole, Real]:
    """Return k and f of 1 + x, including the rounding error of that sum."""
    mantissa, one = x.format.mantissa, x.format.bits(1.0)
    raw, root = above.whole(), x.format.bits(0.5 ** 0.5)
    scale = ((one + root + (1 << mantissa) - 1 - raw) & -(1 << mantissa)).real()  # 2^-k
    return raw - root >> mantissa, fma(x - (above - 1.0), scale, fma(above, scale, -1.0))


def _log1p_anywhere(x: Real) -> Real:
    """Return log(1 + x) where 1 + x rounds to x, or has no logarithm."""
    return _anywhere(x + 1.0, natural)


def log_anywhere(x: Real) -> Real:
    return _anywhere(x, natural)


def _positive(name: str, x: Real, binade: Binade, short: bool) -> Real:
    special, k, m = _ordinary(x)
    return rarely(name, special, binade(k, m - 1.0, short), lambda y: _anywhere(y, binade), x)


def _positive_single(name: str, x: Real, quick: Callable[[Real, Real], Real], binade: Binade) -> Real:
    special, k, m = _ordinary(x)
    return rarely(name, special, quick(k.counted(), m - 1.0),
                  lambda y: widened(lambda z: _anywhere(z, binade), y), x)


def _ordinary(x: Real) -> tuple[Truth, Whole, Real]:
    """Return which lanes are not positive normal numbers, and k and m of the others.

    Any bits give numbers k and m of these ranges, so that the special lanes raise no flag.
    """
    raw, least = x.whole(), x.format.bits(x.format.least)
    return (raw - least).is_("uge", x.format.bits(INFINITY) - least), *taken_apart(raw)


def _anywhere(x: Real, binade: Binade) -> Real:
    """Return a logarithm of any operand."""
    size = x.size()
    zero, small = size.is_("eq", 0), size.is_("ult", LEAST)
    invalid = x.negative() & ~zero & ~x.nan()
    lifted = small.choose(abs(x) * 2.0 ** 54, x).whole()
    k, m = taken_apart((invalid | zero | beyond(size, LAST)).pick(bits(1.0), lifted))
    found = binade(k - small.pick(54, 0), m - 1.0, False)
    found = beyond(size, LAST).choose(x, found)
    found = zero.choose(-raises_divide(zero), found)
    return invalid.choose(raises_invalid(invalid), found)


def taken_apart(raw: Whole) -> tuple[Whole, Real]:
    """Return k and m of a positive normal number 2^k m by its bits, with sqrt 1/2 <= m < sqrt 2."""
    mantissa, root = raw.format.mantissa, raw.format.bits(0.5 ** 0.5)
    past = raw - root
    return past >> mantissa, ((past & ((1 << mantissa) - 1)) + root).real()


def natural(k: Whole, f: Real, short: bool) -> Real:
    turns = k.counted()
    if short:
        return fma(turns, LN2, _shortly(f))
    half, inner = _halves(f, *_quotient(f))
    inner = fma(turns, LN2_SHORT_REST, inner)
    return turns * LN2_SHORT - ((half - inner) - f)


def _binary(k: Whole, f: Real, short: bool) -> Real:
    return fma(_one(f, short), LOG2E, k.counted())


def _decimal(k: Whole, f: Real, short: bool) -> Real:
    turns = k.counted()
    if short:
        return fma(_one(f, short), LOG10E, turns * LOG10_2)
    return fma(turns, LOG10_2, _one(f, short) * LOG10E)


def _one(f: Real, short: bool) -> Real:
    """Return log(1 + f)."""
    if short:
        return _shortly(f)
    s, square = _quotient(f)
    return fma(s, fma(square, horner(LOG, square), -f), f)


def _quotient(f: Real) -> tuple[Real, Real]:
    """Return s and its square."""
    s = (f + 2.0).into(f)
    return s, s * s


def _halves(f: Real, s: Real, square: Real) -> tuple[Real, Real]:
    """Return a and b of log(1 + f) = f - (a - b)."""
    rest = square * horner(LOG, square)
    half = f * f * 0.5
    return half, s * (half + rest)


def _shortly(f: Real) -> Real:
    """Return log(1 + f) for results of 24 bits."""
    return fma(f * paired(LOG_SINGLE if f.dtype == SINGLE else LOG_SHORT, f), f, f)
