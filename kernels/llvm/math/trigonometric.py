"""sin, cos, tan.

x = r + n pi / 2 with |r| <= pi / 4, and a polynomial each for sin r and cos r.  The multiple of pi / 2 is
subtracted in three terms, of which each product is rounded once with the difference: up to REACH the
remainder has a relative error of one unit.  Larger operands are reduced exactly (`_quarter_turns`), with the
bits of 2 / pi that matter for their exponent, as M. Payne and R. Hanek describe.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest

from diffuse.kernels.llvm.code import Code
from diffuse.kernels.llvm.math.branches import Pair, cases, rarely
from diffuse.kernels.llvm.math.values import (
    LAST,
    MAGNITUDE,
    MANTISSA,
    SINGLE,
    Real,
    Truth,
    Whole,
    beyond,
    fma,
    horner,
    nearest,
    raises_invalid,
    widened,
)
from diffuse.kernels.llvm.ops.lanes import extract, insert

SIN = (-0.1666666666666663, 0.008333333333321839, -0.00019841269829357606, 2.7557313538466122e-06,
            -2.5050734422521655e-08, 1.5895437210232407e-10)
"""(sin r - r) / r^3 in r^2, for |r| <= pi / 4: sin r has a relative error of 2^-57.8."""
COS = (0.041666666666666595, -0.0013888888888873338, 2.4801587288997204e-05, -2.7557314215103274e-07,
            2.0875705072107656e-09, -1.1358729786043878e-11)
"""(cos r - 1 + r^2 / 2) / r^4 in r^2, for |r| <= pi / 4: cos r has a relative error of 2^-63."""
SIN_SHORT = (-0.16666666640790004, 0.008333329302008459, -0.00019839311014451032, 2.7181082612529563e-06)
COS_SHORT = (0.04166664571085344, -0.0013887317168494488, 2.4433232754730062e-05)
"""The same for results of 24 bits, with errors of 2^-37.4 and 2^-32.9."""

TAN_ABOVE = (1.0, -0.12828247238995966, 0.0028058070302714407, -7.4825570644602974e-06)
TAN_BELOW = (1.0, -0.46161580572329103, 0.02334440893797647, -0.00020843207429313874)
"""Their quotient in r^2 is tan r / r for |r| <= pi / 4, with a relative error of 2^-55.1."""

HALF_PI = (1.5707963267948966, 6.123233995736765e-17, 1.082856673921914e-32)
TWO_OVER_PI = 0.6366197723675814
HALF_PI_SINGLE = (1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15)
"""All terms but the last one are rounded down, so that the products of zero with them leave -0.0 as it is."""
REACH = {"float64": 2.0 ** 28, "float32": 2.0 ** 14}

BITS = (
    0x0, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0,
    0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4,
    0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB, 0xF0CFBC209AF4361D)
"""64 zero bits, then the first 1280 of 2 / pi."""
FIRST = 1013
"""The exponent field of operands whose product starts with the first of those bits."""


def sin(x: Real, short: bool) -> Real:
    special, n, r = _near_quarter(x, short)
    return rarely("sin", special, _quadrant(n, r, short), _sin_anywhere, x)


def cos(x: Real, short: bool) -> Real:
    special, n, r = _near_quarter(x, short)
    return rarely("cos", special, _quadrant(n + 1, r, short, turned=True), _cos_anywhere, x)


def tan(x: Real, short: bool) -> Real:
    special, n, r = _near_quarter(x, short)
    return rarely("tan", special, _slope(n, r, short), _tan_anywhere, x)


def sin_single(x: Real) -> Real:
    special, n, r = _near_quarter(x, short=True)
    return rarely("sin", special, _quadrant(n, r, short=True), _far(sin), x)


def cos_single(x: Real) -> Real:
    special, n, r = _near_quarter(x, short=True)
    return rarely("cos", special, _quadrant(n + 1, r, short=True, turned=True), _far(cos), x)


def tan_single(x: Real) -> Real:
    special, n, r = _near_quarter(x, short=True)
    return rarely("tan", special, _slope(n, r, short=True), _far(tan), x)


def _far(function: Callable[[Real, bool], Real]) -> Callable[[Real], Real]:
    """Evaluate a function in float64 for float32 operands that are out of reach, many of which are in reach
    there."""
    return lambda x: widened(lambda wide: function(wide, True), x)


def _near_quarter(x: Real, short: bool) -> tuple[Truth, Whole, Real]:
    """Return the lanes out of reach, and of the others n, in the low bits, and r of x = r + n pi / 2."""
    special = beyond(x.size(), REACH[x.dtype])
    r = special.spared(0.0, x)
    n, turns = nearest(r, TWO_OVER_PI)
    for term in HALF_PI_SINGLE if x.dtype == SINGLE else HALF_PI[:2] if short else HALF_PI:
        r = fma(turns, -term, r)
    return special, n, r


def _near(r: Real, short: bool) -> tuple[Real, Real]:
    """Return sin r, where -0.0 loses its sign, and cos r for |r| <= pi / 4."""
    square = r.squared()
    sine = fma(square, r * horner(SIN_SHORT if short else SIN, square), r)
    return sine, horner((1.0, -0.5, *(COS_SHORT if short else COS)), square)


def _quadrant(n: Whole, r: Real, short: bool, turned: bool = False) -> Real:
    """Return sin(r + n pi / 2); `turned` says that n is odd where r is zero, as it is for cos x.

    Coefficients are selected, not results: the processor selects in more places than it multiplies.
    """
    odd, square = (n & 1).is_("ne", 0), r.squared()
    base, found = odd.choose(r.of(1.0), r), r.of(0.0)
    sines, cosines = (SIN_SHORT, COS_SHORT) if short else (SIN, COS)
    pairs = list(zip_longest((-0.5, *cosines), sines, fillvalue=0.0))
    for cosine, sine in reversed(pairs):
        chosen = odd.choose(r.of(cosine), sine)
        found = chosen if cosine == pairs[-1][0] else fma(found, square, chosen)
    found = fma(square, base * found, base)
    if not turned:
        found = found.signed(base)
    return (found.whole() ^ (n << r.format.width - 2 & r.format.sign)).real()


def sine_and_cosine_near(x: Real, short: bool) -> Pair:
    """Return the sine and the cosine of a float64 of a magnitude up to REACH."""
    n, turns = nearest(x, TWO_OVER_PI)
    first = fma(turns, -HALF_PI[0], x)  # exact
    r = fma(turns, -HALF_PI[2], fma(turns, -HALF_PI[1], first))
    return _both(n, r, fma(turns, -HALF_PI[2], fma(turns, -HALF_PI[1], first - r)), short)


def _both(n: Whole, r: Real, rest: Real, short: bool) -> Pair:
    """Return sin(r + rest + n pi / 2) and cos(r + rest + n pi / 2), where the rest is far below r."""
    sine, cosine = _near(r, short)
    sine, cosine = fma(rest, cosine, sine).signed(r), fma(-rest, sine, cosine)
    odd, width, sign = (n & 1).is_("ne", 0), r.format.width - 2, r.format.sign
    found = [(part.whole() ^ (n << width & sign)).real()
             for part in (odd.choose(cosine, sine), odd.choose(-sine, cosine))]
    return found[0], found[1]


def sine_and_cosine_anywhere(x: Real) -> Pair:
    """Return the sine and the cosine of a finite number of any size, in code of one lane."""
    def far() -> Pair:
        n, r = _quarter_turns(x)
        return _both(n, r, r.of(0.0), short=False)

    return cases((beyond(x.size(), REACH[x.dtype]), far),
                 otherwise=lambda: sine_and_cosine_near(x, short=False))


def _slope(n: Whole, r: Real, short: bool) -> Real:
    """Return tan(r + n pi / 2)."""
    odd = (n & 1).is_("ne", 0)
    if short:
        sine, cosine = _near(r, short)
        return odd.choose(-cosine, sine.signed(r)) / odd.choose(sine, cosine)
    square = r.squared()
    above, below = r * horner(TAN_ABOVE, square), horner(TAN_BELOW, square)
    return odd.choose(-below, above) / odd.choose(above, below)


# -- operands of any size ---------------------------------------------------------------------------------

def _sin_anywhere(x: Real) -> Real:
    return _invalid_ends(x, lambda n, r: _quadrant(n, r, short=False))


def _cos_anywhere(x: Real) -> Real:
    return _invalid_ends(x, lambda n, r: _quadrant(n + 1, r, short=False, turned=True))


def _tan_anywhere(x: Real) -> Real:
    return _invalid_ends(x, lambda n, r: _slope(n, r, short=False))


def _invalid_ends(x: Real, function: Callable[[Whole, Real], Real]) -> Real:
    """Apply a function of n and r to finite numbers of any size; infinities give NaN."""
    endless = x.infinite()
    n, r = _quarter_turns(beyond(x.size(), LAST).choose(1.0, x))
    found = x.nan().choose(x, function(n, r))
    return endless.choose(raises_invalid(endless), found)


def _quarter_turns(x: Real) -> tuple[Whole, Real]:
    """Return n modulo 4 and r of x = r + n pi / 2, |r| <= pi / 4, for finite |x| >= 1, lane by lane."""
    code = x.code
    if code.lanes == 1:
        return _quarter_turns_of_one(x)
    name = "diffuse.quarter_turns"
    if name not in code.module.written:
        code.module.written.add(name)
        _write_quarter_turns(code, name)
    counts, rests = "poison", "poison"
    for lane in range(code.lanes):
        pair = code.let(f"call {{ i64, double }} @{name}(double {extract(code, 'float64', x.name, lane)})")
        count, rest = (code.let(f"extractvalue {{ i64, double }} {pair}, {k}") for k in (0, 1))
        counts, rests = insert(code, "int64", counts, count, lane), insert(code, "float64", rests, rest, lane)
    return Whole(code, counts), Real(code, rests)


def _write_quarter_turns(code: Code, name: str) -> None:
    """Write the reduction as a function of one lane, for code of several lanes."""
    inner = Code(code.module, 1)
    inner.label("entry")
    n, r = _quarter_turns_of_one(Real(inner, "%x"))
    pair = inner.let(f"insertvalue {{ i64, double }} poison, i64 {n.name}, 0")
    pair = inner.let(f"insertvalue {{ i64, double }} {pair}, double {r.name}, 1")
    inner.do(f"ret {{ i64, double }} {pair}")
    body = "\n".join(inner.lines)
    head = f"define internal {{ i64, double }} @{name}(double %x) noinline nounwind cold"
    code.declare(f"{head} {{\n{body}\n}}")


def _quarter_turns_of_one(x: Real) -> tuple[Whole, Real]:
    """Split x 2 / pi modulo 4, a fixed-point number of 128 bits, 126 of them fractional, into n and r."""
    code = x.code
    turns = _product(code, x.whole())
    count = code.let(f"ashr i128 {code.let(f'add i128 {turns}, {1 << 125}')}, 126")
    rest = code.let(f"sub i128 {turns}, {code.let(f'shl i128 {count}, 126')}")
    return Whole(code, code.let(f"trunc i128 {count} to i64")), _angle(code, rest)


def _product(code: Code, raw: Whole) -> str:
    """Return x 2 / pi modulo 4 in fixed point: the mantissa times the 192 bits of 2 / pi that matter."""
    words = ", ".join(f"i64 {_signed(word)}" for word in BITS)
    code.declare(f"@diffuse.two_over_pi = internal unnamed_addr constant [{len(BITS)} x i64] [{words}]")
    code.declare("declare i64 @llvm.fshl.i64(i64, i64, i64)")
    first = ((raw & MAGNITUDE) >> MANTISSA) - FIRST
    place, shift = first >> 6, (first & 63).name
    loaded = []
    for k in range(4):
        at = code.let(f"getelementptr inbounds i64, ptr @diffuse.two_over_pi, i64 {(place + k).name}")
        loaded.append(code.let(f"load i64, ptr {at}, align 8"))
    mantissa = ((raw & ((1 << MANTISSA) - 1)) | (1 << MANTISSA)).name
    wide = code.let(f"zext i64 {mantissa} to i128")
    products = []
    for k in range(3):
        window = code.let(f"call i64 @llvm.fshl.i64(i64 {loaded[k]}, i64 {loaded[k + 1]}, i64 {shift})")
        products.append(code.let(f"mul i128 {wide}, {code.let(f'zext i64 {window} to i128')}"))
    high, low = code.let(f"shl i128 {products[0]}, 64"), code.let(f"lshr i128 {products[2]}, 64")
    turns = code.let(f"add i128 {code.let(f'add i128 {high}, {products[1]}')}, {low}")
    falls = code.let(f"sub i128 0, {turns}")
    return code.let(f"select i1 {raw.is_('slt', 0).name}, i128 {falls}, i128 {turns}")


def _angle(code: Code, rest: str) -> Real:
    """Convert a signed fixed-point fraction of pi / 2 to a float, from its 106 leading bits."""
    code.declare("declare i128 @llvm.ctlz.i128(i128, i1)")
    falls = code.let(f"icmp slt i128 {rest}, 0")
    size = code.let(f"select i1 {falls}, i128 {code.let(f'sub i128 0, {rest}')}, i128 {rest}")
    zeros = code.let(f"call i128 @llvm.ctlz.i128(i128 {size}, i1 false)")
    normal = code.let(f"shl i128 {size}, {zeros}")
    parts = []
    for down, scale in ((75, 2.0 ** -53), (22, 2.0 ** -106)):
        word = Whole(code, code.let(f"trunc i128 {code.let(f'lshr i128 {normal}, {down}')} to i64"))
        part = Real(code, code.let(f"sitofp i64 {(word & ((1 << 53) - 1)).name} to double"))
        parts.append(part * scale)
    high, low = parts
    product = high * HALF_PI[0]
    error = fma(low, HALF_PI[0], fma(high, HALF_PI[1], fma(high, HALF_PI[0], -product)))
    back = (-Whole(code, code.let(f"trunc i128 {zeros} to i64")) + 2).power_of_two()
    found = (product + error) * back
    return Truth(code, falls).choose(-found, found)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
