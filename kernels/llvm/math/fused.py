"""Fused multiply-add of finite floats: an instruction, or arithmetic with its results.

Where the processor has no such instruction, the product is split into two floats, the sum of these and the
addend into three, and the smaller two of those are added with rounding to odd, so that the last addition
rounds the exact sum: S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums" (IEEE
Transactions on Computers 57, 2008).  Where the rounding error of the product underflows, the result may be
less exact, and the flag is raised.
"""

from __future__ import annotations

from diffuse.kernels.llvm.code import Code
from diffuse.kernels.llvm.ops.instructions import binary, both, choose, compare, convert, routine

WIDE, BITS = "float64", "int64"
HALF = 27
"""Bits of the lower half of a mantissa of 53."""


def multiply_add(code: Code, dtype: str, a: str, b: str, c: str) -> str:
    """Write a * b + c, rounded once."""
    if code.module.target.fma:
        return code.intrinsic("llvm.fma", dtype, a, b, c)
    parameters = tuple([(name, dtype) for name in "abc"])
    return routine(code, f"fma.{dtype}", dtype, parameters, lambda inner, _: _write(inner, dtype), (a, b, c))


def _write(code: Code, dtype: str) -> None:
    if dtype == WIDE:
        product = binary(code, "fmul", WIDE, "%a", "%b")
        rest, carry = _sum(code, "%c", _rounding_error(code, product))
        high, low = _sum(code, product, rest)
        found = binary(code, "fadd", WIDE, high, _to_odd(code, *_sum(code, carry, low)))
        nothing = compare(code, "oeq", WIDE, "%c", code.const(WIDE, 0.0))  # the sign of a zero is the sum's
        found = choose(code, WIDE, nothing, binary(code, "fadd", WIDE, product, "%c"), found)
    else:  # the product is exact as a float64
        a, b, c = (convert(code, "fpext", dtype, WIDE, f"%{name}") for name in "abc")
        odd = _to_odd(code, *_sum(code, binary(code, "fmul", WIDE, a, b), c))
        found = convert(code, "fptrunc", WIDE, dtype, odd)
    code.do(f"ret {code.type(dtype)} {found}")


def _rounding_error(code: Code, product: str) -> str:
    """Return the product of %a and %b less its rounded value, by products of halves, which are exact."""
    (a, al), (b, bl) = _halves(code, "%a"), _halves(code, "%b")
    found = binary(code, "fsub", WIDE, binary(code, "fmul", WIDE, a, b), product)
    for x, y in ((a, bl), (al, b), (al, bl)):
        found = binary(code, "fadd", WIDE, found, binary(code, "fmul", WIDE, x, y))
    return found


def _halves(code: Code, x: str) -> tuple[str, str]:
    """Split a float into two of 26 bits each."""
    raw = convert(code, "bitcast", WIDE, BITS, x)
    raw = binary(code, "add", BITS, raw, code.const(BITS, 1 << HALF - 1))
    raw = binary(code, "and", BITS, raw, code.const(BITS, -(1 << HALF)))
    high = convert(code, "bitcast", BITS, WIDE, raw)
    return high, binary(code, "fsub", WIDE, x, high)


def _sum(code: Code, a: str, b: str) -> tuple[str, str]:
    """Return a + b and the rounding error of that."""
    found = binary(code, "fadd", WIDE, a, b)
    part = binary(code, "fsub", WIDE, found, a)
    first = binary(code, "fsub", WIDE, a, binary(code, "fsub", WIDE, found, part))
    return found, binary(code, "fadd", WIDE, first, binary(code, "fsub", WIDE, b, part))


def _to_odd(code: Code, found: str, rest: str) -> str:
    """Round found + rest to odd: if the sum is inexact, its last bit is set."""
    raw, other = (convert(code, "bitcast", WIDE, BITS, v) for v in (found, rest))
    apart = binary(code, "ashr", BITS, binary(code, "xor", BITS, raw, other), code.const(BITS, 63))
    toward = binary(code, "or", BITS, apart, code.const(BITS, 1))  # 1 away from zero, or -1
    moved = convert(code, "bitcast", BITS, WIDE, binary(code, "add", BITS, raw, toward))
    last = binary(code, "and", BITS, raw, code.const(BITS, 1))
    even = compare(code, "eq", BITS, last, code.const(BITS, 0))
    inexact = compare(code, "une", WIDE, rest, code.const(WIDE, 0.0))
    return choose(code, WIDE, both(code, even, inexact), moved, found)
