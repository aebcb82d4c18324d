"""References of tests of functions: pi to many digits, polynomials, erf and erfc in long double."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
LONG = np.longdouble


def polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    found = LONG(0)
    for coefficient in reversed(coefficients):
        found = found * x + LONG(coefficient)
    return found


@cache
def pi(digits: int) -> Fraction:
    """Machin's formula."""
    one: int = 10 ** (digits + 10)

    def arctan(n: int) -> int:
        term = total = one // n
        k = 1
        while term:
            term //= -n * n
            k += 2
            total += term // k
        return total
    return Fraction(4 * (4 * arctan(5) - arctan(239)), one)


def root_pi() -> Fraction:
    one = 1 << 200
    return Fraction(math.isqrt(int(pi(400) * one * one)), one)


def long(value: Fraction) -> Any:
    """A fraction in long double."""
    first = float(value)
    return LONG(first) + LONG(float(value - Fraction(first)))


def erf(x: Array) -> Any:
    """2 / sqrt(pi) e^(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ...)."""
    near = np.minimum(abs(x.astype(LONG)), LONG(7))  # beyond, the result rounds to 1
    term = total = near
    for k in range(1, 220):
        term = term * near * near * 2 / (2 * k + 1)
        total = total + term
    return np.copysign(np.exp(-near * near) * total * 2 / long(root_pi()), x)


def erfc(x: Array) -> Any:
    """2 / sqrt(pi) e^(-x^2) / (2 x + 2 / (2 x + 4 / (2 x + 6 / ...))) for large x, else 1 - erf x."""
    given = x.astype(LONG)
    large = given > 2
    size = np.where(large, given, LONG(2))
    found = 2 * size
    for k in range(300, 0, -1):
        found = 2 * size + 2 * k / found
    high = np.round(size * 2.0 ** 20) / 2.0 ** 20  # its square is exact
    with np.errstate(all="ignore"):
        tail = np.exp(-high * high) * np.exp((high - size) * (high + size)) * 2 / long(root_pi()) / found
        return np.where(large, np.where(np.isinf(size), 0, tail), 1 - erf(np.where(large, 0, x)))
