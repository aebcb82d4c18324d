"""Transcendental functions written out in LLVM IR, by their names in C.

A function is written for any number of lanes; the bits of an element depend on that element alone.  Ordinary
operands take a path without branches inside the loop, the others a function that is called only where there
are some.  Nothing but IEEE 754's operations is used, so that all machines give the same bits.

Polynomials are minimax fits, made for these files with Remez' exchange in high precision.  Errors, measured
against long double on some millions of operands, are 0.9 units in the last place for exp and log, 1.1 for
pow and exp2, 1.5 for expm1, sin and cos, and at most 3; `UNITS` in tests/test_math.py has all of them.
Functions of complex numbers (`complex_exponential` and others) are made of these; their rules call them.

A float32 is computed as a float64 with shorter polynomials, and rounded once: overflow and underflow, with
their flags, then come from that rounding.  Where it is faster it is computed in its own format (`NARROW`
and `EITHER`).
"""

from __future__ import annotations

from collections.abc import Callable

from diffuse.kernels.llvm.code import Code
from diffuse.kernels.llvm.math import (
    error_function,
    exponential,
    hyperbolic,
    inverse_trigonometric,
    logaddexp,
    logarithm,
    power,
    trigonometric,
)
from diffuse.kernels.llvm.math.values import FLOAT, Real, widened

Function = Callable[..., Real]
"""A function of the operands and of whether 24 bits are enough, which returns the result."""

TABLE: dict[str, Function] = {
    "exp": exponential.exp, "exp2": exponential.exp2, "expm1": exponential.expm1,
    "log": logarithm.log, "log2": logarithm.log2, "log10": logarithm.log10, "log1p": logarithm.log1p,
    "sin": trigonometric.sin, "cos": trigonometric.cos, "tan": trigonometric.tan,
    "asin": inverse_trigonometric.asin, "acos": inverse_trigonometric.acos,
    "atan": inverse_trigonometric.atan, "atan2": inverse_trigonometric.atan2,
    "sinh": hyperbolic.sinh, "cosh": hyperbolic.cosh, "tanh": hyperbolic.tanh,
    "asinh": hyperbolic.asinh, "acosh": hyperbolic.acosh, "atanh": hyperbolic.atanh,
    "erf": error_function.erf, "erfc": error_function.erfc,
    "pow": power.pow, "cbrt": power.cbrt, "hypot": power.hypot,
    "logaddexp": logaddexp.logaddexp, "logaddexp2": logaddexp.logaddexp2,
}

NARROW: dict[str, Callable[..., Real]] = {
    "log": logarithm.log_single, "log2": logarithm.log2_single, "log10": logarithm.log10_single,
    "log1p": logarithm.log1p_single,
    "sin": trigonometric.sin_single, "cos": trigonometric.cos_single, "tan": trigonometric.tan_single,
    "atan2": inverse_trigonometric.atan2_single, "hypot": power.hypot_single, "cbrt": power.cbrt_single,
    "pow": power.pow_single,
}
"""Functions that are faster in float32 arithmetic, with an implementation of their own for it."""

EITHER = frozenset("exp exp2 expm1 sinh cosh tanh asinh acosh atanh erf erfc asin acos atan".split())
"""Functions that are faster in float32 arithmetic, with the implementation for float64."""


def call(code: Code, name: str, dtype: str, values: tuple[str, ...]) -> str:
    """Write one of the functions of `TABLE` for float32 or float64 values."""
    operands = [Real(code, v, dtype) for v in values]
    if dtype == FLOAT:
        return TABLE[name](*operands, False).name
    if name in EITHER:
        return TABLE[name](*operands, True).name
    if name in NARROW:
        return NARROW[name](*operands).name
    return widened(lambda *wide: TABLE[name](*wide, True), *operands).name
