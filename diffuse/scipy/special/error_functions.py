"""The error function's family and the normal distribution: erf, erfc, erfcx, ndtr, log_ndtr and inverses.

Tails are exp(-x^2) times a function that changes slowly.  x is split into 26 bits, whose square is exact, and
a rest, so that the exponential does not magnify the rounding of x^2.
"""

from __future__ import annotations

import math

from diffuse.scipy.special import coefficients as c
from diffuse.scipy.special.terms import Term, applied, choose, copysign, formula, polynomial

ROOT_HALF = math.sqrt(0.5)
LARGEST_GROWTH = -26.628735713751398
"""Below it erfcx is infinite."""
LEAST = 5e-324
"""The least positive number."""
LEAST_LOG = -1.896150381621835e154
"""Below it log_ndtr is infinite."""


def scaled_tail(x: Term) -> Term:
    """exp(x^2) erfc(x) for x >= 0."""
    near = x.below(1e20)
    t = (near - 3.75) / (near + 3.75)
    return polynomial(t, (c.SCALED_ERFC, None)) * 0.5 / (0.5 + x)


def bell(x: Term, scale: float) -> Term:
    """exp(scale x^2) for |x| < 2^20 and a scale that is a power of two, or its negative."""
    lifted = x * 134217729.0  # 2^27 + 1
    high = lifted - (lifted - x)
    rest = (x - high) * (x + high) * scale
    small = rest * (1.0 + rest * (0.5 + rest * (1.0 / 6.0)))
    whole = (high * high * scale).apply("exp")
    return whole + whole * small


applied("erf")
applied("erfc")


def small_erf(x: Term) -> Term:
    """erf for |x| <= 1/2, without leaving the loop for it."""
    return x * polynomial(x * x, (c.ERF, None))


@formula("erfcx")
def erfcx(x: Term) -> Term:
    tail = scaled_tail(abs(x))
    growing = (x < 0.0) & (x > LARGEST_GROWTH)
    grown = 2.0 * bell(choose(growing, x, 0.0), 1.0) - tail
    return choose(x <= LARGEST_GROWTH, math.inf, choose(x < 0.0, grown, tail))


def half_tail(size: Term) -> Term:
    """exp(size^2 / 2) times the normal distribution's tail beyond `size` >= 0."""
    return 0.5 * scaled_tail(size * ROOT_HALF)


def distribution(x: Term, half: Term) -> Term:
    """erfc(-x / sqrt 2) / 2, without magnifying the rounding of the quotient; `half` is half_tail(|x|)."""
    near = abs(x) < 0.5
    tail = bell(abs(x).below(40.0), -0.5) * half
    far = choose(x > 0.0, 1.0 - tail, choose(x < -40.0, 0.0, tail))
    return choose(near, 0.5 + 0.5 * small_erf(choose(near, x, 0.0) * ROOT_HALF), far)


@formula("ndtr")
def ndtr(x: Term) -> Term:
    return distribution(x, half_tail(abs(x)))


@formula("log_ndtr")
def log_ndtr(x: Term) -> Term:
    far = x < -1.0
    size = abs(x).below(-LEAST_LOG)
    half = half_tail(size)
    above = choose(far, 0.5, distribution(-x, half))
    tail = half.apply("log") - 0.5 * size * size
    found = choose(far, tail, (-above).apply("log1p"))
    return choose(x.unknown, x, choose(x < LEAST_LOG, -math.inf, found))


def quantile(q: Term, tail: Term) -> Term:
    """The normal quantile at 1/2 + q, given the lesser of 1/2 + q and 1/2 - q, positive."""
    centre = abs(q) <= 0.425
    r = (-choose(centre, 0.25, tail).apply("log")).apply("sqrt")
    near = r <= 5.0
    v = choose(centre, 0.180625 - q * q, r - choose(near, 1.6, 5.0))
    top = polynomial(v, (c.QUANTILE_CENTRE, centre), (c.QUANTILE_TAIL, near), (c.QUANTILE_FAR, None))
    bottom = polynomial(v, (c.QUANTILE_CENTRE_BELOW, centre), (c.QUANTILE_TAIL_BELOW, near),
                        (c.QUANTILE_FAR_BELOW, None))
    return choose(centre, q * top, copysign(top, q)) / bottom


@formula("ndtri")
def ndtri(p: Term) -> Term:
    inside = (p > 0.0) & (p < 1.0)
    safe = choose(inside, p, 0.5)
    found = quantile(safe - 0.5, choose(safe < 0.5, safe, 1.0 - safe))
    edge = choose(p.equals(0.0), -math.inf, choose(p.equals(1.0), math.inf, math.nan))
    return choose(inside, found, edge)


@formula("erfinv")
def erfinv(y: Term) -> Term:
    inside = abs(y) < 1.0
    safe = choose(inside, y, 0.0)
    found = quantile(safe * 0.5, 0.5 * (1.0 - abs(safe))) * ROOT_HALF
    return choose(inside, choose(y.equals(0.0), 0.0, found),
                  choose(abs(y).equals(1.0), copysign(math.inf, y), math.nan))


@formula("erfcinv")
def erfcinv(y: Term) -> Term:
    inside = (y > LEAST) & (y < 2.0)
    safe = choose(inside, y, 1.0)
    low = safe * 0.5
    found = quantile(0.5 * (1.0 - safe), choose(safe < 1.0, low, 1.0 - low)) * ROOT_HALF
    edge = choose((y >= 0.0) & (y <= LEAST), math.inf, choose(y.equals(2.0), -math.inf, math.nan))
    return choose(inside, choose(y.equals(1.0), -(y - 1.0), found), edge)
