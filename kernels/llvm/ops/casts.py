"""Casts: what `astype` does, as NumPy does it on this machine.

Floats out of an integer's range, and NaN, become what x86's conversion gives: the integer's most negative
value, then truncated, since NumPy goes through int32 to the small integers.  LLVM leaves the result of such
a conversion open, so it is frozen and replaced.
"""

from __future__ import annotations

from diffuse.ir import ITEMSIZE
from diffuse.kernels.llvm.code import COMPONENT, Code, Value
from diffuse.kernels.llvm.ops.instructions import (
    binary,
    both,
    choose,
    compare,
    convert,
    either,
    letter,
    magnitude,
    nonzero,
    parts,
    real,
    width,
)


def cast(code: Code, source: str, target: str, value: Value) -> Value:
    """`value.astype(target)`."""
    if source == target:
        return value
    if target == "bool":
        return nonzero(code, source, value)
    if letter(target) == "c":
        part = COMPONENT[target]
        if letter(source) == "c":
            a, b = parts(value)
            return real(cast(code, COMPONENT[source], part, a)), real(cast(code, COMPONENT[source], part, b))
        return real(cast(code, source, part, value)), code.const(part, 0.0)
    if letter(source) == "c":
        return cast(code, COMPONENT[source], target, parts(value)[0])
    if letter(target) == "f":
        return _to_float(code, source, target, real(value))
    if letter(source) == "f":
        return _float_to_integer(code, source, target, real(value))
    return _resize(code, source, target, real(value))


def _resize(code: Code, source: str, target: str, value: str) -> str:
    """bool or integer -> integer: cut, or extended as the source's sign says."""
    if source != "bool" and ITEMSIZE[source] == ITEMSIZE[target]:
        return value
    if source != "bool" and ITEMSIZE[source] > ITEMSIZE[target]:
        return convert(code, "trunc", source, target, value)
    return convert(code, "sext" if letter(source) == "i" else "zext", source, target, value)


def _to_float(code: Code, source: str, target: str, value: str) -> str:
    if target == "float16":
        if letter(source) in "bu" and width(source) <= 8 or source == "int8":  # every value is a float16
            return real(cast(code, source, "float32", value))
        if source == "float64":
            return half(code, _single_to_odd(code, value))
        return half(code, real(cast(code, source, "float32", value)))
    if letter(source) != "f":
        return convert(code, "sitofp" if letter(source) == "i" else "uitofp", source, target, value)
    if code.type(source) == code.type(target):
        return value
    return convert(code, "fpext" if target == "float64" else "fptrunc", source, target, value)


def half(code: Code, value: str) -> str:
    """A float32 rounded to the nearest float16, still as a float32."""
    short = code.let(f"fptrunc {code.type('float32')} {value} to {code.memory('float16')}")
    return code.let(f"fpext {code.memory('float16')} {short} to {code.type('float32')}")


def _single_to_odd(code: Code, value: str) -> str:
    """float64 -> float32, inexact results rounded to an odd last bit: rounding once more then is right."""
    near = convert(code, "fptrunc", "float64", "float32", value)
    back = convert(code, "fpext", "float32", "float64", near)
    bits = code.let(f"bitcast {code.type('float32')} {near} to {code.type('int32')}")
    last = binary(code, "and", "int32", bits, code.const("int32", 1))
    even = compare(code, "eq", "int32", last, code.const("int32", 0))
    inexact = compare(code, "one", "float64", back, value)
    size, exact = magnitude(code, "float64", back), magnitude(code, "float64", value)
    beyond = compare(code, "ogt", "float64", size, exact)
    step = choose(code, "int32", beyond, code.const("int32", -1), code.const("int32", 1))
    odd = binary(code, "add", "int32", bits, step)
    bits = choose(code, "int32", both(code, even, inexact), odd, bits)
    return code.let(f"bitcast {code.type('int32')} {bits} to {code.type('float32')}")


def _float_to_integer(code: Code, source: str, target: str, value: str) -> str:
    if target == "uint64" or (target == "uint32" and source != "float16"):
        return _float_to_unsigned(code, source, target, value)
    if target == "uint32":
        return _resize(code, "int64", target, _truncated(code, source, "int64", value))
    if width(target) < 32:
        return _resize(code, "int32", target, _truncated(code, source, "int32", value))
    return _truncated(code, source, target, value)


def _truncated(code: Code, source: str, target: str, value: str) -> str:
    """int32 or int64 by the machine's instruction: out of range is the most negative integer."""
    bits = width(target)
    found = _to_signed(code, source, target, value)
    found = code.let(f"freeze {code.type(target)} {found}")
    inside = compare(code, "olt", source, value, code.const(source, 2.0 ** (bits - 1)))
    if source == "float64" and bits == 32:  # -2147483648.5 is still in range
        least = compare(code, "ogt", source, value, code.const(source, -(2.0 ** 31) - 1))
    else:
        least = compare(code, "oge", source, value, code.const(source, -(2.0 ** (bits - 1))))
    return choose(code, target, both(code, inside, least), found, code.const(target, -(2 ** (bits - 1))))


def _to_signed(code: Code, source: str, target: str, value: str) -> str:
    """A conversion that raises the flag of what is out of range, also where LLVM could move it into a branch
    that only values in range take: it does so with single elements, not with vectors."""
    if code.lanes > 1 or not code.module.target.flags:
        return convert(code, "fptosi", source, target, value)
    kind, wanted = code.type(source), code.type(target)
    name = f"llvm.experimental.constrained.fptosi.{wanted}.{ {'float': 'f32', 'double': 'f64'}[kind] }"
    code.declare(f"declare {wanted} @{name}({kind}, metadata)")
    return code.let(f'call {wanted} @{name}({kind} {value}, metadata !"fpexcept.strict")')


def _float_to_unsigned(code: Code, source: str, target: str, value: str) -> str:
    """Signed conversion below the middle of the range, shifted down by it above: as C compilers do."""
    signed = target[1:]
    middle = code.const(source, 2.0 ** (width(target) - 1))
    above = compare(code, "oge", source, value, middle)
    lowered = choose(code, source, above, binary(code, "fsub", source, value, middle), value)
    found = _truncated(code, source, signed, lowered)
    flipped = binary(code, "xor", signed, found, code.const(signed, -(2 ** (width(target) - 1))))
    return choose(code, signed, above, flipped, found)


def compare_mixed(code: Code, predicate: str, values: tuple[str, str], signed_first: bool) -> str:
    """int64 against uint64 by value: a negative number is below everything unsigned."""
    a, b = values
    zero = code.const("int64", 0)
    negative = compare(code, "slt", "int64", a if signed_first else b, zero)
    unsigned = compare(code, predicate, "int64", a, b)
    below = predicate in ("ult", "ule", "ne") if signed_first else predicate in ("ugt", "uge", "ne")
    if below:
        return either(code, negative, unsigned)
    return both(code, unsigned, binary(code, "xor", "bool", negative, code.const("bool", True)))
