"""Transcendental functions on x86-64 Linux: glibc's libmvec on whole vectors, or libm lane by lane.

Every element goes through the same routine wherever it stands, also in a loop of one lane, so that a
result depends on the element alone.

What was measured (glibc 2.36, against x87 long double on seven ranges from denormal to 1e308; float32 on
every 397th bit pattern and all of [0.5, 2)): all functions below stay within 4 ulp, and treat nan, inf, -0.0
and overflow as libm does.  Some raise floating-point flags that their results do not warrant; these are
called through `_clear_spurious_flags`.
"""

from __future__ import annotations

import math
import struct

from diffuse.ir import ITEMSIZE
from diffuse.kernels.llvm import expansion
from diffuse.kernels.llvm.code import ELEMENT, Code, guarded, with_lanes
from diffuse.kernels.llvm.ops.instructions import anywhere

LIBRARY = "libmvec.so.1"

UNARY = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
         "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "erf", "erfc")
BINARY = ("pow", "atan2", "hypot")

EXPANDED = ("exp", "log")
"""Functions of float64 whose ordinary arguments need no library (expansion.py)."""

MXCSR_INVALID, MXCSR_DIVIDE, MXCSR_OVERFLOW, MXCSR_UNDERFLOW = 1, 4, 8, 16
"""Bits of the status register of SSE."""
MXCSR_REPORTED = MXCSR_INVALID | MXCSR_DIVIDE | MXCSR_OVERFLOW | MXCSR_UNDERFLOW
"""All that NumPy reports."""

ALWAYS = (math.inf, 0.0)
NUMBERS = (0.0, 1e38)
MODERATE = (0.0, 65536.0)

WATCHED = {
    ("e", "exp"): NUMBERS, ("e", "sin"): MODERATE, ("e", "cos"): MODERATE, ("e", "pow"): ALWAYS,
    ("e", "atan2"): ALWAYS,
    ("d", "exp"): NUMBERS, ("d", "exp2"): NUMBERS, ("d", "tanh"): NUMBERS, ("d", "erf"): NUMBERS,
    ("d", "erfc"): NUMBERS, ("d", "asin"): NUMBERS, ("d", "acos"): NUMBERS,
    ("d", "sin"): MODERATE, ("d", "cos"): MODERATE, ("d", "tan"): MODERATE, ("d", "atan"): MODERATE,
    ("d", "log1p"): MODERATE, ("d", "asinh"): MODERATE, ("d", "hypot"): (2.0 ** -40, 65536.0),
    ("d", "expm1"): ALWAYS, ("d", "sinh"): ALWAYS, ("d", "cosh"): ALWAYS, ("d", "acosh"): ALWAYS,
    ("d", "atanh"): ALWAYS, ("d", "pow"): ALWAYS, ("d", "atan2"): ALWAYS,
}
"""Functions of each instruction set that raise flags which their results do not warrant ("invalid" for
exp(inf), "overflow" for sin(1e300)), with the magnitudes of operands, from and to, for which they do not:
looking at the flags costs more than some of the functions, so it is done for other operands only."""


def probe(sets: tuple[str, ...]) -> frozenset[str]:
    """The vector functions that libmvec has for these instruction sets; none if there is no libmvec."""
    import ctypes

    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return frozenset()
    names = [_symbol(letter, name, dtype) for letter in sets for name in (*UNARY, *BINARY)
             for dtype in ("float32", "float64")]
    return frozenset(name for name in names if hasattr(library, name))


def _width(letter: str, dtype: str) -> int:
    return 4 if (letter, dtype) == ("d", "float64") else 8


def _symbol(letter: str, name: str, dtype: str) -> str:
    operands, suffix = "v" * (2 if name in BINARY else 1), "f" if dtype == "float32" else ""
    return f"_ZGV{letter}N{_width(letter, dtype)}{operands}_{name}{suffix}"


def choose(sets: tuple[str, ...], symbols: frozenset[str], name: str, dtype: str) -> tuple[str, str]:
    """(instruction set, symbol) of the vector function to call; ("", libm's symbol) where there is none."""
    for letter in sets:
        # eight floats fill an AVX2 register: the 16-lane functions of AVX-512 would run half empty
        if letter == "e" and dtype == "float32":
            letter = "d"
        symbol = _symbol(letter, name, dtype)
        if symbol in symbols:
            return letter, symbol
    return "", name + ("f" if dtype == "float32" else "")


def call(code: Code, sets: tuple[str, ...], symbols: frozenset[str], name: str, dtype: str,
         values: tuple[str, ...]) -> str:
    if name not in UNARY and name not in BINARY:
        known = ", ".join((*UNARY, *BINARY))
        raise ValueError(f"no transcendental function {name!r}: expected one of {known}")
    if sets and dtype == "float64" and name in EXPANDED:
        return expansion.expand(code, name, values[0],
                                lambda inner, x: _library(inner, sets, symbols, name, dtype, (x,)))
    return _library(code, sets, symbols, name, dtype, values)


def _library(code: Code, sets: tuple[str, ...], symbols: frozenset[str], name: str, dtype: str,
             values: tuple[str, ...]) -> str:
    letter, symbol = choose(sets, symbols, name, dtype)
    if not letter:
        return _by_lane(code, symbol, dtype, values)
    width = _width(letter, dtype)
    if code.lanes == 1:  # the vector function all the same: its bits must not depend on the loop
        with with_lanes(code, width):
            wide = tuple(code.splat(dtype, v) for v in values)
            result = _vector(code, letter, name, symbol, dtype, wide)
        return code.let(f"extractelement <{width} x {ELEMENT[dtype]}> {result}, i64 0")
    if code.lanes == width:
        return _vector(code, letter, name, symbol, dtype, values)
    return _in_halves(code, letter, name, symbol, dtype, values)


def _in_halves(code: Code, letter: str, name: str, symbol: str, dtype: str, values: tuple[str, ...]) -> str:
    """Eight lanes through a function of four."""
    lanes, half = code.lanes, code.lanes // 2
    whole, results = code.type(dtype), []
    for first in (0, half):
        picked = f"<{half} x i32> <" + ", ".join(f"i32 {i}" for i in range(first, first + half)) + ">"
        parts = tuple(code.let(f"shufflevector {whole} {v}, {whole} poison, {picked}") for v in values)
        with with_lanes(code, half):
            results.append(_vector(code, letter, name, symbol, dtype, parts))
    kind = f"<{half} x {ELEMENT[dtype]}>"
    order = ", ".join(f"i32 {i}" for i in range(lanes))
    return code.let(f"shufflevector {kind} {results[0]}, {kind} {results[1]}, <{lanes} x i32> <{order}>")


def _by_lane(code: Code, symbol: str, dtype: str, values: tuple[str, ...]) -> str:
    element, kind, lanes = ELEMENT[dtype], code.type(dtype), code.lanes
    code.declare(f"declare {element} @{symbol}({', '.join([element] * len(values))}) nounwind")
    result = "poison"
    for lane in range(lanes):
        each = values if lanes == 1 else [code.let(f"extractelement {kind} {v}, i64 {lane}") for v in values]
        one = code.let(f"call {element} @{symbol}({', '.join(f'{element} {v}' for v in each)})")
        if lanes == 1:
            return one
        result = code.let(f"insertelement {kind} {result}, {element} {one}, i64 {lane}")
    return result


def _vector(code: Code, letter: str, name: str, symbol: str, dtype: str, values: tuple[str, ...]) -> str:
    kind = code.type(dtype)
    types = ", ".join([kind] * len(values))
    code.declare(f"declare {kind} @{symbol}({types}) nounwind")
    if (letter, name) in WATCHED:
        symbol = _clear_spurious_flags(code, symbol, kind, dtype, len(values), WATCHED[letter, name])
    return code.let(f"call {kind} @{symbol}({', '.join(f'{kind} {v}' for v in values)})")


def _clear_spurious_flags(code: Code, symbol: str, kind: str, dtype: str, operands: int,
              quiet: tuple[float, float]) -> str:
    """A function that calls `symbol` and puts back, as they were, the flags that its results do not warrant.

    It is a function of its own, so that no other instruction moves between the reading and the writing.
    """
    name = f"diffuse.{symbol}"
    parameters = ", ".join(f"{kind} %x{i}" for i in range(operands))
    inner = Code(code.module, code.lanes)
    inner.label("entry")
    at = inner.let("alloca i32, align 4")
    if quiet != ALWAYS:
        with guarded(inner, _within(inner, dtype, [f"%x{i}" for i in range(operands)], quiet)):
            result = inner.let(f"call {kind} @{symbol}({parameters})")
            inner.do(f"ret {kind} {result}")
            inner.label(inner.name("never"))
    code.declare("declare void @llvm.x86.sse.stmxcsr(ptr)")
    code.declare("declare void @llvm.x86.sse.ldmxcsr(ptr)")
    states = []
    for now in (False, True):
        if now:
            result = inner.let(f"call {kind} @{symbol}({parameters})")
        inner.do(f"call void @llvm.x86.sse.stmxcsr(ptr {at})")
        states.append(inner.let(f"load i32, ptr {at}, align 4"))
    kept = inner.let(f"or i32 {states[0]}, {~MXCSR_REPORTED & 0x3F}")
    raised = inner.let(f"and i32 {states[1]}, {inner.let(f'xor i32 {kept}, -1')}")
    with guarded(inner, inner.let(f"icmp ne i32 {raised}, 0")):
        warranted = _warranted(inner, dtype, result, [f"%x{i}" for i in range(operands)])
        drop = inner.let(f"and i32 {raised}, {inner.let(f'xor i32 {warranted}, -1')}")
        inner.do(f"store i32 {inner.let(f'xor i32 {states[1]}, {drop}')}, ptr {at}, align 4")
        inner.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {at})")
    inner.do(f"ret {kind} {result}")
    body = "\n".join(inner.lines)
    code.declare(f"define internal {kind} @{name}({parameters}) noinline nounwind {{\n{body}\n}}")
    return name


def _within(code: Code, dtype: str, operands: list[str], bounds: tuple[float, float]) -> str:
    """Are the magnitudes of all lanes of all operands in these bounds?  One i1; not so for NaN.

    Compared as integers, since a comparison of floats raises a flag of its own for NaN.
    """
    truth, bits = code.type("bool"), "int32" if dtype == "float32" else "int64"
    kind, outside = code.type(bits), ""
    largest = struct.unpack("<Q" if bits == "int64" else "<I", b"\xff" * (ITEMSIZE[bits] - 1) + b"\x7f")[0]
    for operand in operands:
        raw = code.let(f"bitcast {code.type(dtype)} {operand} to {kind}")
        size = code.let(f"and {kind} {raw}, {code.const(bits, largest)}")
        for word, bound in (("ult", bounds[0]), ("ugt", bounds[1])):
            if bound:
                limit = code.let(f"bitcast {code.type(dtype)} {code.const(dtype, bound)} to {kind}")
                beyond = code.let(f"icmp {word} {kind} {size}, {limit}")
                outside = code.let(f"or {truth} {outside}, {beyond}") if outside else beyond
    return code.let(f"xor i1 {anywhere(code, outside)}, true")


def _warranted(code: Code, dtype: str, result: str, operands: list[str]) -> str:
    """The flags that some lane gives reason for: a NaN from numbers, an infinity from finite numbers, or a
    result below the least normal number."""
    kind, truth = code.type(dtype), code.type("bool")
    size = code.intrinsic("llvm.fabs", dtype, result)
    infinite = code.const(dtype, math.inf)
    least = code.const(dtype, 2.0 ** (-126 if dtype == "float32" else -1022))
    invalid = code.let(f"fcmp uno {kind} {result}, {result}")
    over = code.let(f"fcmp oeq {kind} {size}, {infinite}")
    for operand in operands:
        number = code.let(f"fcmp ord {kind} {operand}, {operand}")
        invalid = code.let(f"and {truth} {invalid}, {number}")
        finite = code.let(f"fcmp olt {kind} {code.intrinsic('llvm.fabs', dtype, operand)}, {infinite}")
        over = code.let(f"and {truth} {over}, {finite}")
    flags = "0"
    under = code.let(f"fcmp olt {kind} {size}, {least}")
    for condition, bits in ((invalid, MXCSR_INVALID), (over, MXCSR_DIVIDE | MXCSR_OVERFLOW),
                            (under, MXCSR_UNDERFLOW)):
        some = code.let(f"select i1 {anywhere(code, condition)}, i32 {bits}, i32 0")
        flags = code.let(f"or i32 {flags}, {some}")
    return flags
