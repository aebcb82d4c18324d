"""Lowering rules for complex transcendental functions: NumPy's formulas over `kernels.llvm.math`."""

from __future__ import annotations

import math
from collections.abc import Callable

from diffuse.kernels.llvm.code import COMPONENT, ELEMENT, Code, Value
from diffuse.kernels.llvm.math import (
    complex_exponential,
    complex_inverse,
    complex_logarithm,
    complex_root,
)
from diffuse.kernels.llvm.math.branches import Pair
from diffuse.kernels.llvm.math.values import FLOAT, Real
from diffuse.kernels.llvm.ops.complexes import divide, multiply_plain
from diffuse.kernels.llvm.ops.instructions import (
    Dtypes,
    Rule,
    Table,
    binary,
    both,
    choose,
    compare,
    magnitude,
    parts,
)
from diffuse.kernels.llvm.ops.lanes import Parts, lanewise

Function = Callable[[Real, Real, bool], Pair]
"""A function of the parts and of whether 24 bits are enough."""


def call(code: Code, part: str, function: Function, values: Parts) -> Parts:
    """Write a function of a complex number; that of a complex64 is computed as that of a complex128."""
    a, b = (Real(code, p, part).to(FLOAT) for p in values)
    first, second = function(a, b, part != FLOAT)
    return first.to(part).name, second.to(part).name


def function(written: Function) -> Rule:
    """The rule of a function of one operand."""
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        return call(code, COMPONENT[result], written, parts(values[0]))
    return rule


def sin(a: Real, b: Real, short: bool) -> Pair:
    second, first = complex_exponential.sinh(b, a, short)
    return first, second


def cos(a: Real, b: Real, short: bool) -> Pair:
    return complex_exponential.cosh(-b, a, short)


def tan(a: Real, b: Real, short: bool) -> Pair:
    second, first = complex_exponential.tanh(b, a, short)
    return first, second


def sqrt(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """The square root in the format of the parts, to which NumPy rounds each step."""
    a, b = (Real(code, p, COMPONENT[result]) for p in parts(values[0]))
    first, second = complex_root.sqrt(a, b)
    return first.name, second.name


def log_scaled(factor: float) -> Rule:
    """The logarithm to another base."""
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        part = COMPONENT[result]
        a, b = call(code, part, complex_logarithm.log, parts(values[0]))
        by = code.const(part, factor)
        return binary(code, "fmul", part, a, by), binary(code, "fmul", part, b, by)
    return rule


def exp2(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    part = COMPONENT[result]
    a, b = (binary(code, "fmul", part, p, code.const(part, math.log(2.0))) for p in parts(values[0]))
    return call(code, part, complex_exponential.exp, (a, b))


def log1p(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    part, (a, b) = COMPONENT[result], parts(values[0])
    more = binary(code, "fadd", part, a, code.const(part, 1.0))
    size = complex_root.hypot(Real(code, more, part), Real(code, b, part)).name
    return code.math("log", part, size), code.math("atan2", part, b, more)


def expm1(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """expm1(x) cos(y) - 2 sin(y/2)^2 and exp(x) sin(y)."""
    part, (a, b) = COMPONENT[result], parts(values[0])
    half = code.math("sin", part, binary(code, "fmul", part, b, code.const(part, 0.5)))
    twice = binary(code, "fmul", part, binary(code, "fmul", part, code.const(part, 2.0), half), half)
    first = binary(code, "fmul", part, code.math("expm1", part, a), code.math("cos", part, b))
    second = binary(code, "fmul", part, code.math("exp", part, a), code.math("sin", part, b))
    return binary(code, "fsub", part, first, twice), second


def power(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """Whole exponents below 100 by repeated multiplication, as NumPy; others by a logarithm."""
    part = COMPONENT[result]
    name = f"diffuse.power.{result}"
    inner = Code(code.module, 1)
    _write_power(inner, result)
    element = ELEMENT[part]
    head = ", ".join(f"{element} %{p}" for p in "abcd")
    body = "\n".join(inner.lines)
    code.declare(f"define internal {{ {element}, {element} }} @{name}({head}) {{\n{body}\n}}")
    return lanewise(code, part, name, (*parts(values[0]), *parts(values[1])))


def _write_power(code: Code, result: str) -> None:
    """(%a + i%b) ** (%c + i%d), one lane."""
    part = COMPONENT[result]
    element, zero = ELEMENT[part], code.const(part, 0.0)
    pair = f"{{ {element}, {element} }}"

    def give(value: Parts) -> None:
        first = code.let(f"insertvalue {pair} poison, {element} {value[0]}, 0")
        code.do(f"ret {pair} {code.let(f'insertvalue {pair} {first}, {element} {value[1]}, 1')}")

    def is_zero(a: str, b: str) -> str:
        return both(code, compare(code, "oeq", part, a, zero), compare(code, "oeq", part, b, zero))

    def branch(condition: str, yes: str, no: str) -> None:
        code.do(f"br i1 {condition}, label %{yes}, label %{no}")

    code.label("entry")
    branch(is_zero("%c", "%d"), "one", "base")
    code.label("one")
    give((code.const(part, 1.0), zero))
    code.label("base")
    branch(is_zero("%a", "%b"), "nothing", "exponent")
    code.label("nothing")
    known = compare(code, "ogt", part, "%c", zero)
    unknown = binary(code, "fdiv", part, "%a", choose(code, part, known, code.const(part, 1.0), "%a"))
    worth = choose(code, part, known, zero, unknown)  # 0 / 0 is an invalid operation, as NumPy says
    give((worth, worth))
    code.label("exponent")
    size = magnitude(code, part, "%c")
    whole = compare(code, "oeq", part, code.intrinsic("llvm.trunc", part, "%c"), "%c")
    small = both(code, compare(code, "olt", part, size, code.const(part, 100.0)), whole)
    branch(both(code, small, compare(code, "oeq", part, "%d", zero)), "whole", "general")
    code.label("general")
    first, second = complex_logarithm.pow(*[Real(code, f"%{p}", part) for p in "abcd"])
    give((first.name, second.name))
    code.label("whole")
    code.do(f"%n0 = fptosi {element} {size} to i32")
    few = compare(code, "olt", part, "%c", code.const(part, 4.0))
    few = both(code, few, compare(code, "ogt", part, "%c", zero))
    code.do("br label %loop")
    product = _write_power_loop(code, result, few)
    code.label("done")
    up = compare(code, "ogt", part, "%c", zero)
    branch(up, "product", "quotient")
    code.label("product")
    give(product)
    code.label("quotient")
    give(parts(divide(code, (result, result), result, ((code.const(part, 1.0), zero), product))))


def _write_power_loop(code: Code, result: str, few: str) -> Parts:
    """Square and multiply from the lowest bit; up to the third power nothing is multiplied by one."""
    part = COMPONENT[result]
    element, one, zero = ELEMENT[part], code.const(part, 1.0), code.const(part, 0.0)
    code.label("loop")
    here = len(code.lines)
    m, k = multiply_plain(code, part, ("%r", "%i"), ("%x", "%y"))
    m, k = choose(code, part, "%first", "%x", m), choose(code, part, "%first", "%y", k)
    odd = code.let("trunc i32 %n to i1")
    product = choose(code, part, odd, m, "%r"), choose(code, part, odd, k, "%i")
    squared = multiply_plain(code, part, ("%x", "%y"), ("%x", "%y"))
    first = code.let(f"select i1 {odd}, i1 false, i1 %first")
    left = code.let("lshr i32 %n, 1")
    more = code.let(f"icmp ne i32 {left}, 0")
    code.do(f"br i1 {more}, label %loop, label %done")
    carried = [("%n", "i32", "%n0", left), ("%first", "i1", few, first),
               ("%r", element, one, product[0]), ("%i", element, zero, product[1]),
               ("%x", element, "%a", squared[0]), ("%y", element, "%b", squared[1])]
    code.lines[here:here] = [f"  {name} = phi {kind} [ {start}, %whole ], [ {following}, %loop ]"
                             for name, kind, start, following in carried]
    return product


_FUNCTIONS: dict[str, Function] = {
    "exp": complex_exponential.exp, "log": complex_logarithm.log, "sin": sin, "cos": cos, "tan": tan,
    "sinh": complex_exponential.sinh, "cosh": complex_exponential.cosh, "tanh": complex_exponential.tanh,
    "arcsin": complex_inverse.asin, "arccos": complex_inverse.acos, "arctan": complex_inverse.atan,
    "arcsinh": complex_inverse.asinh, "arccosh": complex_inverse.acosh, "arctanh": complex_inverse.atanh,
}

TABLE: Table = {
    "exp2": {"c": exp2},
    "expm1": {"c": expm1},
    "log1p": {"c": log1p},
    "log2": {"c": log_scaled(math.log2(math.e))},
    "log10": {"c": log_scaled(math.log10(math.e))},
    "sqrt": {"c": sqrt},
    "power": {"c": power},
    "float_power": {"c": power},
    **{name: {"c": function(written)} for name, written in _FUNCTIONS.items()},
}
