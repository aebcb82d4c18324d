"""exp, sinh, cosh and tanh of complex numbers, with annex G's results at infinities and NaN.

sinh(a + ib) = sinh a cos b + i cosh a sin b, and cosh the other way round; sin, cos and tan are those of
turned numbers.
Each part is a product of functions of real numbers, so that each has the precision of a float64.
"""

from __future__ import annotations

import math

from diffuse.kernels.llvm.math.branches import Pair, cases, rarely_pair
from diffuse.kernels.llvm.math.exponential import LARGEST, exp_within, expm1_within, power_of_sum
from diffuse.kernels.llvm.math.trigonometric import (
    REACH,
    sine_and_cosine_anywhere,
    sine_and_cosine_near,
)
from diffuse.kernels.llvm.math.values import (
    INFINITY,
    LAST,
    Real,
    Truth,
    Whole,
    beyond,
    fma,
    paired,
    raises_invalid,
)

FLAT = 22.0
"""|tanh a| rounds to 1 from here on."""
SINH = tuple(1 / math.factorial(2 * k + 3) for k in range(8))
"""(sinh a - a) / a^3 in a^2, for |a| <= 1: sinh a has a relative error of 2^-56."""
FARTHEST = 2200.0
"""From here on e^a times the sine of any float64 overflows or underflows."""


def exp(a: Real, b: Real, short: bool) -> Pair:
    special = beyond(a.size(), LARGEST) | beyond(b.size(), REACH["float64"])
    size = exp_within(special.replaced(1.0, a), short)
    sine, cosine = _turned(special, b, short)
    return rarely_pair("cexp", special, (size * cosine, size * sine), exp_anywhere, a, b)


def sinh(a: Real, b: Real, short: bool) -> Pair:
    special, (low, high), (sine, cosine) = _hyperbolic(a, b, LARGEST, short)
    return rarely_pair("csinh", special, (low * cosine, high * sine), _sinh_anywhere, a, b)


def cosh(a: Real, b: Real, short: bool) -> Pair:
    special, (low, high), (sine, cosine) = _hyperbolic(a, b, LARGEST, short)
    return rarely_pair("ccosh", special, (high * cosine, low * sine), _cosh_anywhere, a, b)


def tanh(a: Real, b: Real, short: bool) -> Pair:
    special, lengths, turned = _hyperbolic(a, b, FLAT, short)
    return rarely_pair("ctanh", special, _tanh(lengths, turned), _tanh_anywhere, a, b)


def _turned(special: Truth, b: Real, short: bool) -> Pair:
    """Return the sine and the cosine in the lanes that are not special."""
    return sine_and_cosine_near(special.replaced(0.0, b), short)


def _hyperbolic(a: Real, b: Real, most: float, short: bool) -> tuple[Truth, Pair, Pair]:
    """Return the lanes out of reach, and of the others sinh a and cosh a, sin b and cos b."""
    special = beyond(a.size(), most) | beyond(b.size(), REACH["float64"])
    return special, _low_and_high(special.replaced(1.0, a), short), _turned(special, b, short)


def _low_and_high(a: Real, short: bool) -> Pair:
    """Return sinh a and cosh a for magnitudes up to LARGEST."""
    more, square = expm1_within(abs(a), short), a.squared()
    above = more + 1.0
    small = fma(square * a, paired(SINH, square), a)
    low = beyond(a.size(), 1.0).choose((more + more / above) * 0.5, small)
    return low.signed(a), above * 0.5 + 0.5 / above


def _tanh(lengths: Pair, turned: Pair) -> Pair:
    (low, high), (sine, cosine) = lengths, turned
    below = fma(low, low, cosine * cosine)
    return low * high / below, sine * cosine / below


# -- operands of any size, in code of one lane ----------------------------------------------------------

def _finite(x: Real) -> Truth:
    return ~beyond(x.size(), LAST)


def _zero(x: Real) -> Truth:
    return x.size().is_("eq", 0)


def _raised(x: Real, n: Whole) -> Real:
    """Multiply by 2^n, |n| <= 4000, by products that overflow and underflow as the result does."""
    quarter = n >> 2
    step = quarter.power_of_two()
    return x * step * step * step * (n - quarter - quarter - quarter).power_of_two()


def _scaled(a: Real, doublings: int, *parts: Real) -> list[Real]:
    """Return e^a 2^doublings times each part; a subnormal part is lifted before e^a rounds it."""
    near = beyond(a.size(), FARTHEST).choose(a.of(FARTHEST).signed(a), a)
    n, power = power_of_sum(near, 0.0, short=False)
    lift, lifted = a.negative().choose(a.of(1.0), 2.0 ** 256), a.negative().pick(n & 0, 256)
    return [_raised(power * (part * lift), (n << 32 >> 32) + doublings - lifted) for part in parts]


def exp_anywhere(a: Real, b: Real) -> Pair:
    def ordinary() -> Pair:
        sine, cosine = sine_and_cosine_anywhere(b)
        first, second = _scaled(a, 0, cosine, sine)
        return first, _zero(b).choose(b, second)

    def endless() -> Pair:
        size = a.negative().choose(a.of(0.0), INFINITY)
        return cases((_zero(b), lambda: (size, b)), (_finite(b), lambda: _along(size, b)),
                     (a.negative(), lambda: (size, size.signed(b))), otherwise=lambda: (size, b - b))

    def unknown() -> Pair:
        return cases((_zero(b), lambda: (a, b)), (a.nan() & b.nan(), lambda: (a, b)),
                     otherwise=lambda: (_invalid(a), _invalid(a)))

    return cases((_finite(a) & _finite(b), ordinary), (a.infinite(), endless), otherwise=unknown)


def _invalid(x: Real) -> Real:
    return raises_invalid(Truth(x.code, "true"))


def _along(size: Real, b: Real) -> Pair:
    """Return a size with the signs of cos b and sin b."""
    sine, cosine = sine_and_cosine_anywhere(b)
    return size.signed(cosine), size.signed(sine)


def _of_nan(a: Real, b: Real) -> Pair:
    """Return sinh or cosh of a NaN and b: an imaginary part that is zero stays."""
    return _zero(b).choose(a, a + b), _zero(b).choose(b, a + b)


def _sinh_anywhere(a: Real, b: Real) -> Pair:
    def far() -> Pair:
        sine, cosine = sine_and_cosine_anywhere(b)
        first, second = _scaled(abs(a), -1, cosine, sine)
        return a.negative().choose(-first, first), _zero(b).choose(b, second)

    def near() -> Pair:
        (low, high), (sine, cosine) = _low_and_high(a, short=False), sine_and_cosine_anywhere(b)
        return low * cosine, high * sine

    def endless() -> Pair:
        def turned() -> Pair:
            first, second = _along(a.of(INFINITY), b)
            return a.negative().choose(-first, first), second
        return cases((_zero(b), lambda: (a, b)), (_finite(b), turned), otherwise=lambda: (abs(a), b - b))

    return cases((_finite(a) & _finite(b) & beyond(a.size(), LARGEST), far), (_finite(a) & _finite(b), near),
                 (a.infinite(), endless), (a.nan(), lambda: _of_nan(a, b)), (_zero(a), lambda: (a, b - b)),
                 otherwise=lambda: (_invalid(a), _invalid(a)))


def _cosh_anywhere(a: Real, b: Real) -> Pair:
    def far() -> Pair:
        sine, cosine = sine_and_cosine_anywhere(b)
        first, second = _scaled(abs(a), -1, cosine, sine)
        second = _zero(b).choose(b, second)
        return first, a.negative().choose(-second, second)

    def near() -> Pair:
        (low, high), (sine, cosine) = _low_and_high(a, short=False), sine_and_cosine_anywhere(b)
        return high * cosine, low * sine

    def endless() -> Pair:
        def turned() -> Pair:
            first, second = _along(a.of(INFINITY), b)
            return first, a.negative().choose(-second, second)
        zero = a.negative().choose(-b, b)
        return cases((_zero(b), lambda: (abs(a), zero)), (_finite(b), turned),
                     otherwise=lambda: (abs(a), b - b))

    return cases((_finite(a) & _finite(b) & beyond(a.size(), LARGEST), far), (_finite(a) & _finite(b), near),
                 (a.infinite(), endless), (a.nan(), lambda: _of_nan(a, b)),
                 (_zero(a), lambda: (b - b, a.of(0.0))),
                 otherwise=lambda: (b - b, b - b))


def _tanh_anywhere(a: Real, b: Real) -> Pair:
    def far() -> Pair:
        sine, cosine = sine_and_cosine_anywhere(b)
        near = beyond(a.size(), FARTHEST).choose(a.of(FARTHEST), abs(a))
        (second,) = _scaled(near * -2.0, 2, sine * cosine)
        return a.of(1.0).signed(a), _zero(b).choose(b, second)

    def near() -> Pair:
        return _tanh(_low_and_high(a, short=False), sine_and_cosine_anywhere(b))

    def endless() -> Pair:
        def turned() -> Pair:
            sine, cosine = sine_and_cosine_anywhere(b)
            return a.of(1.0).signed(a), a.of(0.0).signed(sine * cosine)
        return cases((_finite(b) & beyond(b.size(), 1.0), turned),
                     otherwise=lambda: (a.of(1.0).signed(a), a.of(0.0).signed(b)))

    def unknown() -> Pair:
        return cases((_zero(b), lambda: (a, b)), (b.infinite(), lambda: (b - b, b - b)),
                     otherwise=lambda: (a + b, a + b))

    return cases((_finite(a) & _finite(b) & beyond(a.size(), FLAT), far), (_finite(a) & _finite(b), near),
                 (a.infinite(), endless), (a.nan(), unknown), (_zero(a), lambda: (a, b - b)),
                 otherwise=lambda: (b - b, b - b))
