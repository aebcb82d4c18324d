"""pow, from a logarithm of twice the usual precision; cbrt and hypot.

x^y = e^(y log x).  An error of log x grows with y log x, which reaches 700, so log x is a sum of two floats
with a relative error of 2^-66.
"""

from __future__ import annotations

from diffuse.kernels.llvm.math.branches import rarely
from diffuse.kernels.llvm.math.exponential import exp_of_sum, exp_of_sum_anywhere, exp_within
from diffuse.kernels.llvm.math.logarithm import LEAST
from diffuse.kernels.llvm.math.precise_logarithm import logarithm_pair, logarithm_shortly
from diffuse.kernels.llvm.math.values import (
    FLOAT,
    INFINITY,
    LAST,
    MANTISSA,
    SINGLE,
    Real,
    Truth,
    Whole,
    beyond,
    bits,
    by_size,
    either_nan,
    fma,
    horner,
    outside,
    paired,
    raises_divide,
    raises_invalid,
    widened,
)

CBRT = (0.999577915831299, 0.328160697046994, 0.19605423259577814, 0.10168865997674811, 0.028487213577221348)
"""(1 - h)^(-1/3) for -0.58 <= h <= -0.333, with a relative error of 2^-24.7."""
CBRT_SINGLE = (0.998432664552528, 0.31773187075911746, 0.16090185514989377, 0.04969439546257004)
"""The same for float32 arithmetic, with an error of 2^-20."""
ROOT = (1.0000000009333283, 0.5000000028692838, 0.3749966980307978, 0.31249535789007876, 0.2751666154564314,
        0.24794745068400237)
"""(1 - h)^(-1/2) for |h| <= 0.0713, with a relative error of 2^-29.9."""
ROOT_BITS = 0x5FE6E90000000000
"""Half of the bits of y, subtracted from this, are an estimate r of y^(-1/2), with |1 - y r^2| < 0.0682."""
CBRT_BITS = 0.111
"""Added to the inverse cube root that is taken from the bits, in powers of two: h then has the least span."""


def pow(x: Real, y: Real, short: bool) -> Real:
    raw = x.whole()
    special = (raw - LEAST).is_("uge", bits(INFINITY) - LEAST) | outside(y.size(), 2.0 ** -900, 2.0 ** 900)
    harmless, exponent = special.pick(bits(1.0), raw), special.replaced(1.0, y)
    if short:
        product = exponent * logarithm_shortly(harmless)
        special = special | beyond(product.size(), 707.0)
        found = exp_within(special.replaced(0.0, product), short)
    else:
        product, rest = _times(exponent, harmless)
        special = special | beyond(product.size(), 707.0)
        found = exp_of_sum(special.replaced(0.0, product), special.replaced(0.0, rest), short)
    return rarely("pow", special, found, pow_anywhere, x, y)


def pow_single(x: Real, y: Real) -> Real:
    raw, form = x.whole(), x.format
    least, endless = form.bits(form.least), form.bits(INFINITY)
    special = (raw - least).is_("uge", endless - least) | y.size().is_("uge", endless)
    base, exponent = (special.replaced(1.0, v).to(FLOAT) for v in (x, y))
    product = exponent * logarithm_shortly(base.whole())
    far = beyond(product.size(), 707.0)
    found = exp_within(far.replaced(0.0, product), short=True).to(SINGLE)
    return rarely("pow", special | far, found, lambda *both: widened(pow_anywhere, *both), x, y)


def _times(y: Real, raw: Whole) -> tuple[Real, Real]:
    """Return y log x as a sum of two floats, where x is a positive normal number given by its bits."""
    high, low = logarithm_pair(raw)
    product = y * high
    rest = fma(y, low, fma(y, high, -product))
    found = product + rest
    return found, (product - found) + rest


def pow_anywhere(x: Real, y: Real) -> Real:
    """Return x^y for any operands, as annex F of C99 says."""
    size, exponent = x.size(), y.size()
    zero, endless = size.is_("eq", 0), size.is_("eq", bits(INFINITY))
    unknown = x.nan() | y.nan()
    whole = _is_whole(y) | beyond(exponent, 2.0 ** 52)
    half = exponent.is_("ult", bits(1.0)).replaced(1.0, y) * 0.5
    odd = _is_whole(y) & ~_is_whole(half) & ~beyond(exponent, 2.0 ** 53)
    ordinary = ~(zero | endless | unknown | exponent.is_("eq", bits(INFINITY)))
    invalid = x.negative() & ordinary & ~whole
    found = _magnitude(x, y, ordinary & ~invalid)
    falls = y.negative()
    divides = zero & falls & exponent.is_("ne", 0) & ~beyond(exponent, LAST)
    edge = falls.choose(endless.choose(0.0, INFINITY), endless.choose(INFINITY, 0.0))
    edge = divides.choose(raises_divide(divides), edge)
    found = (zero | endless).choose(edge, found)
    above = beyond(size, 1.0)
    far = size.is_("eq", bits(1.0)).choose(1.0, ((above & ~falls) | (~above & falls)).choose(INFINITY, 0.0))
    found = exponent.is_("eq", bits(INFINITY)).choose(far, found)
    found = (odd & x.negative()).choose(-found, found)
    found = invalid.choose(raises_invalid(invalid), found)
    found = unknown.choose(either_nan(unknown, x, y), found)
    return (exponent.is_("eq", 0) | x.whole().is_("eq", bits(1.0))).choose(1.0, found)


def _magnitude(x: Real, y: Real, ordinary: Truth) -> Real:
    """Return |x|^y, which may overflow or underflow, where both are ordinary numbers; 1 elsewhere."""
    small = x.size().is_("ult", LEAST)
    base = ordinary.choose(abs(x), 1.0)
    raw = small.choose(base * 2.0 ** 54, base).whole() - (small & ordinary).pick(54 << MANTISSA, 0)
    moderate = beyond(y.size(), 2.0 ** 70).choose(y.of(2.0 ** 70).signed(y), y)
    tiny = ~beyond(y.size(), 2.0 ** -200)
    moderate = (tiny | ~ordinary).choose(0.0, moderate)
    product, rest = _times(moderate, raw)
    far = beyond(product.size(), 1000.0)
    return exp_of_sum_anywhere(far.choose(x.of(1000.0).signed(product), product), far.choose(0.0, rest))


def _is_whole(x: Real) -> Truth:
    return x.intrinsic("llvm.rint").equals(x)


def cbrt(x: Real, short: bool) -> Real:
    special, size = _cbrt_size(x)
    return rarely("cbrt", special, _third(size, x), _cbrt_anywhere, x)


def cbrt_single(x: Real) -> Real:
    special, size = _cbrt_size(x)
    return rarely("cbrt", special, _third(size, x), lambda y: widened(_cbrt_anywhere, y), x)


def _cbrt_size(x: Real) -> tuple[Truth, Whole]:
    """Return which lanes are no normal numbers, and the magnitudes of the others."""
    size, least = x.size(), x.format.bits(x.format.least)
    special = (size - least).is_("uge", x.format.bits(INFINITY) - least)
    return special, special.pick(x.format.bits(1.0), size)


def _third(size: Whole, x: Real) -> Real:
    """Return the cube root of a normal number, given by its magnitude y and the sign of x.

    The bits of y, as an integer, are nearly a logarithm: -1/3 of them, with a constant added, are an estimate
    of y^(-1/3) within 10 %.  A polynomial makes it r, good to half of the bits, and c = y r^2 is corrected by
    the rest of its cube, D = 1 - c^3 / y.
    """
    single, y = x.dtype == SINGLE, size.real()
    r = _inverse_third(size)
    h = fma(-(y * r), r * r, 1.0)
    r = r * horner(CBRT_SINGLE if single else CBRT, h)
    square = r * r
    c = y * square
    rest = fma(-(c * c), square, 1.0)
    return fma(c * rest, 1 / 3 if single else fma(rest, 2 / 9, 1 / 3), c).signed(x)


def _inverse_third(size: Whole) -> Real:
    """Return an estimate of y^(-1/3) by the bits of y: their upper half is divided as a float."""
    form = size.format
    spare = 32 if form.mantissa == MANTISSA else 10
    one = form.bits(1.0) >> form.mantissa
    bias = round((CBRT_BITS + one * 4 / 3) * 2.0 ** (form.mantissa - spare))
    upper = ((size >> spare) + form.bits(form.shift)).real()
    return (fma(upper, -1 / 3, form.shift * 4 / 3 + bias).whole() << spare).real()


def _cbrt_anywhere(x: Real) -> Real:
    """Return the cube root of zero, infinity, NaN or a subnormal number."""
    plain = x.equals(0.0) | beyond(x.size(), LAST)
    lifted = plain.choose(1.0, abs(x) * 2.0 ** 54)
    return plain.choose(x, _third(lifted.size(), x) * 2.0 ** -18)


def hypot(x: Real, y: Real, short: bool) -> Real:
    most, least = by_size(x, y)
    special = (most - bits(2.0 ** -400)).is_("ugt", bits(2.0 ** 500) - bits(2.0 ** -400)) & most.is_("ne", 0)
    a, b = (special.replaced(1.0, v.real()) for v in (most, least))
    return rarely("hypot", special, _root_of_squares(a, b), _hypot_anywhere, x, y)


def hypot_single(x: Real, y: Real) -> Real:
    most, _ = by_size(x, y)
    low, high = (x.format.bits(limit) for limit in (2.0 ** -40, 2.0 ** 60))
    special = (most - low).is_("ugt", high - low) & most.is_("ne", 0)
    a, b = (special.replaced(1.0, v) for v in (x, y))
    return rarely("hypot", special, _root_of_squares_single(a, b, special.replaced(1.0, most.real())),
                  lambda *both: widened(_hypot_anywhere, *both), x, y)


def _root_of_squares_single(a: Real, b: Real, most: Real) -> Real:
    tiny = most * 2.0 ** -80
    return (fma(a, a, tiny) + fma(b, b, tiny)).root()


def _root_of_squares(a: Real, b: Real) -> Real:
    """Return sqrt(a^2 + b^2), a >= b; what is added to b^2 keeps it from underflowing and is lost in a^2."""
    return _root(fma(a, a, fma(b, b, a * 2.0 ** -560)))


def _root(y: Real) -> Real:
    """Return the square root of zero or a normal float64, by multiplications, where a root of as many lanes
    takes longer.

    A polynomial makes the estimate r good to half of the bits, and c = y r is corrected by the rest of its
    square, y - c^2.  Before it is rounded, the result has a relative error of 2^-59.
    """
    r = (ROOT_BITS - (y.whole() >> 1)).real()
    r = r * paired(ROOT, fma(-(y * r), r, 1.0))
    c = y * r
    return fma(fma(-c, c, y), r * 0.5, c)


def _hypot_anywhere(x: Real, y: Real) -> Real:
    most, least = by_size(x, y)
    endless = x.infinite() | y.infinite()
    unknown = x.nan() | y.nan()
    large, small = beyond(most, 2.0 ** 500), ~beyond(most, 2.0 ** -400)
    scale = large.choose(2.0 ** -600, small.choose(2.0 ** 600, 1.0))
    back = large.choose(2.0 ** 600, small.choose(2.0 ** -600, 1.0))
    numbers = ~(endless | unknown)
    swallowed = (most - least).is_("sgt", 100 << MANTISSA)
    a = numbers.choose(most.real() * scale, 1.0)
    b = (numbers & ~swallowed).choose(least.real(), 0.0) * scale
    found = unknown.choose(either_nan(unknown, x, y), fma(a, a, b * b).root() * back)
    return endless.choose(INFINITY, found)
