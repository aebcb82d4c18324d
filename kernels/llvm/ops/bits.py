"""Lowering rules that take floats apart into sign, exponent, mantissa: spacing, nextafter, frexp, ldexp."""

from __future__ import annotations

import math
from typing import NamedTuple

from diffuse.kernels.llvm.code import Code, Value
from diffuse.kernels.llvm.ops.casts import cast
from diffuse.kernels.llvm.ops.instructions import (
    BITS,
    FLOAT,
    Dtypes,
    Table,
    binary,
    both,
    choose,
    compare,
    either,
    flag,
    is_nan,
    magnitude,
    negated,
    real,
    settled,
)


class Format(NamedTuple):
    """A binary floating-point format and the integer that holds its bits."""

    dtype: str
    bits: str
    mantissa: int
    """Stored bits of the mantissa."""
    bias: int
    sign: int
    exponent: int
    """The sign and exponent fields, as masks (of a signed integer)."""


FORMATS = {
    "float32": Format("float32", "int32", 23, 127, -(2 ** 31), 0x7F800000),
    "float64": Format("float64", "int64", 52, 1023, -(2 ** 63), 0x7FF0000000000000),
}

LEAST = {"float16": 2.0 ** -24, "float32": 2.0 ** -149, "float64": 2.0 ** -1074}
"""The smallest number above zero."""


def bits_of(code: Code, dtype: str, x: str) -> str:
    return code.let(f"bitcast {code.type(dtype)} {x} to {code.type(BITS[dtype])}")


def float_of(code: Code, dtype: str, bits: str) -> str:
    return code.let(f"bitcast {code.type(BITS[dtype])} {bits} to {code.type(dtype)}")


def signbit(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    dtype = BITS[inputs[0]]
    return compare(code, "slt", dtype, bits_of(code, inputs[0], real(values[0])), code.const(dtype, 0))


def _half_bits(code: Code, x: str) -> str:
    """A float16 (as a float32) as its own 16 bits, in an int32."""
    short = code.let(f"fptrunc {code.type('float32')} {x} to {code.memory('float16')}")
    word = code.let(f"bitcast {code.memory('float16')} {short} to {code.type('int16')}")
    return code.let(f"zext {code.type('int16')} {word} to {code.type('int32')}")


def _half_of(code: Code, bits: str) -> str:
    word = code.let(f"trunc {code.type('int32')} {bits} to {code.type('int16')}")
    short = code.let(f"bitcast {code.type('int16')} {word} to {code.memory('float16')}")
    return code.let(f"fpext {code.memory('float16')} {short} to {code.type('float32')}")


def _keeps_zeros() -> bool:
    """Does NumPy's `nextafter` of two float16 zeros return the first one?  NumPy 2.5 returns the second."""
    import numpy as np

    return not np.signbit(np.nextafter(np.float16(0.0), np.float16(-0.0)))


def nextafter(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """One step of the bits towards y: down if x moves to zero, up if away from it."""
    x, y = real(values[0]), real(values[1])
    dtype, zero = FLOAT[result], code.const(FLOAT[result], 0.0)
    word = BITS[result]
    unknown = compare(code, "uno", dtype, x, y)
    if result == "float16":  # what follows an infinity is a signalling NaN, whose conversion raises a flag
        still = compare(code, "ueq", dtype, x, y)
        bits = _half_bits(code, settled(code, dtype, choose(code, dtype, still, zero, x)))
    else:
        bits = bits_of(code, dtype, x)
    rising = compare(code, "olt", dtype, x, y)
    positive = compare(code, "ogt", dtype, x, zero)
    inwards = binary(code, "xor", "bool", rising, positive)
    step = choose(code, word, inwards, code.const(word, -1), code.const(word, 1))
    moved = binary(code, "add", word, bits, step)
    least = code.const(dtype, LEAST[result])
    found = _half_of(code, moved) if result == "float16" else float_of(code, dtype, moved)
    from_zero = code.intrinsic("llvm.copysign", dtype, least, y)
    found = choose(code, dtype, compare(code, "oeq", dtype, x, zero), from_zero, found)
    same = x if result == "float16" and _keeps_zeros() else y  # differ in the sign of zero
    found = choose(code, dtype, compare(code, "oeq", dtype, x, y), same, found)
    infinite = code.const(dtype, math.inf)
    over = both(code, compare(code, "olt", dtype, magnitude(code, dtype, x), infinite),
                compare(code, "oeq", dtype, magnitude(code, dtype, found), infinite))
    flag(code, "over", both(code, over, negated(code, unknown)))
    return choose(code, dtype, unknown, code.const(dtype, math.nan), found)


def spacing(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """The distance to the next float away from zero, with the sign of x (but not for float16)."""
    x = real(values[0])
    if result == "float16":
        return _half_spacing(code, x)
    word = BITS[result]
    finite = compare(code, "one", result, magnitude(code, result, x), code.const(result, math.inf))
    # what follows an infinity is a signalling NaN, which would raise a flag
    x = settled(code, result, choose(code, result, finite, x, code.const(result, 1.0)))
    following = binary(code, "add", word, bits_of(code, result, x), code.const(word, 1))
    step = binary(code, "fsub", result, float_of(code, result, following), x)
    zero = compare(code, "oeq", result, x, code.const(result, 0.0))
    step = choose(code, result, zero, magnitude(code, result, step), step)
    return choose(code, result, finite, step, code.const(result, math.nan))


def _half_spacing(code: Code, x: str) -> str:
    """The distance to the next float16 upwards: half as far below a power of two."""
    dtype, word = "float32", "int32"
    bits = bits_of(code, dtype, x)
    exponent = binary(code, "and", word, bits, code.const(word, 0x7F800000))
    power = float_of(code, dtype, exponent)
    even = compare(code, "eq", word, binary(code, "and", word, bits, code.const(word, 0x007FFFFF)),
                   code.const(word, 0))
    below = both(code, even, compare(code, "olt", dtype, x, code.const(dtype, 0.0)))
    share = choose(code, dtype, below, code.const(dtype, 2.0 ** -11), code.const(dtype, 2.0 ** -10))
    step = binary(code, "fmul", dtype, power, share)
    least = code.const(dtype, 2.0 ** -24)
    step = choose(code, dtype, compare(code, "olt", dtype, step, least), least, step)
    last = compare(code, "oeq", dtype, x, code.const(dtype, 65504.0))
    step = choose(code, dtype, last, code.const(dtype, math.inf), step)
    finite = compare(code, "one", dtype, magnitude(code, dtype, x), code.const(dtype, math.inf))
    return choose(code, dtype, finite, step, code.const(dtype, math.nan))


def split(code: Code, dtype: str, x: str) -> tuple[str, str]:
    """frexp: (mantissa in [0.5, 1), exponent in the format's integer); zero, infinities and NaN keep 0."""
    f = FORMATS[dtype]
    size = magnitude(code, dtype, x)
    tiny = compare(code, "olt", dtype, size, code.const(dtype, 2.0 ** (1 - f.bias)))
    lift = f.mantissa + 2
    lifted = choose(code, dtype, tiny, binary(code, "fmul", dtype, x, code.const(dtype, 2.0 ** lift)), x)
    bits = bits_of(code, dtype, lifted)
    field = binary(code, "and", f.bits, bits, code.const(f.bits, f.exponent))
    exponent = binary(code, "lshr", f.bits, field, code.const(f.bits, f.mantissa))
    offset = choose(code, f.bits, tiny, code.const(f.bits, f.bias - 1 + lift), code.const(f.bits, f.bias - 1))
    exponent = binary(code, "sub", f.bits, exponent, offset)
    rest = binary(code, "and", f.bits, bits, code.const(f.bits, ~f.exponent))
    mantissa = float_of(code, dtype, binary(code, "or", f.bits, rest,
                                            code.const(f.bits, (f.bias - 1) << f.mantissa)))
    kept = either(code, compare(code, "oeq", dtype, x, code.const(dtype, 0.0)),
                  compare(code, "ueq", dtype, size, code.const(dtype, math.inf)))
    return (choose(code, dtype, kept, x, mantissa),
            choose(code, f.bits, kept, code.const(f.bits, 0), exponent))


def frexp_0(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return split(code, FLOAT[inputs[0]], real(values[0]))[0]


def frexp_1(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    exponent = split(code, FLOAT[inputs[0]], real(values[0]))[1]
    return cast(code, BITS[inputs[0]], "int32", exponent)


def ldexp(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """x * 2^n rounded once: the first of two factors leaves a normal number, so it is exact."""
    f = FORMATS[FLOAT[result]]
    limit = 4 * f.bias
    n = real(values[1])
    n = code.intrinsic("llvm.smin", inputs[1], n, code.const(inputs[1], limit))
    n = code.intrinsic("llvm.smax", inputs[1], n, code.const(inputs[1], -limit))
    mantissa, exponent = split(code, f.dtype, real(values[0]))
    total = binary(code, "add", f.bits, exponent, real(cast(code, inputs[1], f.bits, n)))
    near = binary(code, "sub", f.bits, total, code.const(f.bits, 1))
    near = _between(code, f.bits, near, 2 - f.bias, f.bias)
    rest = _between(code, f.bits, binary(code, "sub", f.bits, total, near), 1 - f.bias, f.bias)
    once = binary(code, "fmul", f.dtype, mantissa, _power_of_two(code, f, near))
    return binary(code, "fmul", f.dtype, once, _power_of_two(code, f, rest))


def _between(code: Code, dtype: str, n: str, low: int, high: int) -> str:
    n = code.intrinsic("llvm.smax", dtype, n, code.const(dtype, low))
    return code.intrinsic("llvm.smin", dtype, n, code.const(dtype, high))


def _power_of_two(code: Code, f: Format, n: str) -> str:
    biased = binary(code, "add", f.bits, n, code.const(f.bits, f.bias))
    return float_of(code, f.dtype, binary(code, "shl", f.bits, biased, code.const(f.bits, f.mantissa)))


def modf_0(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """The fraction, with the sign of x; none for infinities."""
    x = real(values[0])
    infinite = compare(code, "oeq", result, magnitude(code, result, x), code.const(result, math.inf))
    known = settled(code, result, choose(code, result, infinite, code.const(result, 0.0), x))
    fraction = binary(code, "fsub", result, known, code.intrinsic("llvm.trunc", result, known))
    fraction = code.intrinsic("llvm.copysign", result, fraction, x)
    return choose(code, result, is_nan(code, result, x), x, fraction)


def modf_1(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return code.intrinsic("llvm.trunc", result, real(values[0]))


TABLE: Table = {
    "signbit": {"f": signbit},
    "nextafter": {"f": nextafter},
    "spacing": {"f": spacing},
    "frexp_0": {"f": frexp_0},
    "frexp_1": {"f": frexp_1},
    "ldexp": {"f": ldexp},
    "modf_0": {"f": modf_0},
    "modf_1": {"f": modf_1},
}
