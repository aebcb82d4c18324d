"""Lowering rules for complex numbers, which are pairs of floats: NumPy's formulas, part by part.

Products and squares are fused multiply-adds because NumPy's vector loops are; quotients are Smith's method.
Transcendental functions are in `complex_math`.
"""

from __future__ import annotations

import math

from diffuse.kernels.llvm.code import COMPONENT, Code, Value
from diffuse.kernels.llvm.math.complex_root import hypot
from diffuse.kernels.llvm.math.values import Real
from diffuse.kernels.llvm.ops.instructions import (
    Dtypes,
    Rule,
    Table,
    binary,
    both,
    choose,
    compare,
    either,
    fused,
    is_nan,
    magnitude,
    negated,
    parts,
    settled,
)
from diffuse.kernels.llvm.ops.integers import identity, plain
from diffuse.kernels.llvm.ops.lanes import Parts


def partwise(rule: Rule) -> Rule:
    """A rule of floats for the real and the imaginary parts."""
    def lowered(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        part = COMPONENT[result]
        dtypes = (part,) * len(values)
        first, second = (rule(code, dtypes, part, tuple(parts(v)[k] for v in values)) for k in (0, 1))
        assert isinstance(first, str) and isinstance(second, str)
        return first, second
    return lowered


def minus(code: Code, part: str, a: str) -> str:
    return code.let(f"fneg {code.type(part)} {a}")


def negative(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    a, b = parts(values[0])
    return minus(code, COMPONENT[result], a), minus(code, COMPONENT[result], b)


def conjugate(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    a, b = parts(values[0])
    return a, minus(code, COMPONENT[result], b)


def rint(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    a, b = (code.intrinsic("llvm.rint", COMPONENT[result], p) for p in parts(values[0]))
    return a, b


def multiply_plain(code: Code, part: str, x: Parts, y: Parts) -> Parts:
    """The textbook product, each operation rounded: NumPy's powers are made of it."""
    (a, b), (c, d) = x, y
    ac, bd, ad, bc = (binary(code, "fmul", part, p, q) for p, q in ((a, c), (b, d), (a, d), (b, c)))
    return binary(code, "fsub", part, ac, bd), binary(code, "fadd", part, ad, bc)


def multiply(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    part, (a, b), (c, d) = COMPONENT[result], parts(values[0]), parts(values[1])
    crossed = minus(code, part, binary(code, "fmul", part, b, d))
    return (fused(code, part, a, c, crossed),
            fused(code, part, a, d, binary(code, "fmul", part, b, c)))


def square(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    part, (a, b) = COMPONENT[result], parts(values[0])
    product = binary(code, "fmul", part, a, b)
    return (fused(code, part, a, a, minus(code, part, binary(code, "fmul", part, b, b))),
            binary(code, "fadd", part, product, product))


def divide(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """Smith's method: divide by the larger part of the divisor first; by zero, divide part by part."""
    part, (a, b), (c, d) = COMPONENT[result], parts(values[0]), parts(values[1])
    zero, one = code.const(part, 0.0), code.const(part, 1.0)
    c_size, d_size = magnitude(code, part, c), magnitude(code, part, d)
    real_larger = compare(code, "oge", part, c_size, d_size)
    none = both(code, compare(code, "oeq", part, c_size, zero), compare(code, "oeq", part, d_size, zero))
    large = choose(code, part, real_larger, c, d)
    small = choose(code, part, real_larger, d, c)
    safe = choose(code, part, none, one, large)
    ratio = binary(code, "fdiv", part, small, settled(code, part, safe))
    below = binary(code, "fadd", part, safe, binary(code, "fmul", part, small, ratio))
    scale = binary(code, "fdiv", part, one, below)

    first = choose(code, part, real_larger, a, b)
    second = choose(code, part, real_larger, b, a)
    top = binary(code, "fadd", part, first, binary(code, "fmul", part, second, ratio))
    tilted = binary(code, "fmul", part, a, ratio)
    side = choose(code, part, real_larger, binary(code, "fsub", part, b, tilted),
                  binary(code, "fsub", part, binary(code, "fmul", part, b, ratio), a))
    c_safe, d_safe = (settled(code, part, choose(code, part, none, size, one)) for size in (c_size, d_size))
    return (choose(code, part, none, binary(code, "fdiv", part, a, c_safe),
                   binary(code, "fmul", part, top, scale)),
            choose(code, part, none, binary(code, "fdiv", part, b, d_safe),
                   binary(code, "fmul", part, side, scale)))


def reciprocal(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    part, (a, b) = COMPONENT[result], parts(values[0])
    imaginary_larger = compare(code, "ole", part, magnitude(code, part, a), magnitude(code, part, b))
    small = choose(code, part, imaginary_larger, a, b)
    large = choose(code, part, imaginary_larger, b, a)
    ratio = binary(code, "fdiv", part, small, large)
    below = binary(code, "fadd", part, binary(code, "fmul", part, small, ratio), large)
    if_imaginary = binary(code, "fdiv", part, ratio, below)
    if_real = binary(code, "fdiv", part, code.const(part, 1.0), below)
    return (choose(code, part, imaginary_larger, if_imaginary, if_real),
            choose(code, part, imaginary_larger, binary(code, "fdiv", part, code.const(part, -1.0), below),
                   binary(code, "fdiv", part, minus(code, part, ratio), below)))


def absolute(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """larger * sqrt(1 + (smaller / larger)^2); infinite if either part is, even beside a NaN."""
    a, b = (magnitude(code, result, p) for p in parts(values[0]))
    infinite = code.const(result, math.inf)
    a_endless, b_endless = (compare(code, "oeq", result, p, infinite) for p in (a, b))
    endless = either(code, a_endless, b_endless)
    unknown = either(code, is_nan(code, result, a), is_nan(code, result, b))
    ordered = compare(code, "ogt", result, a, b)
    larger, smaller = choose(code, result, ordered, a, b), choose(code, result, ordered, b, a)
    zero, one = code.const(result, 0.0), code.const(result, 1.0)
    special = either(code, endless, compare(code, "oeq", result, larger, zero))
    ratio = binary(code, "fdiv", result, settled(code, result, choose(code, result, special, zero, smaller)),
                   settled(code, result, choose(code, result, special, one, larger)))
    root = code.intrinsic("llvm.sqrt", result, fused(code, result, ratio, ratio, one))
    found = binary(code, "fmul", result, root, larger)
    found = choose(code, result, unknown, code.const(result, math.nan), found)
    return choose(code, result, endless, infinite, found)


def sign(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """x / |x|, and zero for zero; where |x| is infinite, the direction of an infinite part."""
    part, (a, b) = COMPONENT[result], parts(values[0])
    zero, one, infinite = code.const(part, 0.0), code.const(part, 1.0), code.const(part, math.inf)
    size = hypot(Real(code, a, part), Real(code, b, part)).name
    none, endless = compare(code, "oeq", part, size, zero), compare(code, "oeq", part, size, infinite)
    shared = settled(code, part, choose(code, part, either(code, none, endless), one, size))
    a_endless = compare(code, "oeq", part, magnitude(code, part, a), infinite)
    b_endless = compare(code, "oeq", part, magnitude(code, part, b), infinite)
    nan = code.const(part, math.nan)
    found = []
    for p, along in ((a, a_endless), (b, negated(code, a_endless))):
        unit = choose(code, part, along, code.intrinsic("llvm.copysign", part, one, p), zero)
        unit = choose(code, part, both(code, a_endless, b_endless), nan, unit)
        value = choose(code, part, endless, unit, binary(code, "fdiv", part, p, shared))
        found.append(choose(code, part, none, zero, value))
    return found[0], found[1]


def equality(predicate: str, join: str) -> Rule:
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        part, (a, b), (c, d) = COMPONENT[inputs[0]], parts(values[0]), parts(values[1])
        return binary(code, join, "bool", compare(code, predicate, part, a, c),
                      compare(code, predicate, part, b, d))
    return rule


def ordered(code: Code, part: str, strict: str, last: str, x: Parts, y: Parts) -> str:
    """Lexicographic: by the real parts (unless an imaginary part is NaN), by the imaginary ones if equal."""
    known = compare(code, "ord", part, x[1], y[1])
    first = both(code, compare(code, strict, part, x[0], y[0]), known)
    second = both(code, compare(code, "oeq", part, x[0], y[0]), compare(code, last, part, x[1], y[1]))
    return either(code, first, second)


def comparison(strict: str, last: str) -> Rule:
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        return ordered(code, COMPONENT[inputs[0]], strict, last, parts(values[0]), parts(values[1]))
    return rule


def choose_parts(code: Code, part: str, condition: str, x: Parts, y: Parts) -> Parts:
    return choose(code, part, condition, x[0], y[0]), choose(code, part, condition, x[1], y[1])


def unknown(code: Code, part: str, x: Parts) -> str:
    return compare(code, "uno", part, x[0], x[1])


def extreme(strict: str, quiet: bool) -> Rule:
    """The lexicographically larger or smaller number; NaN propagates, or (`quiet`) is ignored."""
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        part, x, y = COMPONENT[result], parts(values[0]), parts(values[1])
        kept = ordered(code, part, strict, strict.replace("t", "e"), x, y)
        kept = either(code, kept, unknown(code, part, y if quiet else x))
        return choose_parts(code, part, kept, x, y)
    return rule


def clip(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """min(max(x, low), high) in lexicographic order, ignoring NaN parts except those of x."""
    part, (x, low, high) = COMPONENT[result], (parts(v) for v in values)
    for strict, bound in (("ogt", low), ("olt", high)):
        first = compare(code, strict, part, x[0], bound[0])
        level = compare(code, "oeq", part, x[0], bound[0])
        second = both(code, level, compare(code, strict, part, x[1], bound[1]))
        kept = either(code, either(code, first, second), unknown(code, part, x))
        x = choose_parts(code, part, kept, x, bound)
    return x


def classified(predicate: str, join: str) -> Rule:
    """isnan, isinf and isfinite: compare |part| with infinity, for both parts."""
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        part = COMPONENT[inputs[0]]
        infinite = code.const(part, math.inf)
        a, b = (compare(code, predicate, part, magnitude(code, part, p), infinite) for p in parts(values[0]))
        return binary(code, join, "bool", a, b)
    return rule


def component(which: int) -> Rule:
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        return parts(values[0])[which]
    return rule


def imaginary_of_real(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    return code.const(result, 0)


TABLE: Table = {
    "add": {"c": partwise(plain("fadd"))},
    "subtract": {"c": partwise(plain("fsub"))},
    "multiply": {"c": multiply},
    "divide": {"c": divide},
    "negative": {"c": negative},
    "positive": {"c": identity},
    "conjugate": {"c": conjugate},
    "rint": {"c": rint},
    "square": {"c": square},
    "reciprocal": {"c": reciprocal},
    "absolute": {"c": absolute},
    "sign": {"c": sign},
    "equal": {"c": equality("oeq", "and")},
    "not_equal": {"c": equality("une", "or")},
    "less": {"c": comparison("olt", "olt")},
    "less_equal": {"c": comparison("olt", "ole")},
    "greater": {"c": comparison("ogt", "ogt")},
    "greater_equal": {"c": comparison("ogt", "oge")},
    "maximum": {"c": extreme("ogt", quiet=False)},
    "minimum": {"c": extreme("olt", quiet=False)},
    "fmax": {"c": extreme("ogt", quiet=True)},
    "fmin": {"c": extreme("olt", quiet=True)},
    "clip": {"c": clip},
    "isnan": {"c": classified("uno", "or")},
    "isinf": {"c": classified("oeq", "or")},
    "isfinite": {"c": classified("one", "and")},
    "real": {"biuf": identity, "c": component(0)},
    "imag": {"biuf": imaginary_of_real, "c": component(1)},
}
