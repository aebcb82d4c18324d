"""asin, acos and atanh of complex numbers; the other inverse functions are these of turned numbers.

With r = |z + 1|, s = |z - 1| and h = (r + s) / 2, the imaginary part of asin z is acosh h and its real part
asin(a / h); h - 1 and h - a are written without cancellation, as T. Hull, T. Fairgrieve and P. Tang do
("Implementing the complex arcsine and arccosine functions using exception handling", ACM TOMS 23, 1997).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from diffuse.kernels.llvm.math import inverse_trigonometric
from diffuse.kernels.llvm.math.branches import Pair, alone, cases, rarely_pair
from diffuse.kernels.llvm.math.complex_root import hypot
from diffuse.kernels.llvm.math.logarithm import LN2, log1p, log1p_within, log_anywhere
from diffuse.kernels.llvm.math.values import (
    INFINITY,
    Real,
    Truth,
    beyond,
    bits,
    fma,
    outside,
    raises_divide,
)

Way = Callable[[], Pair]

LARGE, TINY = 2.0 ** 60, 2.0 ** -400
"""Numbers with parts of these magnitudes, or zero, take the short way."""


def asin(a: Real, b: Real, short: bool) -> Pair:
    special, angle, length, _ = _arc(a, b, short)
    return rarely_pair("casin", special, (angle.signed(a), length.signed(b)), _asin_anywhere, a, b)


def acos(a: Real, b: Real, short: bool) -> Pair:
    special, _, length, rest = _arc(a, b, short)
    return rarely_pair("cacos", special, (rest, length.signed(-b)), _acos_anywhere, a, b)


def asinh(a: Real, b: Real, short: bool) -> Pair:
    special, angle, length, _ = _arc(b, a, short)
    return rarely_pair("casinh", special, (length.signed(a), angle.signed(b)), _asinh_anywhere, a, b)


def acosh(a: Real, b: Real, short: bool) -> Pair:
    special, _, length, rest = _arc(a, b, short)
    return rarely_pair("cacosh", special, (length, rest.signed(b)), _acosh_anywhere, a, b)


def atanh(a: Real, b: Real, short: bool) -> Pair:
    special, length, angle = _slope(a, b, short)
    return rarely_pair("catanh", special, (length.signed(a), angle.signed(b)), _atanh_anywhere, a, b)


def atan(a: Real, b: Real, short: bool) -> Pair:
    special, length, angle = _slope(b, a, short)
    return rarely_pair("catan", special, (angle.signed(a), length.signed(b)), _atan_anywhere, a, b)


def _moderate(a: Real, b: Real) -> Truth:
    """Return the lanes with a part that is large, or tiny but not zero."""
    def odd(x: Real) -> Truth:
        size = x.size()
        return outside(size, TINY, LARGE) & size.is_("ne", 0)
    return odd(a) | odd(b)


def _arc(a: Real, b: Real, short: bool) -> tuple[Truth, Real, Real, Real]:
    """Return the lanes out of reach; of the others |re asin z|, |im asin z| and re acos z."""
    special = _moderate(a, b)
    x, y = (abs(special.replaced(1.0, v)) for v in (a, b))
    return special, *_arc_within(x, y, special.replaced(1.0, a), short)


def _arc_within(x: Real, y: Real, a: Real, short: bool) -> tuple[Real, Real, Real]:
    square, above, below = y * y, x + 1.0, x - 1.0
    r, s = fma(above, above, square).root(), fma(below, below, square).root()
    half = (r + s) * 0.5
    inside = ~beyond(x.size(), 1.0)
    # r - (x + 1) and s - |x - 1|, without cancellation; a zero divisor has a zero above it
    up = square / (r + above)
    across = s + abs(below)
    down = square / across.equals(0.0).replaced(1.0, across)
    less = (up + inside.choose(down, across)) * 0.5
    length = log1p_within(less + (less * (half + 1.0)).root(), short)
    # h - x is half the sum of r - x - 1 and s - x + 1
    rest = inside.choose(up + across, up + down) * 0.5
    beside = ((half + x) * rest).root()
    angle = inverse_trigonometric.atan2(x, beside, short)
    return angle, length, inverse_trigonometric.atan2(beside, a, short)


def _slope(a: Real, b: Real, short: bool) -> tuple[Truth, Real, Real]:
    """Return the lanes out of reach; of the others |re atanh z| and |im atanh z|."""
    x, y = abs(a), abs(b)
    special = _moderate(a, b) | (x.equals(1.0) & y.equals(0.0))
    x, y = special.replaced(0.5, x), special.replaced(0.5, y)
    below, square = 1.0 - x, y * y
    length = log1p_within(x * 4.0 / fma(below, below, square), short) * 0.25
    angle = inverse_trigonometric.atan2(y + y, fma(below, x + 1.0, -square), short) * 0.5
    return special, length, angle


# -- operands of any size, in code of one lane ----------------------------------------------------------

def _zero(x: Real) -> Truth:
    return x.size().is_("eq", 0)


def _region(x: Real, y: Real, large: Way, one: Way, steep: Way, flat: Way) -> Pair:
    """Classify finite numbers of which a part is large, or tiny but not zero.  The cases: a part is large; y
    is tiny and x is 1; x is tiny; y is tiny."""
    return cases((beyond(x.size(), LARGE) | beyond(y.size(), LARGE), large), (x.equals(1.0), one),
                 (beyond(y.size(), TINY), steep), otherwise=flat)


def _far_length(x: Real, y: Real) -> Real:
    """Return |im asin z|."""
    def large() -> Pair:
        most = beyond(x.size(), 2.0 ** 900) | beyond(y.size(), 2.0 ** 900)
        scale = most.choose(2.0 ** -200, 1.0)
        found = log_anywhere(hypot(x * scale, y * scale)) + most.choose(201 * math.log(2.0), LN2)
        return found, found

    def one() -> Pair:
        return y.root(), y

    def steep() -> Pair:
        root = fma(y, y, 1.0).root()
        return log1p(y + y * (y / (root + 1.0)), False), y

    def flat() -> Pair:
        inside = x.size().is_("ult", bits(1.0))
        root = inside.choose((1.0 - x) * (x + 1.0), (x - 1.0) * (x + 1.0)).root()
        return cases((inside, lambda: (y / root, y)),
                     otherwise=lambda: (log1p((x - 1.0) + root, False), y))

    return _region(x, y, large, one, steep, flat)[0]


def _far_angles(x: Real, y: Real, a: Real) -> Pair:
    """Return |re asin z| and re acos z; a is x with its sign."""
    def beside(leg: Real) -> Pair:
        return inverse_trigonometric.atan2(x, leg, False), inverse_trigonometric.atan2(leg, a, False)

    def steep() -> Pair:
        root = fma(y, y, 1.0).root()
        return x / root, inverse_trigonometric.atan2(root, a, False)

    def flat() -> Pair:
        return cases((x.size().is_("ult", bits(1.0)), lambda: beside(((1.0 - x) * (x + 1.0)).root())),
                     otherwise=lambda: beside(y * (x / ((x - 1.0) * (x + 1.0)).root())))

    return _region(x, y, lambda: beside(y), lambda: beside(y.root()), steep, flat)


def _asin_numbers(a: Real, b: Real) -> Pair:
    x, y = abs(a), abs(b)
    return _far_angles(x, y, a)[0].signed(a), _far_length(x, y).signed(b)


def _acos_numbers(a: Real, b: Real) -> Pair:
    x, y = abs(a), abs(b)
    return _far_angles(x, y, a)[1], _far_length(x, y).signed(-b)


def _asinh_anywhere(a: Real, b: Real) -> Pair:
    half, quarter = math.pi / 2, math.pi / 4

    def swapped() -> Pair:
        angle, length = alone("arcs", _asin_numbers, b, a)
        return length, angle

    def endless() -> Pair:
        turned = a.infinite().choose(b.infinite().choose(quarter, b.nan().choose(b, 0.0)), half)
        return a.of(INFINITY).signed(a), turned.signed(b)

    def unknown() -> Pair:
        return a + b, _zero(b).choose(b, a + b)

    return cases(((a.infinite() | b.infinite()) & ~a.nan() & ~b.nan(), endless),
                 (a.infinite(), lambda: (a, b)), (b.infinite(), lambda: (a.of(INFINITY).signed(a), a)),
                 (a.nan() | b.nan(), unknown), otherwise=swapped)


def _asin_anywhere(a: Real, b: Real) -> Pair:
    def unknown() -> Pair:
        endless = a.infinite() | b.infinite()
        return cases((_zero(a), lambda: (a, b)),
                     (endless, lambda: (a + b, b.of(INFINITY).signed(b))), otherwise=lambda: (a + b, a + b))

    def turned() -> Pair:
        second, first = _asinh_anywhere(b, a)
        return first, second

    return cases((a.nan() | b.nan(), unknown), (a.infinite() | b.infinite(), turned),
                 otherwise=lambda: alone("arcs", _asin_numbers, a, b))


def _acos_anywhere(a: Real, b: Real) -> Pair:
    half, quarter = math.pi / 2, math.pi / 4

    def unknown() -> Pair:
        return cases((_zero(a), lambda: (a.of(half), b)),
                     (a.infinite() | b.infinite(), lambda: (a + b, b.of(INFINITY).signed(-b))),
                     otherwise=lambda: (a + b, a + b))

    def endless() -> Pair:
        both = a.negative().choose(a.of(3 * quarter), quarter)
        real = a.negative().choose(a.of(math.pi), 0.0)
        turned = a.infinite().choose(b.infinite().choose(both, real), half)
        return turned, b.of(INFINITY).signed(-b)

    return cases((a.nan() | b.nan(), unknown), (a.infinite() | b.infinite(), endless),
                 otherwise=lambda: alone("cosines", _acos_numbers, a, b))


def _acosh_anywhere(a: Real, b: Real) -> Pair:
    def unknown() -> Pair:
        return (a.infinite() | b.infinite()).choose(INFINITY, a + b), _zero(a).choose(math.pi / 2, a + b)

    def turned() -> Pair:
        angle, length = _acos_anywhere(a, b)
        return abs(length), angle.signed(b)

    return cases((a.nan() | b.nan(), unknown), otherwise=turned)


def _atanh_anywhere(a: Real, b: Real) -> Pair:
    half = math.pi / 2

    def endless() -> Pair:
        return a.of(0.0).signed(a), b.of(half).signed(b)

    def unknown() -> Pair:
        known = a.infinite() | _zero(a)
        return cases((b.infinite(), lambda: (a.of(0.0).signed(a), b.of(half).signed(b))),
                     (known, lambda: (a.of(0.0).signed(a), b)), otherwise=lambda: (a + b, a + b))

    def numbers() -> Pair:
        x, y = abs(a), abs(b)
        pole = x.equals(1.0) & _zero(b)
        return cases((pole, lambda: (raises_divide(pole).signed(a), b)),
                     otherwise=lambda: _atanh_numbers(a, b, x, y))

    return cases((a.nan() | b.nan(), unknown), (a.infinite() | b.infinite(), endless), otherwise=numbers)


def _atanh_numbers(a: Real, b: Real, x: Real, y: Real) -> Pair:
    """atanh of numbers of which a part is large, or tiny but not zero."""
    def large() -> Pair:
        """Use 1 / z and a quarter turn for large z."""
        steep = y.size().is_("ugt", x.size())
        most, least = steep.choose(y, x), steep.choose(x, y)
        ratio = least / most
        size = most * 0.125 * fma(ratio, ratio, 1.0)
        return (steep.choose(ratio, x.of(1.0)) / size * 0.125).signed(a), b.of(math.pi / 2).signed(b)

    def small() -> Pair:
        below, above, steep = 1.0 - x, x + 1.0, beyond(y.size(), TINY)
        square = steep.choose(y, 0.0) * steep.choose(y, 0.0)
        edge = x.equals(1.0) & ~steep
        around = edge.choose(1.0, fma(below, below, square))
        across = fma(below, above, -square)
        length = cases((~beyond(x.size(), TINY), lambda: (x / (square + 1.0), x)),
                       (edge, lambda: ((-log_anywhere(y) + LN2) * 0.5, x)),
                       otherwise=lambda: (log1p(x * 4.0 / around, False) * 0.25, x))[0]
        flat = ~steep & ~beyond(x.size(), 0.5)
        angle = cases((flat, lambda: (y / across, y)),
                      otherwise=lambda: (inverse_trigonometric.atan2(y + y, across, False) * 0.5, y))[0]
        return length.signed(a), angle.signed(b)

    return cases((beyond(x.size(), LARGE) | beyond(y.size(), LARGE), large), otherwise=small)


def _atan_anywhere(a: Real, b: Real) -> Pair:
    second, first = alone("turned_atanh", _atanh_anywhere, b, a)
    return first, second

