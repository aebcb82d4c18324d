"""Lowering rules for bool and the integers: two's complement that wraps, x // 0 == 0, shifts of any size.

Divisions raise the floating-point flags that NumPy's raise.
"""

from __future__ import annotations

from diffuse.kernels.llvm.code import Code, Value, guarded, with_lanes
from diffuse.kernels.llvm.ops.casts import compare_mixed
from diffuse.kernels.llvm.ops.instructions import (
    Dtypes,
    Rule,
    Table,
    anywhere,
    binary,
    both,
    choose,
    compare,
    convert,
    either,
    flag,
    letter,
    negated,
    nonzero,
    real,
    routine,
    width,
)
from diffuse.kernels.llvm.ops.lanes import extract, insert


def plain(instruction: str) -> Rule:
    """The rule of an LLVM instruction that already has NumPy's meaning."""
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        return binary(code, instruction, inputs[0], real(values[0]), real(values[1]))
    return rule


def identity(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return values[0]


def constant(value: bool) -> Rule:
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        return code.const("bool", value)
    return rule


def comparison(predicate: str) -> Rule:
    """`predicate` is eq, ne, lt, le, gt or ge; int64 and uint64 compare by value."""
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        a, b = real(values[0]), real(values[1])
        if predicate in ("eq", "ne"):
            full = predicate
        else:
            full = ("s" if inputs[0] == inputs[1] and letter(inputs[0]) == "i" else "u") + predicate
        if inputs[0] != inputs[1]:
            return compare_mixed(code, full, (a, b), signed_first=letter(inputs[0]) == "i")
        return compare(code, full, inputs[0], a, b)
    return rule


def logical(instruction: str) -> Rule:
    """and, or, xor of truth values, for every dtype."""
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        a, b = nonzero(code, inputs[0], values[0]), nonzero(code, inputs[1], values[1])
        return binary(code, instruction, "bool", a, b)
    return rule


def logical_not(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return negated(code, nonzero(code, inputs[0], values[0]))


def negative(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return binary(code, "sub", result, code.const(result, 0), real(values[0]))


def invert(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    ones = code.const("bool", True) if result == "bool" else code.const(result, -1)
    return binary(code, "xor", result, real(values[0]), ones)


def absolute(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    if letter(inputs[0]) == "u":
        return values[0]
    return code.intrinsic("llvm.abs", inputs[0], real(values[0]), "i1 false")


def sign(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    x, zero = real(values[0]), code.const(result, 0)
    if letter(result) == "u":
        return convert(code, "zext", "bool", result, compare(code, "ne", result, x, zero))
    above = convert(code, "zext", "bool", result, compare(code, "sgt", result, x, zero))
    below = convert(code, "sext", "bool", result, compare(code, "slt", result, x, zero))
    return binary(code, "or", result, above, below)


def square(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return binary(code, "mul", result, real(values[0]), real(values[0]))


def extreme(name: str) -> Rule:
    """`name` is max or min."""
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        sign = "s" if letter(inputs[0]) == "i" else "u"
        return code.intrinsic(f"llvm.{sign}{name}", inputs[0], real(values[0]), real(values[1]))
    return rule


def clip(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    raised = extreme("max")(code, inputs[:2], result, values[:2])
    return extreme("min")(code, inputs[:2], result, (raised, values[2]))


def left_shift(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return _shift(code, "shl", result, real(values[0]), real(values[1]))


def right_shift(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    a, b = real(values[0]), real(values[1])
    if letter(result) == "u":
        return _shift(code, "lshr", result, a, b)
    by = code.intrinsic("llvm.umin", result, b, code.const(result, width(result) - 1))
    return binary(code, "ashr", result, a, by)


def _shift(code: Code, instruction: str, dtype: str, a: str, b: str) -> str:
    """A shift whose result is 0 if the distance is the width or more, or negative."""
    inside = compare(code, "ult", dtype, b, code.const(dtype, width(dtype)))
    by = choose(code, dtype, inside, b, code.const(dtype, 0))
    return choose(code, dtype, inside, binary(code, instruction, dtype, a, by), code.const(dtype, 0))


def bitwise_count(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    found = code.intrinsic("llvm.ctpop", inputs[0], real(absolute(code, inputs, inputs[0], values)))
    return found if width(inputs[0]) == 8 else convert(code, "trunc", inputs[0], "uint8", found)


def quotient(code: Code, dtype: str, a: str, b: str) -> str:
    """a / b truncated towards zero, where b is neither 0 nor -1.

    Processors divide vectors of floats, not of integers: up to 32 bits the float quotient truncates to the
    right integer, since a fraction is at least 1/b away from the next one.  This also holds for 64-bit
    numbers that are small, as most are.
    """
    if width(dtype) < 64:
        return _by_floats(code, dtype, a, b)
    if code.lanes == 1:
        return binary(code, "sdiv" if letter(dtype) == "i" else "udiv", dtype, a, b)
    return routine(code, f"divide.{dtype}", dtype, (("a", dtype), ("b", dtype)),
                   lambda inner, parameters: _write_quotient(inner, dtype, *parameters), (a, b))


def _by_floats(code: Code, dtype: str, a: str, b: str) -> str:
    wide = "float64" if width(dtype) >= 32 else "float32"
    into, back = ("sitofp", "fptosi") if letter(dtype) == "i" else ("uitofp", "fptoui")
    x, y = convert(code, into, dtype, wide, a), convert(code, into, dtype, wide, b)
    return convert(code, back, wide, dtype, binary(code, "fdiv", wide, x, y))


EXACT = 1 << 51
"""Below this magnitude the float64 quotient of two integers truncates to the right integer: its distance to
the next integer, relatively at least 1/b, exceeds half of the distance between floats there."""


def _write_quotient(code: Code, dtype: str, a: str, b: str) -> None:
    """The body of a routine that divides 64-bit integers, as floats if those of all lanes are small."""
    kind, signed = code.type(dtype), letter(dtype) == "i"
    large = []
    for x in (a, b):
        moved = binary(code, "add", dtype, x, code.const(dtype, EXACT)) if signed else x
        large.append(compare(code, "ugt", dtype, moved, code.const(dtype, 2 * EXACT if signed else EXACT)))
    code.do(f"br i1 {anywhere(code, either(code, *large))}, label %whole, label %floats")
    code.label("whole")
    code.do(f"ret {kind} {binary(code, 'sdiv' if signed else 'udiv', dtype, a, b)}")
    code.label("floats")  # in a block of their own: truncating a float that is too large raises a flag
    code.do(f"ret {kind} {_by_floats(code, dtype, a, b)}")


def _divided(code: Code, dtype: str, a: str, b: str) -> tuple[str, str, str]:
    """(quotient towards zero, remainder, is b 0), with INT_MIN / -1 wrapping and x / 0 harmless."""
    one = code.const(dtype, 1)
    zero = compare(code, "eq", dtype, b, code.const(dtype, 0))
    if letter(dtype) == "u":
        safe = choose(code, dtype, zero, one, b)
        cut = quotient(code, dtype, a, safe)
    else:
        minus = compare(code, "eq", dtype, b, code.const(dtype, -1))
        safe = choose(code, dtype, either(code, zero, minus), one, b)
        cut = quotient(code, dtype, a, safe)
        cut = choose(code, dtype, minus, binary(code, "sub", dtype, code.const(dtype, 0), a), cut)
    rest = binary(code, "sub", dtype, a, binary(code, "mul", dtype, cut, b))
    return cut, rest, zero


def _floors(code: Code, dtype: str, rest: str, b: str) -> str:
    """Is the truncated quotient one above the floor?"""
    zero = code.const(dtype, 0)
    apart = compare(code, "slt", dtype, binary(code, "xor", dtype, rest, b), zero)
    return both(code, apart, compare(code, "ne", dtype, rest, zero))


def _is(code: Code, dtype: str, a: str, number: int) -> str:
    return compare(code, "eq", dtype, a, code.const(dtype, number))


def floor_divide(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    a, b = real(values[0]), real(values[1])
    cut, rest, zero = _divided(code, result, a, b)
    if letter(result) == "u":
        flag(code, "divide", zero)
    else:
        minus = _is(code, result, b, -1)
        with guarded(code, anywhere(code, either(code, zero, minus))):  # one test of the lanes for both flags
            flag(code, "divide", zero)
            flag(code, "over", both(code, minus, _is(code, result, a, -(2 ** (width(result) - 1)))))
        down = binary(code, "sub", result, cut, code.const(result, 1))
        cut = choose(code, result, _floors(code, result, rest, b), down, cut)
    return choose(code, result, zero, code.const(result, 0), cut)


def remainder(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    a, b = real(values[0]), real(values[1])
    _, rest, zero = _divided(code, result, a, b)
    flag(code, "divide", zero)
    if letter(result) == "i":
        moved = binary(code, "add", result, rest, b)
        rest = choose(code, result, _floors(code, result, rest, b), moved, rest)
    return choose(code, result, zero, code.const(result, 0), rest)


def fmod(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    _, rest, zero = _divided(code, result, real(values[0]), real(values[1]))
    flag(code, "divide", zero)
    return choose(code, result, zero, code.const(result, 0), rest)


def reciprocal(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """1 / x cut to an integer; 1 / 0 is the cast of infinity."""
    x = real(values[0])
    bits = width(result)
    infinite = 0 if bits < 32 or letter(result) == "u" else -(2 ** (bits - 1))
    zero = compare(code, "eq", result, x, code.const(result, 0))
    flag(code, "divide", zero)
    flag(code, "invalid", zero)
    found = choose(code, result, zero, code.const(result, infinite), code.const(result, 0))
    unit = compare(code, "eq", result, x, code.const(result, 1))
    if letter(result) == "i":
        unit = either(code, unit, compare(code, "eq", result, x, code.const(result, -1)))
    return choose(code, result, unit, x, found)


def power(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """Raise to a power by squaring, with wrap-around; exponents are not negative (the library refuses
    those)."""
    def write(inner: Code, parameters: tuple[str, ...]) -> None:
        kind, one = inner.type(result), inner.const(result, 1)
        a, b = parameters
        inner.do("br label %loop")
        inner.label("loop")
        inner.do(f"%r = phi {kind} [ {one}, %entry ], [ %r2, %loop ]")
        inner.do(f"%x = phi {kind} [ {a}, %entry ], [ %x2, %loop ]")
        inner.do(f"%n = phi {kind} [ {b}, %entry ], [ %n2, %loop ]")
        inner.do(f"%odd = trunc {kind} %n to {inner.type('bool')}")
        inner.do(f"%m = mul {kind} %r, %x")
        inner.do(f"%r2 = select {inner.type('bool')} %odd, {kind} %m, {kind} %r")
        inner.do(f"%x2 = mul {kind} %x, %x")
        inner.do(f"%n2 = lshr {kind} %n, {one}")
        more = anywhere(inner, compare(inner, "ne", result, "%n2", inner.const(result, 0)))
        inner.do(f"br i1 {more}, label %loop, label %exit")
        inner.label("exit")
        inner.do(f"ret {kind} %r2")
    return routine(code, f"power.{result.lstrip('u')}", result, (("a", result), ("b", result)), write,
                   (real(values[0]), real(values[1])))


def _gcd(code: Code, dtype: str, a: str, b: str) -> str:
    """The greatest common divisor of unsigned integers by Euclid's algorithm, until all lanes are done.

    64-bit division is lane by lane anyway, so there each lane has its own loop.
    """
    unsigned = "u" + dtype.lstrip("u")
    if width(dtype) == 64 and code.lanes > 1:
        found = "poison"
        for lane in range(code.lanes):
            x, y = extract(code, dtype, a, lane), extract(code, dtype, b, lane)
            with with_lanes(code, 1):
                one = _gcd(code, dtype, x, y)
            found = insert(code, dtype, found, one, lane)
        return found

    def write(inner: Code, parameters: tuple[str, ...]) -> None:
        kind, zero = inner.type(unsigned), inner.const(unsigned, 0)
        inner.do("br label %loop")
        inner.label("loop")
        inner.do(f"%x = phi {kind} [ %a, %entry ], [ %x2, %loop ]")
        inner.do(f"%y = phi {kind} [ %b, %entry ], [ %y2, %loop ]")
        done = compare(inner, "eq", unsigned, "%x", zero)
        _, rest, _ = _divided(inner, unsigned, "%y", "%x")
        inner.do(f"%x2 = select {inner.type('bool')} {done}, {kind} {zero}, {kind} {rest}")
        inner.do(f"%y2 = select {inner.type('bool')} {done}, {kind} %y, {kind} %x")
        more = anywhere(inner, compare(inner, "ne", unsigned, "%x2", zero))
        inner.do(f"br i1 {more}, label %loop, label %exit")
        inner.label("exit")
        inner.do(f"ret {kind} %y2")
    return routine(code, f"gcd.{unsigned}", unsigned, (("a", unsigned), ("b", unsigned)), write, (a, b))


def gcd(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    a, b = (real(absolute(code, (result,), result, (v,))) for v in values)
    return _gcd(code, result, a, b)


def lcm(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    a, b = (real(absolute(code, (result,), result, (v,))) for v in values)
    common = _gcd(code, result, a, b)
    share, _, _ = _divided(code, "u" + result.lstrip("u"), a, common)  # 0 / 0 only where a is 0 too
    return binary(code, "mul", result, share, b)


COMPARISONS = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
               "greater_equal": "ge"}

TABLE: Table = {
    "add": {"b": plain("or"), "iu": plain("add")},
    "subtract": {"iu": plain("sub")},
    "multiply": {"b": plain("and"), "iu": plain("mul")},
    "floor_divide": {"iu": floor_divide},
    "remainder": {"iu": remainder},
    "fmod": {"iu": fmod},
    "power": {"iu": power},
    "negative": {"iu": negative},
    "positive": {"iu": identity},
    "absolute": {"b": identity, "iu": absolute},
    "sign": {"iu": sign},
    "floor": {"biu": identity},
    "ceil": {"biu": identity},
    "trunc": {"biu": identity},
    "square": {"iu": square},
    "reciprocal": {"iu": reciprocal},
    "gcd": {"iu": gcd},
    "lcm": {"iu": lcm},
    "bitwise_and": {"biu": plain("and")},
    "bitwise_or": {"biu": plain("or")},
    "bitwise_xor": {"biu": plain("xor")},
    "invert": {"biu": invert},
    "left_shift": {"iu": left_shift},
    "right_shift": {"iu": right_shift},
    "bitwise_count": {"iu": bitwise_count},
    "logical_and": {"biufc": logical("and")},
    "logical_or": {"biufc": logical("or")},
    "logical_xor": {"biufc": logical("xor")},
    "logical_not": {"biufc": logical_not},
    "maximum": {"b": plain("or"), "iu": extreme("max")},
    "minimum": {"b": plain("and"), "iu": extreme("min")},
    "fmax": {"b": plain("or"), "iu": extreme("max")},
    "fmin": {"b": plain("and"), "iu": extreme("min")},
    "clip": {"iu": clip},
    "isfinite": {"biu": constant(True)},
    "isinf": {"biu": constant(False)},
    "isnan": {"biu": constant(False)},
    "conjugate": {"biu": identity},
    **{name: {"biu": comparison(predicate)} for name, predicate in COMPARISONS.items()},
}
