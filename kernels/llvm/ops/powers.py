"""Lowering rules for powers of floats to small constant exponents, by products, quotients and square roots.

Results differ from the correctly rounded ones by at most one unit in the last place.  Two roundings are few
enough for that: x * x * x, 1 / (x * x), x * sqrt(x), 1 / sqrt(x).  Other powers are computed as the sum of
two floats, of which the second holds the rounding error of the first (fused multiply-adds give it exactly),
and are rounded once.
Operands for which a step could overflow or underflow although the result does not are left to the general
`pow`, in a branch that is taken only where there are some.

A float32, and a float16 (which travels as one), is raised in float64, where no step overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from diffuse.kernels.body.operations import EXPONENTS
from diffuse.kernels.llvm.code import Code, Value
from diffuse.kernels.llvm.math.branches import rarely
from diffuse.kernels.llvm.math.power import pow_anywhere
from diffuse.kernels.llvm.math.values import Real, Truth, bits
from diffuse.kernels.llvm.ops.instructions import (
    FLOAT,
    Dtypes,
    Rule,
    Table,
    binary,
    choose,
    compare,
    convert,
    fused,
    real,
    settled,
)

WIDE = "float64"
LIMIT = 900.0
"""A power and its rounding errors are normal numbers between 2 ** -LIMIT and 2 ** LIMIT."""

Pair = tuple[str, str | None]
"""A number as the sum of two floats; None: the second one is zero."""


def power(exponent: float) -> Rule:
    """The rule for one exponent."""
    short = exponent in _SHORT

    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        x, dtype = real(values[0]), FLOAT[result]
        if exponent in (-1, 0.5, 2):
            return _SHORT[exponent](code, dtype, x)
        if dtype != WIDE:
            wide = convert(code, "fpext", dtype, WIDE, x)
            return convert(code, "fptrunc", WIDE, dtype, _plain(code, exponent, wide))
        if short:
            return _plain(code, exponent, x)
        special, found = _guarded(code, exponent, x)
        return rarely(f"power.{exponent}", Truth(code, special), Real(code, found),
                      lambda y: pow_anywhere(y, y.of(exponent)), Real(code, x)).name
    return rule


# -- plain steps, each of them rounded -------------------------------------------------------------------

def _plain(code: Code, exponent: float, x: str) -> str:
    """The power by rounded steps: for float64 with two of them, for float32 with any."""
    if exponent != int(exponent):
        x = _unsigned_ends(code, x)
    if exponent in _SHORT:
        return _SHORT[exponent](code, WIDE, x)
    count = int(abs(exponent))
    found = _product(code, x, count)
    if count != abs(exponent):
        found = binary(code, "fmul", WIDE, found, _root(code, WIDE, x))
    return _inverse(code, WIDE, found) if exponent < 0 else found


def _product(code: Code, x: str, count: int) -> str:
    """x to the power of a positive integer."""
    if count == 1:
        return x
    found = _square(code, WIDE, _product(code, x, count // 2))
    return binary(code, "fmul", WIDE, found, x) if count % 2 else found


def _unsigned_ends(code: Code, x: str) -> str:
    """-0.0 and -inf without their signs, as `pow` takes them for an exponent that is no integer."""
    positive = binary(code, "fadd", WIDE, x, code.const(WIDE, 0.0))
    endless = compare(code, "oeq", WIDE, x, code.const(WIDE, -math.inf))
    return choose(code, WIDE, endless, code.const(WIDE, math.inf), positive)


def _inverse(code: Code, dtype: str, x: str) -> str:
    return binary(code, "fdiv", dtype, code.const(dtype, 1.0), x)


def _root(code: Code, dtype: str, x: str) -> str:
    return code.intrinsic("llvm.sqrt", dtype, x)


def _square(code: Code, dtype: str, x: str) -> str:
    return binary(code, "fmul", dtype, x, x)


_SHORT: dict[float, Callable[[Code, str, str], str]] = {
    -1.0: _inverse,
    -0.5: lambda code, dtype, x: _inverse(code, dtype, _root(code, dtype, x)),
    0.5: _root,
    1.5: lambda code, dtype, x: binary(code, "fmul", dtype, x, _root(code, dtype, x)),
    2.0: _square,
    3.0: lambda code, dtype, x: binary(code, "fmul", dtype, _square(code, dtype, x), x),
}
"""Powers by one or two steps, which do not overflow or underflow before the result does."""


# -- sums of two floats, rounded once --------------------------------------------------------------------

def _guarded(code: Code, exponent: float, x: str) -> tuple[str, str]:
    """(lanes that need `pow`, the power of the others)."""
    whole, rooted = code.type("int64"), exponent != int(exponent)
    raw = code.let(f"bitcast {code.type(WIDE)} {x} to {whole}")
    # of negative operands of a root, the integer is negative: too large as an unsigned one
    size = raw if rooted else code.let(f"and {whole} {raw}, {code.const('int64', (1 << 63) - 1)}")
    low, high = bits(2.0 ** -(LIMIT / abs(exponent))), bits(2.0 ** (LIMIT / abs(exponent)))
    above = code.let(f"sub {whole} {size}, {code.const('int64', low)}")
    special = code.let(f"icmp ugt {whole} {above}, {code.const('int64', high - low)}")
    if exponent > 0:  # every step is zero then
        some = code.let(f"icmp ne {whole} {size}, {code.const('int64', 0)}")
        special = binary(code, "and", "bool", special, some)
    x = settled(code, WIDE, choose(code, WIDE, special, code.const(WIDE, 1.0), x))
    return special, _exactly(code, exponent, x)


def _exactly(code: Code, exponent: float, x: str) -> str:
    """The power of a moderate number, rounded once."""
    count = int(abs(exponent))
    if exponent == -2:
        return _inverse(code, WIDE, _square(code, WIDE, x))
    if exponent == count:
        more = count - count // 2
        found = _rounded(code, _pair(code, x, more), _pair(code, x, count - more))
        return code.intrinsic("llvm.copysign", WIDE, found, x) if count % 2 else found
    if exponent == -count:
        return _reciprocal(code, _pair(code, x, count))
    root = _root(code, WIDE, x)
    rest = fused(code, WIDE, _minus(code, root), root, x)  # x = root * root + rest
    half = code.const(WIDE, 0.5)
    if exponent == 2.5:  # sqrt(x) = root + rest / (2 root)
        square, error = _pair(code, x, 2)
        scale = binary(code, "fmul", WIDE, binary(code, "fmul", WIDE, x, root), half)
        small = fused(code, WIDE, str(error), root, binary(code, "fmul", WIDE, scale, rest))
        return fused(code, WIDE, square, root, small)
    assert exponent == -1.5
    product, error = _times(code, (x, None), (root, None))
    small = fused(code, WIDE, binary(code, "fmul", WIDE, half, root), rest, str(error))
    return _reciprocal(code, (product, small))


def _pair(code: Code, x: str, count: int) -> Pair:
    """x to the power of a positive integer."""
    if count == 1:
        return x, None
    half = _pair(code, x, count // 2)
    found = _times(code, half, half)
    return _times(code, found, (x, None)) if count % 2 else found


def _times(code: Code, a: Pair, b: Pair) -> Pair:
    high = binary(code, "fmul", WIDE, a[0], b[0])
    low = fused(code, WIDE, a[0], b[0], _minus(code, high))
    if b[1] is not None:
        low = fused(code, WIDE, a[0], b[1], low)
    return high, low if a[1] is None else fused(code, WIDE, a[1], b[0], low)


def _rounded(code: Code, a: Pair, b: Pair) -> str:
    """The product of two pairs, whose second parts are known, as one float."""
    low = binary(code, "fmul", WIDE, a[0], str(b[1]))
    return fused(code, WIDE, a[0], b[0], fused(code, WIDE, str(a[1]), b[0], low))


def _reciprocal(code: Code, a: Pair) -> str:
    """One step of Newton's method from the quotient of the first part."""
    guess = _inverse(code, WIDE, a[0])
    rest = fused(code, WIDE, _minus(code, a[0]), guess, code.const(WIDE, 1.0))
    rest = fused(code, WIDE, _minus(code, str(a[1])), guess, rest)
    return fused(code, WIDE, guess, rest, guess)


def _minus(code: Code, x: str) -> str:
    return code.let(f"fneg {code.type(WIDE)} {x}")


TABLE: Table = {name: {"f": power(exponent)} for name, exponent in EXPONENTS.items()}
