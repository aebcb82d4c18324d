"""sinh, cosh, tanh and their inverses, from e^x - 1 and log(1 + x)."""

from __future__ import annotations

from diffuse.kernels.llvm.math.branches import rarely
from diffuse.kernels.llvm.math.exponential import (
    LIMITS,
    as_double,
    exp_anywhere,
    exp_nearly,
    expm1_falling,
    expm1_within,
)
from diffuse.kernels.llvm.math.logarithm import LN2, log1p_within, log_anywhere
from diffuse.kernels.llvm.math.values import (
    Real,
    at_most,
    beyond,
    bits,
    fma,
    raises_divide,
    raises_invalid,
)

FLAT = {"float64": 22.0, "float32": 10.0}
"""tanh x rounds to 1 from here on."""
LARGE = {"float64": 2.0 ** 500, "float32": 2.0 ** 60}
"""Squares are finite up to here, and the operand of log(1 + x) is in its range."""


def sinh(x: Real, short: bool) -> Real:
    size, limit = x.size(), LIMITS[x.dtype]
    found = _sinh_within(at_most(size, limit), short).signed(x)
    return rarely("sinh", beyond(size, limit), found, as_double(_sinh_beyond), x)


def _sinh_within(size: Real, short: bool) -> Real:
    more = expm1_within(size, short)
    return (more + more / (more + 1.0)) * 0.5


def _sinh_beyond(x: Real) -> Real:
    return _half_power(x).signed(x)


def cosh(x: Real, short: bool) -> Real:
    size, limit = x.size(), LIMITS[x.dtype] - 1.0  # the inverse of e^x is a normal number, too
    found = _cosh_within(at_most(size, limit), short)
    return rarely("cosh", beyond(size, limit), found, as_double(_half_power), x)


def _cosh_within(size: Real, short: bool) -> Real:
    power = exp_nearly(size, short)
    return fma(power, 0.5, 0.5 / power)


def _half_power(x: Real) -> Real:
    """Return e^|x| / 2, which may overflow."""
    return exp_anywhere(abs(x), doublings=-1)


def tanh(x: Real, short: bool) -> Real:
    size, flat = x.size(), FLAT[x.dtype]
    near = at_most(size, flat)
    less = expm1_falling(near * -2.0, short)
    return x.nan().choose(x, (less / (less + 2.0)).signed(x))


def asinh(x: Real, short: bool) -> Real:
    special = beyond(x.size(), LARGE[x.dtype])
    size = abs(special.replaced(1.0, x))
    root = fma(size, size, 1.0).root()
    found = log1p_within(fma(size, size / (root + 1.0), size), short).signed(x)
    return rarely("asinh", special, found, as_double(_asinh_beyond), x)


def _asinh_beyond(x: Real) -> Real:
    return _log_of_twice(abs(x)).signed(x)


def acosh(x: Real, short: bool) -> Real:
    one, large = x.format.bits(1.0), x.format.bits(LARGE[x.dtype])
    special = (x.whole() - one).is_("ugt", large - one)
    more = special.replaced(1.0, x) - 1.0
    found = log1p_within(more + fma(more, more, more + more).root(), short)
    return rarely("acosh", special, found, as_double(_acosh_anywhere), x)


def _acosh_anywhere(x: Real) -> Real:
    """Return acosh x for large x, or NaN below 1."""
    invalid = ~beyond(x.size(), 1.0) | (x.negative() & ~x.nan())
    return invalid.choose(raises_invalid(invalid), _log_of_twice(invalid.choose(1.0, x)))


def _log_of_twice(x: Real) -> Real:
    """Return log 2x for large x."""
    return log_anywhere(x) + LN2


def atanh(x: Real, short: bool) -> Real:
    special = x.size().is_("uge", x.format.bits(1.0))
    size = abs(special.replaced(0.5, x))
    found = (log1p_within((size + size) / (1.0 - size), short) * 0.5).signed(x)
    return rarely("atanh", special, found, as_double(_atanh_anywhere), x, harmless=0.5)


def _atanh_anywhere(x: Real) -> Real:
    """Return infinity for 1 and NaN for larger magnitudes."""
    one = x.size().is_("eq", bits(1.0))
    invalid = x.size().is_("ugt", bits(1.0)) & ~x.nan()
    found = one.choose(raises_divide(one).signed(x), x)
    return invalid.choose(raises_invalid(invalid), found)
