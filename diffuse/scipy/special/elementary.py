"""Formulas of logarithms, exponentials and roots: entropies, logistic functions, losses, transformations.

Definitions and special cases are documented on SciPy's pages of the same names
(docs.scipy.org/doc/scipy/reference/special.html).
"""

from __future__ import annotations

import math

from diffuse.scipy.special.terms import Term, choose, copysign, formula

LARGEST_EXPONENT = 709.782712893384
"""The largest exponent: beyond it e^x is infinite."""
LARGEST_BINARY = 1024.0
LEAST_LOG1P = -1.0
NORMAL = 2.0 ** -1022


def exp(x: Term) -> Term:
    """e^x that raises no flag if it is infinite."""
    return choose(x > LARGEST_EXPONENT, math.inf, x.below(LARGEST_EXPONENT).apply("exp"))


def log(x: Term) -> Term:
    """log x that raises no flag: -inf at zero and NaN below."""
    found = choose(x <= 0.0, 1.0, x).apply("log")
    return choose(x <= 0.0, choose(x.equals(0.0), -math.inf, math.nan), found)


@formula("log1p")
def log1p(x: Term) -> Term:
    outside = x <= LEAST_LOG1P
    found = choose(outside, 1.0, x).apply("log1p")
    return choose(outside, choose(x.equals(LEAST_LOG1P), -math.inf, math.nan), found)


@formula("expm1")
def expm1(x: Term) -> Term:
    found = x.below(LARGEST_EXPONENT).apply("expm1")
    return choose(x > LARGEST_EXPONENT, math.inf, found)


@formula("exp2")
def exp2(x: Term) -> Term:
    over = x >= LARGEST_BINARY
    return choose(over, math.inf, choose(over, 1.0, x).apply("exp2"))


@formula("exp10")
def exp10(x: Term) -> Term:
    over = x > 308.25471555991675
    return choose(over, math.inf, x.lifted(10.0).apply("power", choose(over, 1.0, x)))


@formula("cbrt")
def cbrt(x: Term) -> Term:
    return x.apply("cbrt")


@formula("exprel")
def exprel(x: Term) -> Term:
    """(e^x - 1) / x."""
    quotient = expm1(x) / choose(abs(x) < 1e-300, 1e-300, x.below(1e308))
    return choose(abs(x) < 1e-17, 1.0, quotient)


@formula("expit")
def expit(x: Term) -> Term:
    """1 / (1 + e^-x), from e^-|x|."""
    small = (-abs(x)).apply("exp")
    return choose(x < 0.0, small, 1.0) / (1.0 + small)


@formula("log_expit")
def log_expit(x: Term) -> Term:
    small = (-abs(x)).apply("exp").apply("log1p")
    return choose(x < 0.0, choose(x < 0.0, x, 0.0) - small, -small)


@formula("logit")
def logit(p: Term) -> Term:
    """log(p / (1 - p)); near one half as a difference of log1p, which does not cancel."""
    inside = (p > 0.0) & (p < 1.0)
    near = abs(p - 0.5) < 0.2
    s = choose(near, (p - 0.5) * 2.0, 0.0)
    middle = s.apply("log1p") - (-s).apply("log1p")
    safe = choose(inside, p, 0.5)
    found = choose(near, middle, (safe / (1.0 - safe)).apply("log"))
    edge = choose(p.equals(0.0), -math.inf, choose(p.equals(1.0), math.inf, math.nan))
    return choose(inside, found, edge)


@formula("xlogy", 2)
def xlogy(x: Term, y: Term) -> Term:
    none = x.equals(0.0) & ~y.unknown
    return choose(none, 0.0, x * log(choose(none, 1.0, y)))


@formula("xlog1py", 2)
def xlog1py(x: Term, y: Term) -> Term:
    none = x.equals(0.0) & ~y.unknown
    return choose(none, 0.0, x * log1p(choose(none, 0.0, y)))


@formula("entr")
def entr(x: Term) -> Term:
    """-x log x."""
    found = -(x * choose(x > 0.0, x, 1.0).apply("log"))
    return choose(x.unknown, x, choose(x > 0.0, found, choose(x.equals(0.0), 0.0, -math.inf)))


@formula("rel_entr", 2)
def rel_entr(x: Term, y: Term) -> Term:
    """x log(x / y)."""
    inside = (x > 0.0) & (y > 0.0)
    return choose(inside, _relative(choose(inside, x, 1.0), choose(inside, y, 1.0)), _edge(x, y, 0.0))


@formula("kl_div", 2)
def kl_div(x: Term, y: Term) -> Term:
    """x log(x / y) - x + y."""
    inside = (x > 0.0) & (y > 0.0)
    a, b = choose(inside, x, 1.0), choose(inside, y, 1.0)
    ratio = choose(inside, x, 1.0) / b
    plain = a * log(ratio) - a + b
    return choose(inside, plain, _edge(x, y, y))


def _edge(x: Term, y: Term, empty: Term | float) -> Term:
    """The value if not both are positive: `empty` for x = 0 <= y, else infinity; NaN propagates."""
    found = choose(x.equals(0.0) & (y >= 0.0), empty, math.inf)
    return choose(x.unknown | y.unknown, math.nan, found)


def _relative(x: Term, y: Term) -> Term:
    """x log(x / y) of positive numbers: near 1 from the difference, and where the quotient leaves the range
    of normal numbers from two logarithms."""
    infinite = x.equals(math.inf) | y.equals(math.inf)
    a, b = choose(infinite, 1.0, x), choose(infinite, 1.0, y)
    over = a * 2.0 ** -1022 > b
    ratio = choose(over, 1.0, a) / b
    under = ratio < NORMAL
    near = (ratio > 0.5) & (ratio < 2.0)
    close = (choose(near, a - b, 0.0) / b).apply("log1p")
    plain = choose(near, close, choose(under, 1.0, ratio).apply("log"))
    apart = a.apply("log") - b.apply("log")
    found = a * choose(over | under, apart, plain)
    both = x.equals(math.inf) & y.equals(math.inf)
    limit = choose(both, math.nan, choose(x.equals(math.inf), math.inf, -math.inf))
    return choose(infinite, limit, found)


@formula("boxcox", 2)
def boxcox(x: Term, power: Term) -> Term:
    """(x^power - 1) / power, log x for power 0."""
    return _boxcox(log(x), power)


@formula("boxcox1p", 2)
def boxcox1p(x: Term, power: Term) -> Term:
    """The Box-Cox transformation of 1 + x."""
    logarithm = log1p(x)
    small = (abs(logarithm) < 1e-289) & (abs(power) < 1e273)
    return choose(small, logarithm, _boxcox(logarithm, power))


def _boxcox(logarithm: Term, power: Term) -> Term:
    none = abs(power) < 1e-19
    divisor = choose(none, 1.0, power)
    scaled = divisor * logarithm
    far = scaled >= 709.78
    plain = choose(far, 0.0, scaled).apply("expm1") / divisor
    beyond = choose(far, scaled, 0.0) - abs(divisor).apply("log")
    away = copysign(1.0, divisor) * exp(beyond) - 1.0 / divisor
    return choose(none, logarithm, choose(far, away, plain))


@formula("huber", 2)
def huber(delta: Term, r: Term) -> Term:
    size = abs(r)
    near = size <= delta
    inner = choose(near, r, 0.0)
    outer = choose(near, 0.5, delta) * (size - 0.5 * delta)
    return choose(delta < 0.0, math.inf, choose(near, 0.5 * inner * inner, outer))


@formula("pseudo_huber", 2)
def pseudo_huber(delta: Term, r: Term) -> Term:
    """delta^2 (sqrt(1 + (r / delta)^2) - 1)."""
    none = delta.equals(0.0) | r.equals(0.0)
    v = choose(none, 0.0, r) / choose(abs(delta) < 1e-300, 1e-300, delta)
    found = delta * delta * ((v * v).apply("log1p") * 0.5).apply("expm1")
    return choose(delta < 0.0, math.inf, choose(none, 0.0, found))
