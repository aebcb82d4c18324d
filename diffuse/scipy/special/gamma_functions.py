"""The gamma function, its logarithm, its logarithmic derivative and its sign, of real arguments.

Positive arguments: polynomials up to 4 or 8, Stirling's series beyond.  Negative ones: the reflection
formula, NIST Digital Library of Mathematical Functions 5.5.3 and 5.5.4.

The reflection formula is a difference, whose error of some 1e-16 is large beside a value near zero.  So
digamma has a polynomial of its own around its first root below zero, and gammaln around its first two, -2.457
and -2.748; further below the error near a root is that of the difference, as in SciPy.
"""

from __future__ import annotations

import math

from diffuse.scipy.special import coefficients as c
from diffuse.scipy.special.terms import Term, choose, copysign, formula, polynomial

LARGEST = 171.6243769563027
"""Beyond it the gamma function is infinite."""
LEAST = 5.56268464626801e-309
"""Below it 1 / x is infinite."""
LARGEST_LOG = 2.556348e305
"""Beyond it SciPy's log gamma is infinite."""
WHOLE = 1e18
"""Numbers beyond 2^52 are whole; beyond this one they are replaced."""


class Around:
    """The position of an argument between whole numbers."""

    def __init__(self, size: Term) -> None:
        """`size` >= 0; what is not finite counts as a whole number."""
        self.size = choose(size < WHOLE, size, 2.0)
        nearest = self.size.apply("rint")
        rest = self.size - nearest
        half = nearest * 0.5
        odd = half.differs(half.apply("floor"))
        self.whole = rest.equals(0.0)
        self.rest = choose(self.whole, 0.5, rest)
        """Distance from the nearest whole number; one half for whole numbers, so that nothing is infinite."""
        self.sine = sine(self.rest)
        self.signed = choose(odd, -self.sine, self.sine)
        """sin(pi size)."""


def sine(r: Term) -> Term:
    """sin(pi r) for |r| <= 1/2."""
    return r * math.pi * polynomial(r * r, (c.SIN_PI, None))


def positive(size: Term) -> Term:
    """gamma for 1e-308 < size < 172."""
    near = size < 4.0
    a = choose(near, size, 2.0)
    k = a.apply("floor")
    base = polynomial(a - k - 0.5, (c.GAMMA, None))
    one, two = a - 1.0, (a - 1.0) * (a - 2.0)
    rising = choose(k < 2.0, 1.0, choose(k < 3.0, one, two))
    low = base * rising / choose(k < 1.0, a, 1.0)
    y = choose(near, 4.0, size)
    w = 1.0 / y
    series = c.ROOT_TWO_PI + (c.ROOT_TWO_PI_REST + w * polynomial(w, (c.GAMMA_FAR, None)))
    high = y > 140.0  # the power alone overflows there: use y / 4, and multiply by 2^(2 y - 1) afterwards
    power = choose(high, y * 0.25, y).apply("power", y - 0.5) * (-y).apply("exp")
    found = power * series * choose(high, 2.0 * y - 1.0, 0.0).apply("exp2")
    found = choose(near, low, found)
    exact = (size <= 18.0) & size.equals(size.apply("floor"))  # factorials
    return choose(exact, found.apply("rint"), found)


@formula("gamma")
def gamma(x: Term) -> Term:
    size = abs(x)
    over, tiny = size > LARGEST, size < LEAST
    value = positive(choose(over | tiny, 1.0, size))
    above = choose(over, math.inf, choose(tiny, math.inf, value))
    place = Around(size)
    near = size < 4.0
    safe = choose(over | tiny, 1.0, size)
    quotient = -math.pi / (place.signed * choose(near, safe * value, place.size))
    below = choose(over, copysign(0.0, quotient), quotient / choose(near | over, 1.0, value))
    below = choose(place.whole, math.nan, below)
    negative = x <= -LEAST
    return choose(x.unknown, x, choose(negative, below, choose(tiny, copysign(math.inf, x), above)))


class LogGamma:
    """log gamma of a positive argument.  `near` is (condition, argument, coefficients): where the condition
    holds, that polynomial replaces the usual one, so that one evaluation serves all."""

    def __init__(self, size: Term, near: tuple[Term, Term, tuple[float, ...]] | None = None) -> None:
        self.tiny = size < 0.5
        far = size >= 8.0
        y = choose(far, size, 8.0).below(LARGEST_LOG)
        w = 1.0 / y
        high = (y - 0.5) * (y.apply("log") - 1.0) + 0.4189385332046727
        high = high + w * polynomial(w * w, (c.LOG_GAMMA_FAR, None))
        a = choose(far, 1.0, size)
        z = choose(self.tiny, a + 1.0, a)
        low = z < 2.0
        centre = choose(low, 1.0, 4.0)
        t = (z - centre) / (z + centre)
        own = (c.LOG_GAMMA_LOW, low), (c.LOG_GAMMA_HIGH, None)
        if near is None:
            ratio = polynomial(t, *own)
        else:
            ratio = polynomial(choose(near[0], near[1], t), (near[2], near[0]), *own)
        self.ratio = ratio
        one, two = choose(self.tiny, a, z - 1.0), choose(self.tiny, a - 1.0, z - 2.0)
        self.shifted = choose(far, high, one * two * ratio + 0.0)  # no negative zero
        """The logarithm for `size`, or for `size + 1` if that is below 1/2."""
        logarithm = choose(self.tiny & (size > 0.0), size, 1.0).apply("log")
        whole = self.shifted - logarithm
        self.value = choose(size.equals(0.0) | (size > LARGEST_LOG), math.inf, whole)


@formula("gammaln")
def gammaln(x: Term) -> Term:
    """log |gamma(x)|."""
    size = abs(x)
    u = x + 2.5
    near = abs(u) < 0.4
    found = LogGamma(size, (near, u, c.GAMMA_EXCESS))
    place = Around(size)
    product = abs(place.sine) * choose(found.tiny, 1.0, place.size) * (1.0 / math.pi)
    y = choose(near, x, -2.5)
    excess = found.ratio
    for root, rest in c.LOG_GAMMA_ROOTS:
        excess = excess * (y - root - rest)
    excess = excess / (-y * (y + 1.0) * (y + 2.0) * (y + 3.0))  # |gamma| - 1
    value = 1.0 + excess
    logarithm = choose(near, value, product).apply("log")
    rounded = value - 1.0  # log(1 + e) = e log(v) / (v - 1) for the v that 1 + e is rounded to
    same = rounded.equals(0.0)
    around = choose(same, excess, logarithm * (excess / choose(same, 1.0, rounded)))
    below = choose(near, around, choose(place.whole, math.inf, -logarithm - found.shifted))
    value = choose(x < 0.0, below, found.value)
    return choose(x.unknown, x, choose(x.equals(-math.inf), x, value))


@formula("loggamma")
def loggamma(x: Term) -> Term:
    """The real logarithm: NaN for negative arguments."""
    negative = x < 0.0
    found = LogGamma(choose(negative, 1.0, x)).value
    return choose(x.unknown, x, choose(negative, math.nan, found))


@formula("digamma")
def digamma(x: Term) -> Term:
    size = abs(x)
    small, far = size < 0.5, size >= 8.0
    y = choose(far, size, 8.0)
    w = 1.0 / y
    square = w * w
    high = y.apply("log") - 0.5 * w + square * polynomial(square, (c.PSI_FAR, None))
    a = choose(far, 1.0, size)
    z = choose(small, a + 1.0, a)
    low = z < 2.0
    centre = choose(low, 1.0, 4.0)
    middle = x + 0.5
    between = abs(middle) < 0.3
    t = choose(between, middle, (z - centre) / (z + centre))
    slope = polynomial(t, (c.PSI_BETWEEN, between), (c.PSI_LOW, low), (c.PSI_HIGH, None))
    value = choose(far, high, (z - c.PSI_ROOT - c.PSI_ROOT_REST) * slope)
    y = choose(between, x, -0.5)
    near = (y - c.PSI_BELOW - c.PSI_BELOW_REST) * slope / (y * (y + 1.0))
    pole = size < LEAST
    inverse = 1.0 / choose(size < 5.6e-309, 5.6e-309, size)
    above = choose(small, value - inverse, value)
    place = Around(size)
    cosine = sine(0.5 - abs(place.rest))
    cotangent = math.pi * cosine / place.sine
    below = choose(small, value, value + inverse) + cotangent
    below = choose(place.whole, math.nan, below)
    below = choose(between, near, below)
    found = choose(pole, copysign(math.inf, -x), choose(x < 0.0, below, above))
    return choose(x.unknown, x, found)


@formula("gammasgn")
def gammasgn(x: Term) -> Term:
    """The sign of gamma(x), 1 or -1; NaN at its poles, except for zeros, where it is the sign of the zero."""
    whole = x.apply("floor")
    safe = choose(abs(x) < WHOLE, whole, 2.0)
    half = safe * 0.5
    odd = half.differs(half.apply("floor"))
    below = choose(odd, -1.0, 1.0)
    below = choose(whole.equals(x), math.nan, below)
    found = choose(x.equals(0.0), copysign(1.0, x), choose(x < 0.0, below, 1.0))
    return choose(x.unknown, x, found)
