"""log and pow of complex numbers, with annex G's results at infinities and NaN.

log z = log(a^2 + b^2) / 2 + i atan2(b, a).  Where the sum of squares is near 1 its distance from 1 is
computed from both squares and their rounding errors, so that the logarithm is as precise there.
"""

from __future__ import annotations

import math

from diffuse.kernels.llvm.math import inverse_trigonometric
from diffuse.kernels.llvm.math.branches import Pair, alone, cases, rarely_pair
from diffuse.kernels.llvm.math.complex_exponential import exp
from diffuse.kernels.llvm.math.logarithm import log_anywhere, natural, taken_apart
from diffuse.kernels.llvm.math.values import (
    FLOAT,
    INFINITY,
    Real,
    beyond,
    bits,
    by_size,
    fma,
    outside,
    raises_divide,
)

LARGE, TINY = 2.0 ** 500, 2.0 ** -200
"""The larger part's bound, and the smaller one's if it is not zero."""


def log(a: Real, b: Real, short: bool) -> Pair:
    most, least = by_size(a, b)
    special = outside(most, 1 / LARGE, LARGE) | (least - 1).is_("ult", bits(TINY) - 1)
    x, y = special.replaced(2.0, most.real()), special.replaced(1.0, least.real())
    angle = inverse_trigonometric.atan2(special.replaced(1.0, b), special.replaced(1.0, a), short)
    return rarely_pair("clog", special, (_half_logarithm(x, y), angle), log_anywhere_complex, a, b)


def _half_logarithm(x: Real, y: Real) -> Real:
    """Return log(x^2 + y^2) / 2 for moderate numbers x >= y >= 0."""
    xx, yy = x * x, y * y
    xl, yl = fma(x, x, -xx), fma(y, y, -yy)
    total = xx + yy
    total_rest = ((xx - total) + yy) + (xl + yl)
    k, m = taken_apart(total.whole())
    near = k.is_("eq", 0)
    far = fma(total_rest, (-k).power_of_two(), m - 1.0)
    first, lost = _sum(xx, x.of(-1.0))
    high, low = _sum(first, yy)
    small, smaller = _sum(xl, yl)
    high, more = _sum(high, lost + low)
    high, last = _sum(high, small)
    return natural(k, near.choose(high + (more + (last + smaller)), far), short=False) * 0.5


def _sum(a: Real, b: Real) -> Pair:
    """Return a + b and its rounding error."""
    found = a + b
    part = found - a
    return found, (a - (found - part)) + (b - part)


def log_anywhere_complex(a: Real, b: Real) -> Pair:
    """Return the logarithm of any number, in code of one lane."""
    most, least = by_size(a, b)
    x, y = most.real(), least.real()
    either = a.infinite() | b.infinite()

    def turned(size: Real) -> Pair:
        return size, inverse_trigonometric.atan2(b, a, short=False)

    def unit() -> Pair:
        return turned(y * y * 0.5)

    def finite() -> Pair:
        large, small = beyond(most, LARGE), ~beyond(most, 1 / LARGE)
        scale = large.choose(2.0 ** -600, small.choose(2.0 ** 600, 1.0)).settled()
        shift = large.choose(600 * math.log(2.0), small.choose(-600 * math.log(2.0), 0.0))
        up, down = x * scale, y * scale
        swallowed = down.size().is_("ult", (up * 2.0 ** -60).size())
        beside = swallowed.choose(0.0, down)
        found = swallowed.choose(log_anywhere(up), log_anywhere(fma(up, up, beside * beside)) * 0.5)
        return turned(found + shift)

    zero = most.is_("eq", 0)
    return cases((zero, lambda: turned(-raises_divide(zero))),
                 (a.nan() | b.nan(), lambda: (either.choose(INFINITY, a + b), a + b)),
                 (either, lambda: turned(a.of(INFINITY))),
                 (x.equals(1.0), unit), otherwise=finite)


def pow(a: Real, b: Real, c: Real, d: Real) -> Pair:
    """Return e^((c + id) log(a + ib)), in code of one lane; the product has the format of the operands."""
    logarithm = log(a.to(FLOAT), b.to(FLOAT), short=False)
    x, y = alone("product", _product, *[part.to(a.dtype) for part in logarithm], c, d)
    first, second = exp(x.to(FLOAT), y.to(FLOAT), short=False)
    return first.to(a.dtype), second.to(a.dtype)


def _product(a: Real, b: Real, c: Real, d: Real) -> Pair:
    """Multiply as annex G says: an infinity times a number that is not zero is infinite, beside NaN, too."""
    ac, bd, ad, bc = a * c, b * d, a * d, b * c
    found = ac - bd, ad + bc

    def direction(x: Real, y: Real) -> Pair:
        """Return the signs of the parts that are infinite."""
        return x.infinite().choose(x.of(1.0), 0.0).signed(x), y.infinite().choose(y.of(1.0), 0.0).signed(y)

    def known(x: Real) -> Real:
        return x.nan().choose(x.of(0.0).signed(x), x)

    def recovered(x: Pair, y: Pair) -> Pair:
        (p, q), (r, s) = x, y
        return (p * r - q * s) * INFINITY, (p * s + q * r) * INFINITY

    first, second = a.infinite() | b.infinite(), c.infinite() | d.infinite()
    products = ac.infinite() | bd.infinite() | ad.infinite() | bc.infinite()
    unknown = found[0].nan() & found[1].nan()

    def both() -> Pair:
        x, y = direction(a, b), direction(c, d)
        left = first.choose(x[0], known(a)), first.choose(x[1], known(b))
        right = second.choose(y[0], known(c)), second.choose(y[1], known(d))
        return recovered(left, right)

    return cases((unknown & (first | second | products), both), otherwise=lambda: found)
