"""Modified Bessel functions of the first kind, of orders 0 and 1, plain and scaled by exp(-|x|)."""

from __future__ import annotations

import math

from diffuse.scipy.special import coefficients as c
from diffuse.scipy.special.elementary import LARGEST_EXPONENT
from diffuse.scipy.special.terms import Term, choose, copysign, formula, polynomial


def pieces(size: Term, near: tuple[float, ...], middle: tuple[float, ...], far: tuple[float, ...]
           ) -> tuple[Term, Term, Term]:
    """(the value up to 8, the scaled value beyond, whether the argument is at most 8)."""
    low = size <= 8.0
    quarter = choose(low, size, 0.0) * 0.25
    first = polynomial(quarter * quarter, (near, None))
    w = 1.0 / choose(low, 8.0, size)
    medium = w >= 1.0 / 24.0
    s = choose(medium, (w - 1.0 / 12.0) * 24.0, w * 48.0 - 1.0)
    second = polynomial(s, (middle, medium), (far, None)) * w.apply("sqrt")
    return first, second, low


def _order0(x: Term) -> tuple[Term, Term, Term]:
    return pieces(abs(x), c.I0_NEAR, c.I0_MIDDLE, c.I0_FAR)


def _order1(x: Term) -> tuple[Term, Term, Term]:
    first, second, low = pieces(abs(x), c.I1_NEAR, c.I1_MIDDLE, c.I1_FAR)
    return first * choose(low, x, 0.0) + 0.0, choose(x < 0.0, -second, second), low


def _plain(x: Term, parts: tuple[Term, Term, Term]) -> Term:
    """The unscaled function, which grows."""
    first, second, low = parts
    size = choose(low, 0.0, abs(x))
    over = size > LARGEST_EXPONENT
    grown = choose(over, 1.0, size).apply("exp") * second
    limit = choose(abs(x).equals(math.inf), math.nan, copysign(math.inf, second))  # so SciPy
    return choose(x.unknown, x, choose(low, first, choose(over, limit, grown)))


def _scaled(x: Term, parts: tuple[Term, Term, Term]) -> Term:
    first, second, low = parts
    found = choose(low, first * (-choose(low, abs(x), 0.0)).apply("exp"), second)
    return choose(x.unknown, x, found)


@formula("i0")
def i0(x: Term) -> Term:
    return _plain(x, _order0(x))


@formula("i1")
def i1(x: Term) -> Term:
    return _plain(x, _order1(x))


@formula("i0e")
def i0e(x: Term) -> Term:
    return _scaled(x, _order0(x))


@formula("i1e")
def i1e(x: Term) -> Term:
    return _scaled(x, _order1(x))
