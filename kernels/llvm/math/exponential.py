"""exp, exp2, expm1.

e^x = 2^n e^r with n = round(x / ln 2), so that |r| <= ln 2 / 2, and e^r - 1 = r + r^2 P(r).
"""

from __future__ import annotations

from collections.abc import Callable

from diffuse.kernels.llvm.math.branches import rarely
from diffuse.kernels.llvm.math.values import (
    FLOAT,
    LAST,
    SINGLE,
    Real,
    Whole,
    beyond,
    bits,
    fma,
    nearest,
    paired,
    widened,
)

EXP = (0.5000000000000011, 0.16666666666666413, 0.04166666666653027, 0.008333333333494357,
       0.0013888888943596658, 0.00019841269506720938, 2.4801493137164044e-05, 2.755758632269774e-06,
       2.763023360336397e-07, 2.5000053645771096e-08)
"""P(r) = (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2: e^r has a relative error of 2^-56.3."""
EXP_SHORT = (0.5000000044250082, 0.16666666368979732, 0.041666360430694535, 0.008333389543550057,
             0.0013940670790118712, 0.00019845870466928475)
"""The same for results of 24 bits, with an error of 2^-33."""
EXP_SINGLE = (0.499999934521819, 0.1666652068023503, 0.04166838710664042, 0.008368710996902794,
              0.001381463737937556)
"""The same for float32 arithmetic, with an error of 2^-28.2."""
LN2, LN2_REST = 0.6931471805599453, 2.3190468138462996e-17
LOG2E = 1.4426950408889634
LN2_SINGLE, LN2_SINGLE_REST = 0.6931471824645996, -1.904654323148236e-09
TINY = 2.0 ** -80
LARGEST = 708.0
LIMITS, LIMITS2 = {FLOAT: LARGEST, SINGLE: 87.0}, {FLOAT: 1020.0, SINGLE: 125.0}
"""Up to here in magnitude e^x, or 2^x, is a normal number."""


def exp(x: Real, short: bool) -> Real:
    return _mostly("exp", x, LIMITS[x.dtype], lambda y: exp_within(y, short), exp_anywhere)


def exp2(x: Real, short: bool) -> Real:
    return _mostly("exp2", x, LIMITS2[x.dtype], lambda y: _exp2_within(y, short), exp2_anywhere)


def expm1(x: Real, short: bool) -> Real:
    return _mostly("expm1", x, LIMITS[x.dtype], lambda y: expm1_within(y, short), _expm1_anywhere)


def as_double(function: Callable[[Real], Real]) -> Callable[[Real], Real]:
    """Return a function of float64 that takes float32, too, and then rounds its result once."""
    return lambda x: function(x) if x.dtype == FLOAT else widened(function, x)


def _mostly(name: str, x: Real, limit: float, quick: Callable[[Real], Real],
            slow: Callable[[Real], Real]) -> Real:
    """Return `quick` of magnitudes up to the limit and `slow` of the others, computed as float64."""
    special = beyond(x.size(), limit)
    return rarely(name, special, quick(special.spared(1.0, x)), as_double(slow), x)


def _exp2_within(x: Real, short: bool) -> Real:
    n, power = _power2(x, short)
    return scaled(power, n)


def exp_within(x: Real, short: bool) -> Real:
    """Return e^x for magnitudes up to LARGEST."""
    return exp_nearly(x, short) if short else exp_of_sum(x, 0.0, short)


def exp_nearly(x: Real, short: bool) -> Real:
    """Return e^x for magnitudes up to LARGEST, with the rounding error of r: 1.1 units for 0.9."""
    n, r = _reduced(x, short)
    return scaled(_power(r, short), n)


def expm1_within(x: Real, short: bool) -> Real:
    """Return e^x - 1 for magnitudes up to LARGEST."""
    if short:
        return expm1_falling(x, short).signed(x)
    n, first, second = _reduced_in_two(x, 0.0)
    r = first + second
    scale = scaled(x.of(1.0), n)
    # what is added to the rest keeps the square of a tiny number from underflowing
    rest = fma(r * _growth(r, r.squared(), short), r, fma(r, TINY, second))
    return fma(scale, first + rest, scale - 1.0).signed(x)


def expm1_falling(x: Real, short: bool) -> Real:
    """Return e^x - 1 for negative x, where nothing cancels; -0.0 loses its sign.

    What ln 2 is rounded by moves e^x by 2^-56 at most.
    """
    n, r = _reduced(x, short=True)
    scale = scaled(x.of(1.0), n)
    grown = fma(r * _growth(r, r.squared(), short), r, r)
    return fma(scale, grown, scale - 1.0)


def _power(r: Real, short: bool) -> Real:
    """Return e^r for |r| <= ln 2 / 2."""
    square = r.squared()
    return fma(square, _growth(r, square, short), r) + 1.0


def _growth(r: Real, square: Real, short: bool) -> Real:
    """Evaluate P(r)."""
    return paired(_terms(r, short), r, square)


def _terms(r: Real, short: bool) -> tuple[float, ...]:
    """Choose the polynomial P for the precision of the result."""
    return EXP_SINGLE if r.dtype == SINGLE else EXP_SHORT if short else EXP


def exp_of_sum(x: Real, rest: Real | float, short: bool) -> Real:
    """Return e^(x + rest) for |x| up to LARGEST and a small rest."""
    n, power = power_of_sum(x, rest, short)
    return scaled(power, n)


def exp_of_sum_anywhere(x: Real, rest: Real) -> Real:
    """Return e^(x + rest) for |x| up to 1000: it may overflow or underflow."""
    n, power = power_of_sum(x, rest, short=False)
    return raised(power, n << 32 >> 32)


def power_of_sum(x: Real, rest: Real | float, short: bool) -> tuple[Whole, Real]:
    """Return n and e^r, where r is kept as the sum of an exact number and a small one."""
    n, more = growth_of_sum(x, rest, short)
    return n, more + 1.0


def growth_of_sum(x: Real, rest: Real | float, short: bool) -> tuple[Whole, Real]:
    """Return n and e^r - 1, where r is kept as the sum of an exact number and a small one."""
    n, first, second = _reduced_in_two(x, rest)
    r = first + second
    square = r.squared()
    return n, first + fma(square, _growth(r, square, short), second)


def _reduced_in_two(x: Real, rest: Real | float) -> tuple[Whole, Real, Real]:
    """Return n, in the low bits, and the sum of r and the rest as an exact number and a small one."""
    n, turns = nearest(x, LOG2E)
    first, second = (LN2_SINGLE, LN2_SINGLE_REST) if x.dtype == SINGLE else (LN2, LN2_REST)
    return n, fma(turns, -first, x), turns * -second if rest == 0.0 else fma(turns, -second, rest)


def _reduced(x: Real, short: bool) -> tuple[Whole, Real]:
    """Return n, in the low bits, and r."""
    n, turns = nearest(x, LOG2E)
    if x.dtype == SINGLE:
        return n, fma(turns, -LN2_SINGLE_REST, fma(turns, -LN2_SINGLE, x))
    r = fma(turns, -LN2, x)
    return n, r if short else fma(turns, -LN2_REST, r)


def _power2(x: Real, short: bool) -> tuple[Whole, Real]:
    """Return n, in the low bits, and 2^f of 2^x = 2^n 2^f, |f| <= 1/2."""
    n, turns = nearest(x, 1.0)
    f = x - turns
    terms = LN2, *(term * LN2 ** k for k, term in enumerate(_terms(x, short), 2))
    return n, fma(f, paired(terms, f), 1.0)


def scaled(x: Real, n: Whole) -> Real:
    """Multiply by 2^n by adding to the exponent: the result has to be a normal number."""
    return (x.whole() + (n << x.format.mantissa)).real()


def exp_anywhere(x: Real, doublings: int = 0) -> Real:
    """Return e^x 2^doublings for any operand."""
    n, power = power_of_sum(_clamped(x, 1000.0), 0.0, short=False)
    return _ends(x, raised(power, (n << 32 >> 32) + doublings))


def exp2_anywhere(x: Real) -> Real:
    n, power = _power2(_clamped(x, 1100.0), short=False)
    return _ends(x, raised(power, n << 32 >> 32))


def _expm1_anywhere(x: Real) -> Real:
    falls = x.negative() & ~x.nan()
    return falls.choose(-1.0, exp_anywhere(falls.choose(0.0, x)))


def raised(x: Real, n: Whole) -> Real:
    """Multiply by 2^n by two products, which overflow, underflow and raise flags as the result does.

    A result below the normal numbers is an underflow even where the last product is exact, by chance.
    """
    half = n >> 1
    found = x * half.power_of_two() * (n - half).power_of_two()
    small = found.size().is_("ult", bits(found.format.least))
    fall = small.replaced(2.0 ** -600, found.of(0.0))
    return found + fall * fall


def _clamped(x: Real, limit: float) -> Real:
    """Clamp the magnitude to `limit`; replace infinities and NaN by 0."""
    near = beyond(x.size(), limit).choose(x.of(limit).signed(x), x)
    return beyond(x.size(), LAST).choose(0.0, near)


def _ends(x: Real, result: Real) -> Real:
    """Put in the results for infinities and NaN, which raise no flag."""
    end = x.nan().choose(x, x.negative().choose(0.0, x))
    return beyond(x.size(), LAST).choose(end, result)
