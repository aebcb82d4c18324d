"""logaddexp and logaddexp2: log(e^x + e^y) = max(x, y) + log(1 + e^-|x - y|).

The two terms may cancel, so that the second one is computed as a sum of two floats: the result has an
error of a unit in its last place and half a unit in the last place of the terms.
"""

from __future__ import annotations

from diffuse.kernels.llvm.math.branches import rarely
from diffuse.kernels.llvm.math.exponential import (
    EXP,
    LN2,
    LN2_REST,
    LOG2E,
    exp,
    exp2,
    exp2_anywhere,
    exp_anywhere,
    scaled,
)
from diffuse.kernels.llvm.math.logarithm import log1p_within
from diffuse.kernels.llvm.math.precise_logarithm import logarithm_pair
from diffuse.kernels.llvm.math.values import (
    LAST,
    Real,
    Truth,
    beyond,
    either_nan,
    fma,
    nearest,
    paired,
)

NEGLIGIBLE = 300.0
"""At this distance log(1 + e^-d) is e^-d, and squares of that do not underflow."""
LOG2E_REST = 2.0355273740931033e-17


def logaddexp(x: Real, y: Real, short: bool) -> Real:
    return _added("logaddexp", x, y, short, binary=False)


def logaddexp2(x: Real, y: Real, short: bool) -> Real:
    return _added("logaddexp2", x, y, short, binary=True)


def _added(name: str, x: Real, y: Real, short: bool, binary: bool) -> Real:
    same, larger, below = _ordered(x, y)
    special = beyond(below.size(), NEGLIGIBLE) | beyond(larger.size(), LAST)
    distance = special.replaced(-1.0, below)
    if short:
        found = log1p_within((exp2 if binary else exp)(distance, True), True)
        found = larger + (found * LOG2E if binary else found)
    else:
        other = special.replaced(-1.0, x.equals(larger).choose(y, x))
        base = special.replaced(0.0, larger)
        found = _sum(base, *_term(distance, _lost(other, base, distance), binary))
    return rarely(name, special, found, lambda a, b: _anywhere(a, b, binary), x, y)


def _ordered(x: Real, y: Real) -> tuple[Truth, Real, Real]:
    """Return where x = y, the larger of both, and minus their distance."""
    same = x.equals(y)  # infinities too, without subtracting them
    apart = x - same.replaced(0.0, y)
    larger = (apart.negative() & ~same).choose(y, x)
    return same, larger, -abs(same.choose(0.0, apart))


def _anywhere(x: Real, y: Real, binary: bool) -> Real:
    same, larger, below = _ordered(x, y)
    term = exp2_anywhere(below) * LOG2E if binary else exp_anywhere(below)
    term = same.choose(1.0 if binary else LN2, term)
    return below.nan().choose(either_nan(below.nan(), x, y), larger + term)


def _lost(a: Real, b: Real, difference: Real) -> Real:
    """Return the rounding error of a - b."""
    part = difference - a
    return (a - (difference - part)) - (b + part)


def _term(x: Real, rest: Real, binary: bool) -> tuple[Real, Real]:
    """Return log(1 + e^(x + rest)) for -NEGLIGIBLE <= x <= 0, or with 2, as a sum of two floats."""
    n, turns = nearest(x, 1.0 if binary else LOG2E)
    if binary:
        part = x - turns
        first = part * LN2
        second = fma(part, LN2, -first) + fma(part, LN2_REST, rest * LN2)
    else:
        first, second = fma(turns, -LN2, x), fma(turns, -LN2_REST, rest)
    r = first + second
    square = r.squared()
    small = fma(square, paired(EXP, r, square), second)
    high = first + 1.0
    low = (first - (high - 1.0)) + small
    scale = scaled(x.of(1.0), n)
    power, rest = _exact(high * scale, low * scale)
    above, error = _exact(x.of(1.0), power)
    found, low = logarithm_pair(above.whole())
    low = low + (error + rest) / above
    if not binary:
        return found, low
    product = found * LOG2E
    return product, fma(low, LOG2E, fma(found, LOG2E_REST, fma(found, LOG2E, -product)))


def _exact(a: Real, b: Real) -> tuple[Real, Real]:
    """Return a + b, |a| >= |b|, and its rounding error."""
    found = a + b
    return found, (a - found) + b


def _sum(a: Real, b: Real, rest: Real) -> Real:
    """Return a + b + rest, where rest is small beside b."""
    found = a + b
    part = found - a
    return found + (((a - (found - part)) + (b - part)) + rest)

