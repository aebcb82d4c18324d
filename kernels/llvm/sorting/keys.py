"""Keys: unsigned integers in the order in which NumPy sorts the elements of a type.

The key of an integer is the integer with its sign bit flipped.  Floats of one sign are ordered as their bits
are; NumPy sorts both zeros as equal and all NaNs last, so these share a key each: the bits of +0.0, and all
ones.  Elements of up to four bytes have keys of 32 bits, all others of 64.
"""

from __future__ import annotations

from typing import NamedTuple

from diffuse.kernels.llvm.code import Code

BITS = {"bool": 8, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "float16": 16,
        "int32": 32, "uint32": 32, "float32": 32, "int64": 64, "uint64": 64, "float64": 64}
"""The element types that have keys, and their bits."""

_FRACTION = {"float16": 10, "float32": 23, "float64": 52}


def key_type(dtype: str) -> str:
    """The element type of the keys."""
    return "uint64" if BITS[dtype] == 64 else "uint32"


def raw_type(dtype: str) -> str:
    """The integer type that an element's bits are loaded as."""
    return f"uint{BITS[dtype]}"


class Facts(NamedTuple):
    """Facts about an element besides its key; each is a value of the raw type."""

    negative_zero: str
    """All ones for -0.0, else 0."""
    positive_zero: str
    nan: str
    """All ones for NaN, else 0."""


def encoded(code: Code, dtype: str, raw: str) -> tuple[str, Facts | None]:
    """The key of an element given by its bits, and for a float its facts."""
    bits, kind = BITS[dtype], code.type(raw_type(dtype))
    if dtype == "bool" or dtype.startswith("uint"):
        return widened(code, dtype, raw), None
    top = code.const(raw_type(dtype), -(1 << (bits - 1)))
    if dtype.startswith("int"):
        return widened(code, dtype, code.let(f"xor {kind} {raw}, {top}")), None
    none, ones = code.const(raw_type(dtype), 0), code.const(raw_type(dtype), -1)
    infinity = code.const(raw_type(dtype), ((1 << (bits - 1)) - 1) >> _FRACTION[dtype] << _FRACTION[dtype])
    magnitude = code.let(f"and {kind} {raw}, {code.const(raw_type(dtype), (1 << (bits - 1)) - 1)}")
    nan = code.let(f"icmp ugt {kind} {magnitude}, {infinity}")
    below = code.let(f"icmp eq {kind} {raw}, {top}")
    above = code.let(f"icmp eq {kind} {raw}, {none}")
    sign = code.let(f"ashr {kind} {raw}, {code.const(raw_type(dtype), bits - 1)}")
    flip = code.let(f"or {kind} {sign}, {top}")
    key = code.let(f"xor {kind} {raw}, {flip}")
    truth = code.type("bool")
    key = code.let(f"select {truth} {below}, {kind} {top}, {kind} {key}")
    key = code.let(f"select {truth} {nan}, {kind} {ones}, {kind} {key}")
    facts = [code.let(f"sext {truth} {flag} to {kind}") for flag in (below, above, nan)]
    return widened(code, dtype, key), Facts(*facts)


def decoded(code: Code, dtype: str, key: str, zero: str, nan: str) -> str:
    """The bits of the element with a given key; `zero` and `nan` are the bits of a float zero and NaN."""
    bits, kind = BITS[dtype], code.type(raw_type(dtype))
    if bits < 32:
        key = code.let(f"trunc {code.type('uint32')} {key} to {kind}")
    if dtype == "bool" or dtype.startswith("uint"):
        return key
    top = code.const(raw_type(dtype), -(1 << (bits - 1)))
    if dtype.startswith("int"):
        return code.let(f"xor {kind} {key}, {top}")
    truth = code.type("bool")
    sign = code.let(f"ashr {kind} {key}, {code.const(raw_type(dtype), bits - 1)}")
    positive = code.let(f"xor {kind} {sign}, {code.const(raw_type(dtype), -1)}")
    flip = code.let(f"or {kind} {positive}, {top}")
    raw = code.let(f"xor {kind} {key}, {flip}")
    is_zero = code.let(f"icmp eq {kind} {key}, {top}")
    raw = code.let(f"select {truth} {is_zero}, {kind} {zero}, {kind} {raw}")
    is_nan = code.let(f"icmp eq {kind} {key}, {code.const(raw_type(dtype), -1)}")
    return code.let(f"select {truth} {is_nan}, {kind} {nan}, {kind} {raw}")


def widened(code: Code, dtype: str, key: str) -> str:
    """A key of 32 bits for an element of fewer."""
    if BITS[dtype] >= 32:
        return key
    return code.let(f"zext {code.type(raw_type(dtype))} {key} to {code.type('uint32')}")
