"""exp and log of float64 written out as arithmetic, so that a loop computes them without leaving it.

A call to a vector library clobbers every vector register; in a fused loop the spills around the calls cost
as much as the functions.  Here ordinary arguments take a polynomial inside the loop; the lanes for which it
is not meant (overflow, underflow, zeros, negatives, NaN) take the library's result, from a function that is
called only when there is such a lane and that saves the registers itself.  Each lane's bits depend on that
lane alone.

The polynomials are minimax fits, made for this file with Remez' exchange in 160-bit arithmetic: relative
error 2^-57.9 for exp on |r| <= ln 2 / 2, 2^-59.5 for log on [sqrt 1/2, sqrt 2].  With the rounding of the
last steps the results stay within 1.5 ulp.  They need fused multiply-add, here a
matter of speed and accuracy inside one function: the program's own arithmetic is never contracted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from diffuse.kernels.llvm.code import Code
from diffuse.kernels.llvm.ops.instructions import anywhere

EXP = (0.5000000000000011, 0.16666666666666413, 0.04166666666653027, 0.008333333333494357,
       0.0013888888943596658, 0.00019841269506720938, 2.4801493137164044e-05, 2.755758632269774e-06,
       2.763023360336397e-07, 2.5000053645771096e-08)
"""(e^r - 1 - r) / r^2"""
LOG = (0.6666666666666734, 0.3999999999941466, 0.28571428742391153, 0.22222198572866086, 0.1818356434105574,
       0.1531405020095801, 0.14795952971418255)
"""(log((1 + s) / (1 - s)) - 2 s) / s^3, in s^2"""
LN2, LN2_REST = 0.6931471805599453, 2.3190468138462996e-17
LN2_SHORT, LN2_SHORT_REST = 0.6931471803691238, 1.9082149292705877e-10
"""ln 2 as two terms; the short one has 21 zero bits, so that its product with an exponent is exact."""
LOG2E = 1.4426950408889634
SHIFT = 6755399441055744.0
"""1.5 * 2^52: adding it rounds to a whole number and leaves that number in the low bits."""
LARGEST = 708.0
"""Up to here in magnitude e^x is a normal number."""

Slow = Callable[[Code, str], str]
Quick = Callable[[Code, str], tuple[str, str]]
"""Gives the lanes that it cannot take, and the results of the others."""


def bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def expand(code: Code, name: str, x: str, slow: Slow) -> str:
    """Write `exp` or `log` of a float64; `slow` writes the library's call for the lanes that need it."""
    return branched(code, name, x, _exp if name == "exp" else _log, slow)


def branched(code: Code, name: str, x: str, quick: Quick, slow: Slow) -> str:
    """Write a function of a float64: `quick` for the lanes that it can take, `slow` for the others, in a
    branch that is taken only where there are any."""
    start, after = code.name("start"), code.name("after")
    rare = code.name("rare")
    code.do(f"br label %{start}")
    code.label(start)
    special, fast = quick(code, x)
    code.declare('!9 = !{!"branch_weights", i32 1, i32 1048576}')
    code.do(f"br i1 {anywhere(code, special)}, label %{rare}, label %{after}, !prof !9")
    code.label(rare)
    kind, truth = code.type("float64"), code.type("bool")
    function = _mended(code, name, slow)
    mended = code.let(f"call preserve_allcc {kind} @{function}({kind} {x}, {kind} {fast}, {truth} {special})")
    code.do(f"br label %{after}")
    code.label(after)
    return code.let(f"phi {kind} [ {fast}, %{start} ], [ {mended}, %{rare} ]")


def _mended(code: Code, name: str, slow: Slow) -> str:
    """A function that replaces the special lanes by the library's results."""
    kind, truth = code.type("float64"), code.type("bool")
    function = f"diffuse.{name}.{code.lanes}"
    inner = Code(code.module, code.lanes)
    inner.label("entry")
    # the other lanes get 1, for which no function raises a flag
    x = inner.let(f"select {truth} %special, {kind} %x, {kind} {inner.const('float64', 1.0)}")
    result = inner.let(f"select {truth} %special, {kind} {slow(inner, x)}, {kind} %fast")
    inner.do(f"ret {kind} {result}")
    body = "\n".join(inner.lines)
    arguments = f"{kind} %x, {kind} %fast, {truth} %special"
    code.declare(f"define internal preserve_allcc {kind} @{function}({arguments}) noinline nounwind cold "
                 f"{{\n{body}\n}}")
    return function


def _exp(code: Code, x: str) -> tuple[str, str]:
    """e^x = 2^n e^r with n = round(x / ln 2)."""
    kind, whole = code.type("float64"), code.type("int64")
    raw = code.let(f"bitcast {kind} {x} to {whole}")
    size = code.let(f"and {whole} {raw}, {code.const('int64', (1 << 63) - 1)}")
    special = code.let(f"icmp ugt {whole} {size}, {code.const('int64', bits(LARGEST))}")
    x = code.let(f"select {code.type('bool')} {special}, {kind} {code.const('float64', 1.0)}, {kind} {x}")
    shifted = _fma(code, x, code.const("float64", LOG2E), code.const("float64", SHIFT))
    n = code.let(f"fsub {kind} {shifted}, {code.const('float64', SHIFT)}")
    r = _fma(code, n, code.const("float64", -LN2), x)
    r = _fma(code, n, code.const("float64", -LN2_REST), r)
    square = code.let(f"fmul {kind} {r}, {r}")
    t = _fma(code, square, _estrin(code, EXP, r, square), r)
    p = code.let(f"fadd {kind} {t}, {code.const('float64', 1.0)}")
    exponent = code.let(f"bitcast {kind} {shifted} to {whole}")
    exponent = code.let(f"shl {whole} {exponent}, {code.const('int64', 52)}")
    scaled = code.let(f"add {whole} {code.let(f'bitcast {kind} {p} to {whole}')}, {exponent}")
    return special, code.let(f"bitcast {whole} {scaled} to {kind}")


def _log(code: Code, x: str) -> tuple[str, str]:
    """log x = k ln 2 + log(1 + f) with 1 + f in [sqrt 1/2, sqrt 2), through s = f / (2 + f)."""
    kind, whole = code.type("float64"), code.type("int64")
    least, root = bits(2.0 ** -1022), bits(0.5 ** 0.5)
    raw = code.let(f"bitcast {kind} {x} to {whole}")
    above = code.let(f"sub {whole} {raw}, {code.const('int64', least)}")
    special = code.let(f"icmp uge {whole} {above}, {code.const('int64', bits(float('inf')) - least)}")
    one = code.const("int64", bits(1.0))
    raw = code.let(f"select {code.type('bool')} {special}, {whole} {one}, {whole} {raw}")
    past = code.let(f"sub {whole} {raw}, {code.const('int64', root)}")
    k = code.let(f"ashr {whole} {past}, {code.const('int64', 52)}")
    fraction = code.let(f"and {whole} {past}, {code.const('int64', (1 << 52) - 1)}")
    mantissa = code.let(f"add {whole} {fraction}, {code.const('int64', root)}")
    m = code.let(f"bitcast {whole} {mantissa} to {kind}")
    lifted = code.let(f"add {whole} {k}, {code.const('int64', bits(SHIFT))}")
    lifted = code.let(f"bitcast {whole} {lifted} to {kind}")
    n = code.let(f"fsub {kind} {lifted}, {code.const('float64', SHIFT)}")
    f = code.let(f"fadd {kind} {m}, {code.const('float64', -1.0)}")
    two, half = code.const("float64", 2.0), code.const("float64", 0.5)
    s = code.let(f"fdiv {kind} {f}, {code.let(f'fadd {kind} {f}, {two}')}")
    z = code.let(f"fmul {kind} {s}, {s}")
    w = code.let(f"fmul {kind} {z}, {z}")
    rest = code.let(f"fmul {kind} {z}, {_estrin(code, LOG, z, w)}")
    short = code.let(f"fmul {kind} {code.let(f'fmul {kind} {f}, {f}')}, {half}")
    inner = code.let(f"fmul {kind} {s}, {code.let(f'fadd {kind} {short}, {rest}')}")
    inner = _fma(code, n, code.const("float64", LN2_SHORT_REST), inner)
    low = code.let(f"fsub {kind} {code.let(f'fsub {kind} {short}, {inner}')}, {f}")
    high = code.let(f"fmul {kind} {n}, {code.const('float64', LN2_SHORT)}")
    return special, code.let(f"fsub {kind} {high}, {low}")


def _fma(code: Code, a: str, b: str, c: str) -> str:
    return code.intrinsic("llvm.fma", "float64", a, b, c)


def _estrin(code: Code, coefficients: tuple[float, ...], x: str, square: str) -> str:
    """A polynomial in pairs, so that its steps overlap."""
    terms = [code.const("float64", c) for c in coefficients]
    power = x
    first = True
    while len(terms) > 1:
        if not first:
            power = square if power == x else code.let(f"fmul {code.type('float64')} {power}, {power}")
        terms = [_fma(code, terms[i + 1], power, terms[i]) if i + 1 < len(terms) else terms[i]
                 for i in range(0, len(terms), 2)]
        first = False
    return terms[0]
