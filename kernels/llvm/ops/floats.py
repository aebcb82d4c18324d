"""Lowering rules for real floats: IEEE arithmetic, NumPy's choices about NaN and signed zeros, libm's names.

A float16 is computed as a float32 by the same rules and rounded by `lowering` after each.
"""

from __future__ import annotations

import math
import struct

from diffuse.kernels.llvm import seeds
from diffuse.kernels.llvm.code import Code, Value
from diffuse.kernels.llvm.ops.bits import FORMATS, bits_of
from diffuse.kernels.llvm.ops.exact_fmod import exact_fmod
from diffuse.kernels.llvm.ops.instructions import (
    FLOAT,
    Dtypes,
    Rule,
    Table,
    anywhere,
    binary,
    both,
    choose,
    compare,
    fused,
    is_nan,
    magnitude,
    negated,
    real,
    routine,
    settled,
)
from diffuse.kernels.llvm.ops.integers import identity, plain


def unary(intrinsic: str) -> Rule:
    """The rule of an LLVM intrinsic that already has NumPy's meaning."""
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        return code.intrinsic(intrinsic, result, real(values[0]))
    return rule


def transcendental(name: str) -> Rule:
    """The rule of a function of the target's vector math, by its C name."""
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        return code.math(name, FLOAT[result], *(real(v) for v in values))
    return rule


def comparison(predicate: str) -> Rule:
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        return compare(code, predicate, inputs[0], real(values[0]), real(values[1]))
    return rule


def negative(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return code.let(f"fneg {code.type(result)} {real(values[0])}")


def sign(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """-1, 0 (never -0) or 1; NaN stays."""
    x, zero = real(values[0]), code.const(result, 0.0)
    found = choose(code, result, compare(code, "oeq", result, x, zero), zero, x)
    found = choose(code, result, compare(code, "olt", result, x, zero), code.const(result, -1.0), found)
    return choose(code, result, compare(code, "ogt", result, x, zero), code.const(result, 1.0), found)


def square(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return binary(code, "fmul", result, real(values[0]), real(values[0]))


def reciprocal(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return seeds.quotient(code, result, code.const(result, 1.0), real(values[0]))


def divide(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return seeds.quotient(code, result, real(values[0]), real(values[1]))


def sqrt(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return seeds.root(code, result, real(values[0]))


def scaled(numerator: float, denominator: float) -> Rule:
    """x times a constant, which NumPy rounds to the format of x."""
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        if FLOAT[result] == "float32":
            top, bottom = (struct.unpack("f", struct.pack("f", v))[0] for v in (numerator, denominator))
        else:
            top, bottom = numerator, denominator
        return binary(code, "fmul", result, real(values[0]), code.const(result, top / bottom))
    return rule


def isnan(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return is_nan(code, inputs[0], real(values[0]))


def isinf(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    size = magnitude(code, inputs[0], real(values[0]))
    return compare(code, "oeq", inputs[0], size, code.const(inputs[0], math.inf))


def isfinite(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    size = magnitude(code, inputs[0], real(values[0]))
    return compare(code, "one", inputs[0], size, code.const(inputs[0], math.inf))


def copysign(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return code.intrinsic("llvm.copysign", result, real(values[0]), real(values[1]))


def extreme(predicate: str, quiet: bool) -> Rule:
    """maximum and minimum propagate a NaN, fmax and fmin (`quiet`) ignore it.

    Of two zeros the second is taken, as by the vector instructions that NumPy uses; for float16 NumPy
    compares integers and takes the first.
    """
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        a, b = real(values[0]), real(values[1])
        strict = predicate.replace("t", "e") if result == "float16" else predicate
        kept = choose(code, result, compare(code, strict, result, a, b), a, b)
        return choose(code, result, is_nan(code, result, b if quiet else a), a, kept)
    return rule


def clip(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """min(max(x, low), high).  A NaN in any operand is the result; an x equal to a bound is returned
    itself."""
    x, low, high = (real(v) for v in values)
    for predicate, bound in (("olt", low), ("ogt", high)):
        x = choose(code, result, compare(code, predicate, result, x, bound), bound, x)
        # x wins when it is NaN (then the comparison has failed); a NaN bound wins otherwise.
        lost = both(code, is_nan(code, result, bound), compare(code, "ord", result, x, x))
        x = choose(code, result, lost, bound, x)
    return x


def heaviside(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    x, zero = real(values[0]), code.const(result, 0.0)
    found = choose(code, result, compare(code, "olt", result, x, zero), zero, code.const(result, 1.0))
    found = choose(code, result, compare(code, "oeq", result, x, zero), real(values[1]), found)
    return choose(code, result, is_nan(code, result, x), x, found)


def where(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """Select between values of any dtype."""
    condition, a, b = values
    if isinstance(a, tuple) and isinstance(b, tuple):
        return (choose(code, result, real(condition), a[0], b[0]),
                choose(code, result, real(condition), a[1], b[1]))
    return choose(code, result, real(condition), real(a), real(b))


def fmod(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """The exact remainder with the sign of the first operand, as libm's."""
    dtype = FLOAT[result]
    return routine(code, f"fmod.{dtype}", dtype, (("a", dtype), ("b", dtype)),
                   lambda inner, _: _write_fmod(inner, dtype), (real(values[0]), real(values[1])))


def _write_fmod(code: Code, dtype: str) -> None:
    """Write fmod.  If the quotient is an integer that a float can hold, one multiply-add is exact; else
    libm's loop runs.

    The rounded quotient is at most one too large, which shows as a negative remainder.
    """
    f, kind = FORMATS[dtype], code.type(dtype)
    x, y = magnitude(code, dtype, "%a"), magnitude(code, dtype, "%b")
    far, near = bits_of(code, dtype, x), bits_of(code, dtype, y)
    apart = binary(code, "sub", f.bits, far, near)
    easy = compare(code, "slt", f.bits, apart, code.const(f.bits, (f.mantissa - 2) << f.mantissa))
    easy = both(code, easy, compare(code, "slt", f.bits, far, code.const(f.bits, f.exponent)))
    easy = both(code, easy, compare(code, "slt", f.bits, near, code.const(f.bits, f.exponent)))
    easy = both(code, easy, compare(code, "sge", f.bits, near, code.const(f.bits, 1 << f.mantissa)))
    one, zero = code.const(dtype, 1.0), code.const(dtype, 0.0)
    x, y = choose(code, dtype, easy, x, one), choose(code, dtype, easy, y, one)
    turns = code.intrinsic("llvm.trunc", dtype, binary(code, "fdiv", dtype, x, y))
    rest = fused(code, dtype, code.let(f"fneg {kind} {turns}"), y, x)
    below = compare(code, "olt", dtype, rest, zero)
    rest = choose(code, dtype, below, binary(code, "fadd", dtype, rest, y), rest)
    quick = code.intrinsic("llvm.copysign", dtype, rest, "%a")
    code.do(f"br i1 {anywhere(code, negated(code, easy))}, label %slow, label %done")
    code.label("slow")
    library = code.module.target.library
    slow = binary(code, "frem", dtype, "%a", "%b") if library else exact_fmod(code, dtype, "%a", "%b")
    mixed = choose(code, dtype, easy, quick, slow)
    code.do("br label %done")
    code.label("done")
    code.do(f"ret {kind} {code.let(f'phi {kind} [ {quick}, %entry ], [ {mixed}, %slow ]')}")


def floored(code: Code, dtype: str, a: str, b: str) -> tuple[str, str, str]:
    """The remainder with the sign of b, from libm's fmod; returns both, and whether the quotient is one
    less."""
    zero = code.const(dtype, 0.0)
    rest = real(fmod(code, (dtype, dtype), dtype, (a, b)))
    some = compare(code, "une", dtype, rest, zero)
    apart = binary(code, "xor", "bool", compare(code, "olt", dtype, b, zero),
                   compare(code, "olt", dtype, rest, zero))
    low = both(code, some, apart)
    moved = choose(code, dtype, low, binary(code, "fadd", dtype, rest, b), rest)
    return rest, choose(code, dtype, some, moved, code.intrinsic("llvm.copysign", dtype, zero, b)), low


def floor_divide(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """The floor of the quotient, from the exact remainder and rounded to the nearest integer."""
    a, b = real(values[0]), real(values[1])
    zero, one = code.const(result, 0.0), code.const(result, 1.0)
    none = compare(code, "oeq", result, b, zero)
    ratio = binary(code, "fdiv", result, a, b)
    safe = settled(code, result, choose(code, result, none, one, b))
    part = settled(code, result, choose(code, result, none, zero, a))  # infinities have no remainder
    rest, _, low = floored(code, result, part, safe)
    turns = binary(code, "fdiv", result, binary(code, "fsub", result, part, rest), safe)
    turns = choose(code, result, low, binary(code, "fsub", result, turns, one), turns)
    floor = code.intrinsic("llvm.floor", result, turns)
    over = compare(code, "ogt", result, binary(code, "fsub", result, turns, floor), code.const(result, 0.5))
    floor = choose(code, result, over, binary(code, "fadd", result, floor, one), floor)
    empty = compare(code, "oeq", result, turns, zero)  # a zero has the sign of the quotient
    floor = choose(code, result, empty, code.intrinsic("llvm.copysign", result, zero, ratio), floor)
    return choose(code, result, none, ratio, floor)


def remainder(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return floored(code, result, real(values[0]), real(values[1]))[1]


_MATH = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos",
    "arctan": "atan", "arctan2": "atan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "hypot": "hypot", "cbrt": "cbrt",
    "power": "pow", "float_power": "pow", "erf": "erf", "erfc": "erfc",
    "logaddexp": "logaddexp", "logaddexp2": "logaddexp2",
}

TABLE: Table = {
    "add": {"f": plain("fadd")},
    "subtract": {"f": plain("fsub")},
    "multiply": {"f": plain("fmul")},
    "divide": {"f": divide},
    "floor_divide": {"f": floor_divide},
    "remainder": {"f": remainder},
    "fmod": {"f": fmod},
    "negative": {"f": negative},
    "positive": {"f": identity},
    "absolute": {"f": unary("llvm.fabs")},
    "fabs": {"f": unary("llvm.fabs")},
    "sign": {"f": sign},
    "rint": {"f": unary("llvm.rint")},
    "floor": {"f": unary("llvm.floor")},
    "ceil": {"f": unary("llvm.ceil")},
    "trunc": {"f": unary("llvm.trunc")},
    "sqrt": {"f": sqrt},
    "square": {"f": square},
    "reciprocal": {"f": reciprocal},
    "degrees": {"f": scaled(180.0, math.pi)},
    "rad2deg": {"f": scaled(180.0, math.pi)},
    "radians": {"f": scaled(math.pi, 180.0)},
    "deg2rad": {"f": scaled(math.pi, 180.0)},
    "heaviside": {"f": heaviside},
    "equal": {"f": comparison("oeq")},
    "not_equal": {"f": comparison("une")},
    "less": {"f": comparison("olt")},
    "less_equal": {"f": comparison("ole")},
    "greater": {"f": comparison("ogt")},
    "greater_equal": {"f": comparison("oge")},
    "maximum": {"f": extreme("ogt", quiet=False)},
    "minimum": {"f": extreme("olt", quiet=False)},
    "fmax": {"f": extreme("ogt", quiet=True)},
    "fmin": {"f": extreme("olt", quiet=True)},
    "clip": {"f": clip},
    "isfinite": {"f": isfinite},
    "isinf": {"f": isinf},
    "isnan": {"f": isnan},
    "copysign": {"f": copysign},
    "conjugate": {"f": identity},
    "where": {"biufc": where},
    **{name: {"f": transcendental(c)} for name, c in _MATH.items()},
}
