"""Lowering rules for complex transcendental functions: libm's, called lane by lane, as NumPy does."""

from __future__ import annotations

import math

from diffuse.kernels.llvm.code import COMPONENT, ELEMENT, Code, Value
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
from diffuse.kernels.llvm.ops.libm import Parts, complex_function, lanewise, real_function


def libm(name: str) -> Rule:
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        part = COMPONENT[result]
        return lanewise(code, part, complex_function(code, part, name, 1), parts(values[0]))
    return rule


def log_scaled(factor: float) -> Rule:
    """The logarithm to another base."""
    def rule(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
        part = COMPONENT[result]
        a, b = parts(libm("clog")(code, inputs, result, values))
        by = code.const(part, factor)
        return binary(code, "fmul", part, a, by), binary(code, "fmul", part, b, by)
    return rule


def exp2(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    part = COMPONENT[result]
    a, b = (binary(code, "fmul", part, p, code.const(part, math.log(2.0))) for p in parts(values[0]))
    return libm("cexp")(code, inputs, result, ((a, b),))


def log1p(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    part, (a, b) = COMPONENT[result], parts(values[0])
    more = binary(code, "fadd", part, a, code.const(part, 1.0))
    size = real_function(code, "hypot", part, more, b)
    return real_function(code, "log", part, size), real_function(code, "atan2", part, b, more)


def expm1(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """expm1(x) cos(y) - 2 sin(y/2)^2 and exp(x) sin(y)."""
    part, (a, b) = COMPONENT[result], parts(values[0])
    half = real_function(code, "sin", part, binary(code, "fmul", part, b, code.const(part, 0.5)))
    twice = binary(code, "fmul", part, binary(code, "fmul", part, code.const(part, 2.0), half), half)
    grown, turned = real_function(code, "expm1", part, a), real_function(code, "cos", part, b)
    first = binary(code, "fmul", part, grown, turned)
    grown, turned = real_function(code, "exp", part, a), real_function(code, "sin", part, b)
    return binary(code, "fsub", part, first, twice), binary(code, "fmul", part, grown, turned)


def power(code: Code, inputs: Dtypes, result: str, values: tuple[Value, ...]) -> Value:
    """Whole exponents below 100 by repeated multiplication, as NumPy; others by libm."""
    part = COMPONENT[result]
    name = f"diffuse.power.{result}"
    system = complex_function(code, part, "cpow", 2)
    inner = Code(code.module, 1)
    _write_power(inner, result, system)
    element = ELEMENT[part]
    head = ", ".join(f"{element} %{p}" for p in "abcd")
    body = "\n".join(inner.lines)
    code.declare(f"define internal {{ {element}, {element} }} @{name}({head}) {{\n{body}\n}}")
    return lanewise(code, part, name, (*parts(values[0]), *parts(values[1])))


def _write_power(code: Code, result: str, system: str) -> None:
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
    code.do(f"%g = call {pair} @{system}({element} %a, {element} %b, {element} %c, {element} %d)")
    code.do(f"ret {pair} %g")
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


_LIBM = {
    "sqrt": "csqrt", "exp": "cexp", "log": "clog", "sin": "csin", "cos": "ccos", "tan": "ctan",
    "arcsin": "casin", "arccos": "cacos", "arctan": "catan", "sinh": "csinh", "cosh": "ccosh",
    "tanh": "ctanh", "arcsinh": "casinh", "arccosh": "cacosh", "arctanh": "catanh",
}

TABLE: Table = {
    "exp2": {"c": exp2},
    "expm1": {"c": expm1},
    "log1p": {"c": log1p},
    "log2": {"c": log_scaled(math.log2(math.e))},
    "log10": {"c": log_scaled(math.log10(math.e))},
    "power": {"c": power},
    "float_power": {"c": power},
    **{name: {"c": libm(c)} for name, c in _LIBM.items()},
}
