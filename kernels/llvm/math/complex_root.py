"""sqrt of complex numbers, and their magnitude.

The larger part of sqrt(a + ib) is t = sqrt((|z| + |a|) / 2), where nothing cancels, the other one b / 2t.
The magnitude is corrected by one step of Newton's method, as C. Borges describes ("An improved algorithm
for hypot(a, b)", ACM TOMS 47, 2021).  Glibc has the same formulas, from 2.35 on: results have its bits.
"""

from __future__ import annotations

from diffuse.kernels.llvm.math.branches import Pair, cases, rarely_pair
from diffuse.kernels.llvm.math.values import (
    FLOAT,
    INFINITY,
    Real,
    Truth,
    beyond,
    outside,
)

MODERATE = {"float64": 2.0 ** 400, "float32": 2.0 ** 50}
"""Up to here, and down to its inverse, squares and their rounding errors are normal numbers."""


def magnitude(a: Real, b: Real) -> Real:
    """Return sqrt(a^2 + b^2) for moderate numbers a >= b >= 0, within hardly more than half a unit."""
    if a.dtype != FLOAT:
        x, y = a.to(FLOAT), b.to(FLOAT)
        return (x * x + y * y).root().to(a.dtype)
    found = (a * a + b * b).root()
    near = (found.size() - (b + b).size()).is_("sle", 0)
    rest = found - near.choose(b, a)
    # found^2 - a^2 - b^2, from the distance to the nearer part
    first = near.choose(a * ((rest + rest) - a), (rest + rest) * (a - (b + b)))
    second = near.choose((rest - (a - b) * 2.0) * rest, (rest * 4.0 - b) * b + rest * rest)
    twice = found + found
    return found - (first + second) / twice.equals(0.0).choose(1.0, twice)


def by_size(a: Real, b: Real) -> tuple[Real, Real, Truth]:
    """Return the larger and the smaller magnitude, and the lanes where these are not moderate."""
    x, y = a.size(), b.size()
    larger = x.is_("ugt", y)
    most, least = larger.pick(x, y), larger.pick(y, x)
    limit = MODERATE[a.dtype]
    special = outside(most, 1 / limit, limit) | (least - 1).is_("ult", a.format.bits(1 / limit) - 1)
    return most.real(), least.real(), special


def hypot(a: Real, b: Real) -> Real:
    """Return the magnitude of any number, with the C library's bits."""
    most, least, special = by_size(a, b)
    found = magnitude(special.replaced(1.0, most), special.replaced(0.0, least))
    return rarely_pair("magnitude", special, (found, found), _hypot_anywhere, a, b)[0]


def _hypot_anywhere(a: Real, b: Real) -> Pair:
    def twice(x: Real) -> Pair:
        return x, x

    def finite() -> Pair:
        most, least, special = by_size(a, b)
        return cases((~special, lambda: twice(magnitude(most, least))),
                     (most.equals(0.0), lambda: twice(most)),
                     (least.size().is_("ult", (most * 2.0 ** -60).size()), lambda: twice(most + least)),
                     (beyond(most.size(), MODERATE[a.dtype]), lambda: twice(scaled(most, least, -1))),
                     otherwise=lambda: twice(scaled(most, least, 1)))

    def scaled(most: Real, least: Real, sign: int) -> Real:
        # what is small has a rounding error that underflows once, with the result
        power = sign * (600 if a.dtype == FLOAT else 80)
        return magnitude(most * 2.0 ** power, least * 2.0 ** power) * 2.0 ** -power

    return cases((a.infinite() | b.infinite(), lambda: twice(a.of(INFINITY))),
                 (a.nan() | b.nan(), lambda: twice(a + b)), otherwise=finite)


def sqrt(a: Real, b: Real) -> Pair:
    most, least, special = by_size(a, b)
    size = magnitude(special.replaced(1.0, most), special.replaced(0.0, least))
    x, y = special.replaced(1.0, a), special.replaced(0.0, b)
    return rarely_pair("csqrt", special, _root(size, x, y), _sqrt_anywhere, a, b)


def _root(size: Real, a: Real, b: Real) -> Pair:
    """Return the square root of a + ib, which has this magnitude."""
    return _placed(*_parts(size, a, b, 0.5), a, b)


def _parts(size: Real, a: Real, b: Real, half: float) -> Pair:
    """Return the larger part of the root and the smaller one times 2 `half`."""
    larger = ((size + abs(a)) * 0.5).root()
    return larger, a.equals(0.0).choose(larger * (half + half), (abs(b) / larger) * half)


def _placed(larger: Real, smaller: Real, a: Real, b: Real) -> Pair:
    """Return the real and the imaginary part of the root."""
    falls = a.negative() & ~a.equals(0.0)
    return falls.choose(smaller, larger), falls.choose(larger, smaller).signed(b)


def _sqrt_anywhere(a: Real, b: Real) -> Pair:
    most, least, _ = by_size(a, b)
    large = beyond(most.size(), 0.25 / a.format.least)
    small = ~beyond(most.size(), 4 * a.format.least)

    def scaled(scale: float) -> Pair:
        x, y = a * scale, b * scale
        larger, smaller = _parts(_hypot_anywhere(x, y)[0], x, y, 0.5 * scale ** -0.5)
        return _placed(larger * scale ** -0.5, smaller, a, b)

    def endless() -> Pair:
        def real() -> Pair:
            beside = b.nan().choose(b, a.of(0.0).signed(b))
            return (a.negative().choose(b.nan().choose(b, 0.0), a),
                    a.negative().choose(a.of(INFINITY).signed(b), beside))
        return cases((b.infinite(), lambda: (a.of(INFINITY), b)), otherwise=real)

    zero, infinite, unknown = most.equals(0.0), a.infinite() | b.infinite(), a.nan() | b.nan()
    return cases((zero, lambda: (a.of(0.0), b)), (infinite, endless),
                 (unknown, lambda: (a + b, a + b)), (large, lambda: scaled(0.25)),
                 (small, lambda: scaled(2.0 ** 54 if a.dtype == FLOAT else 2.0 ** 24)),
                 otherwise=lambda: scaled(1.0))
