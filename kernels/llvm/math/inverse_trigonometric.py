"""atan, atan2, asin, acos."""

from __future__ import annotations

from diffuse.kernels.llvm.math.branches import rarely
from diffuse.kernels.llvm.math.values import (
    FLOAT,
    INFINITY,
    MANTISSA,
    Real,
    Truth,
    beyond,
    bits,
    either_nan,
    fma,
    outside,
    paired,
    widened,
)

ATAN = (-0.3333333333333298, 0.1999999999990309, -0.14285714276383227, 0.11111110659493235,
        -0.09090896240599622, 0.07692073840778345, -0.0666380982582477, 0.0585829324035331,
        -0.05121979374253352, 0.04186427384193771, -0.027433675947418263, 0.01011593269961367)
"""(atan t - t) / t^3 in t^2, for |t| <= 1/2: atan t has a relative error of 2^-57.7."""
ATAN_SHORT = (-0.3333332693449681, 0.19999490113195523, -0.14272081030361672, 0.10940989691490281,
              -0.07984060334309968, 0.03872293804697013)
"""The same for results of 24 bits, with an error of 2^-31.7."""
ASIN = (0.16666666666665414, 0.07500000000335873, 0.04464285682925142, 0.03038195909969278,
        0.022371758920414587, 0.017359692069633455, 0.013885356144366973, 0.012168452416836404,
        0.006531109420633573, 0.019520105819498312, -0.016212107722837647, 0.03190439286226096)
"""(asin t - t) / t^3 in t^2, for |t| <= 1/2: asin t has a relative error of 2^-55.8."""
ASIN_SHORT = (0.1666666000395944, 0.07500503553018277, 0.04451706868318366, 0.03180679582652885,
              0.01444204570169901, 0.037511667079670886)
"""The same for results of 24 bits, with an error of 2^-31.7."""
QUARTERS = 0.7853981633974483, 3.061616997868383e-17
QUARTERS_SINGLE = 0.7853981852531433, -2.1855694143368964e-08
"""pi / 4 as two terms, for each format."""


def atan(x: Real, short: bool) -> Real:
    """Add the nearest of 0, pi / 4 and pi / 2 to the angle whose tangent is the rest's."""
    size = x.size()
    t, far, near = abs(x), beyond(size, 2.0), ~beyond(size, 0.5)
    top = far.choose(-1.0, near.choose(t, t - 1.0))
    rest = _small(top / far.choose(t, near.choose(1.0, t + 1.0)), short)
    base, base_rest = (far.choose(t.of(2 * part), near.choose(t.of(0.0), part))
                       for part in _quarters(x))
    return (base + (rest + base_rest)).signed(x)


def _small(t: Real, short: bool) -> Real:
    """Return atan t for |t| <= 1/2."""
    square = t.squared()
    return fma(square, t * paired(ATAN_SHORT if short else ATAN, square), t)


def atan2(y: Real, x: Real, short: bool) -> Real:
    special, found = _moderate(y, x, short, 2.0 ** 500)
    return rarely("atan2", special, found, _atan2_anywhere, y, x)


def atan2_single(y: Real, x: Real) -> Real:
    special, found = _moderate(y, x, True, 2.0 ** 60)
    return rarely("atan2", special, found, lambda *both: widened(_atan2_anywhere, *both), y, x)


def _moderate(y: Real, x: Real, short: bool, limit: float) -> tuple[Truth, Real]:
    """Return the lanes with an operand above the limit or, if not zero, below its inverse; and angles."""
    across, up = x.size(), y.size()
    steep = up.is_("ugt", across)
    long, brief = steep.pick(up, across), steep.pick(across, up)
    special = outside(long, 1 / limit, limit) | (brief - 1).is_("ult", x.format.bits(1 / limit) - 1)
    most, least = (special.replaced(1.0, side.real()) for side in (long, brief))
    return special, _octants(most, least, steep, y, x, short)


def _octants(most: Real, least: Real, steep: Truth, y: Real, x: Real, short: bool) -> Real:
    """Return the angle by the larger and the smaller magnitude; `steep` says that y has the larger one.

    It is `count` eighths of a turn and a rest, which falls if x is negative or steep, but not both.
    """
    middle = (least + least).whole().is_("sgt", most.whole())
    rest = _small(middle.choose(least - most, least) / middle.choose(least + most, most), short)
    sign, (quarter, quarter_rest) = x.format.sign, _quarters(x)
    falls = steep.pick(x.whole() ^ sign, x.whole()) & sign
    one = (middle.choose(x.of(1.0), 0.0).whole() | falls).real()
    count = steep.choose(x.of(2.0), x.negative().choose(x.of(4.0), 0.0)) + one
    base = count * quarter
    base_rest = fma(count, quarter_rest, fma(count, quarter, -base))
    return (base + ((rest.whole() ^ falls).real() + base_rest)).signed(y)


def _atan2_anywhere(y: Real, x: Real) -> Real:
    across, up = x.size(), y.size()
    steep = up.is_("ugt", across)
    long, brief = steep.pick(up, across), steep.pick(across, up)
    endless, none = long.is_("eq", bits(INFINITY)), long.is_("eq", 0)
    both = endless & brief.is_("eq", bits(INFINITY))
    scale = beyond(long, 2.0 ** 900).choose(2.0 ** -200, beyond(long, 2.0 ** -400).choose(1.0, 2.0 ** 600))
    scale = scale.settled()
    most = (endless | none).choose(1.0, long.real() * scale).settled()
    unknown = x.nan() | y.nan()
    # a quotient that underflows is the result itself, or else negligible
    tiny = (steep | x.negative()) & (long - brief).is_("sgt", 100 << MANTISSA)
    least = both.choose(1.0, (unknown | endless | tiny).choose(0.0, brief.real() * scale)).settled()
    found = _octants(unknown.choose(1.0, most).settled(), least, steep, y, x, short=False)
    return unknown.choose(either_nan(unknown, x, y), found)


def asin(x: Real, short: bool) -> Real:
    small, found = _arc(x, short)
    quarter, rest = _quarters(x)
    return small.choose(found, x.of(2 * quarter) - (found + found) + 2 * rest).signed(x)


def acos(x: Real, short: bool) -> Real:
    small, found = _arc(x, short)
    quarter, rest = _quarters(x)
    twice, falls = found + found, x.negative()
    steep = falls.choose(4 * quarter - (twice - 4 * rest), twice)
    return small.choose(2 * quarter - (found.signed(x) - 2 * rest), steep)


def _quarters(x: Real) -> tuple[float, float]:
    return QUARTERS if x.dtype == FLOAT else QUARTERS_SINGLE


def _arc(x: Real, short: bool) -> tuple[Truth, Real]:
    """Return whether |x| <= 1/2, and asin |x| if so, else asin sqrt((1 - |x|) / 2), invalid above 1."""
    small, size = ~beyond(x.size(), 0.5), abs(x)
    half = (1.0 - size) * 0.5
    t = small.choose(size, small.replaced(1.0, half).root())
    square = t.squared()
    return small, fma(square, t * paired(ASIN_SHORT if short else ASIN, square), t)
