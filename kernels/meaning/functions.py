"""Maps an op's name to the NumPy function that computes it: `function(*inputs, out=...)`.

Most ops are the ufunc of their name.  Where NumPy's bits are not the specification (`operations.exact`), as
for transcendental functions and complex products, the compiled routine is evaluated instead (see `routines`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from math import erf, erfc
from typing import Any

import numpy as np

from diffuse.kernels.body.operations import EXPONENTS

Array = np.ndarray[Any, np.dtype[Any]]
Function = Callable[..., Any]

_umath_clip: Any = import_module("numpy._core.umath").clip

def cast(value: Array, out: Array) -> None:
    """NumPy's `astype`; an imaginary part is dropped without its warning."""
    if value.dtype.kind == "c" and out.dtype.kind != "c":
        value = np.not_equal(value, 0) if out.dtype.kind == "b" else value.real
    if out.dtype == "uint32" and value.dtype in ("float32", "float64"):
        value = _unsigned(value)
    np.copyto(out, value, casting="unsafe")


def _unsigned(value: Array) -> Array:
    """Convert floats to uint32 by two conversions to int32, as compiled code and whole vectors of NumPy's do:
    what NumPy makes of floats out of range depends on their places and strides."""
    above = np.greater_equal(value, 2.0 ** 31)
    found = np.where(above, value - value.dtype.type(2.0 ** 31), value).astype("int32").view("uint32")
    np.bitwise_xor(found, np.uint32(1 << 31), out=found, where=above)
    return found


def where(condition: Array, a: Array, b: Array, out: Array) -> None:
    np.copyto(out, b, casting="unsafe")
    if condition.dtype.kind != "b":
        condition = np.not_equal(condition, 0)
    np.copyto(out, a, where=condition, casting="unsafe")


def truth(value: Array, out: Array) -> None:
    """Convert bools in memory, read as bytes, to bools: any nonzero byte is true."""
    np.not_equal(value, 0, out)


def _clip(value: Array, low: Array, high: Array, out: Array) -> None:
    """An element equal to a bound keeps its sign of zero, as in NumPy's loop for scalar bounds."""
    if value.dtype.kind != "f":
        _umath_clip(value, low, high, out=out)
    elif value.dtype == "float16":  # of two equal float16, NumPy's extremes return the first, else the second
        np.minimum(np.maximum(value, low, out=out), high, out=out)
    else:
        np.minimum(high, np.maximum(low, value, out=out), out=out)


def _quiet_extreme(ufunc: Any) -> Function:
    """`fmax` or `fmin`, returning the second of two zeros: NumPy does so in whole vectors, but returns the
    first in the remainder."""
    def compute(a: Array, b: Array, out: Array) -> None:
        found = np.asarray(ufunc(a, b))
        if out.dtype in ("float32", "float64") and not found.all():
            np.copyto(found, b, where=(a == 0) & (b == 0))
        np.copyto(out, found, casting="same_kind")
    return compute


def _predicate(ufunc: Any) -> Function:
    """A predicate of floats, which NumPy 2.4 writes to wrong places of strided outputs."""
    def compute(value: Array, out: Array) -> None:
        np.copyto(out, ufunc(value))
    return compute


def _negative(value: Array, out: Array) -> None:
    """NumPy 2.4 negates other elements in place where these lie 64 bytes, or 16 of four bytes each, apart."""
    if out.flags.c_contiguous:
        np.negative(value, out=out)
    else:
        np.copyto(out, np.negative(value))


def _real(value: Array, out: Array) -> None:
    np.copyto(out, value.real)


def _imag(value: Array, out: Array) -> None:
    np.copyto(out, value.imag)


def _by_element(function: Callable[[float], float]) -> Function:
    def compute(value: Array, out: Array) -> None:
        np.copyto(out, np.vectorize(function, otypes="d")(value), casting="unsafe")
    return compute


def _raised(exponent: float) -> Function:
    """`power` with a fixed exponent."""
    def compute(value: Array, out: Array) -> None:
        np.power(value, exponent, out=out)
    return compute


def _part(whole: Function, part: int) -> Function:
    """One output of a ufunc that has two (`modf_0`, `frexp_1`)."""
    def compute(*inputs: Array, out: Array) -> None:
        np.copyto(out, whole(*inputs)[part], casting="same_kind")
    return compute


BY_HAND: dict[str, Function] = {
    "cast": cast, "copy": cast, "where": where, "real": _real, "imag": _imag,
    "erf": _by_element(erf), "erfc": _by_element(erfc),
    "clip": _clip, "negative": _negative, "fmax": _quiet_extreme(np.fmax), "fmin": _quiet_extreme(np.fmin),
    **{name: _predicate(getattr(np, name)) for name in ("isnan", "isinf", "isfinite", "signbit")},
    **{name: _raised(exponent) for name, exponent in EXPONENTS.items()},
    "power-1": np.reciprocal, "power0.5": np.sqrt, "power2": np.square,
}


def function(name: str) -> Function:
    """NumPy's computation of the op `name`."""
    if name in BY_HAND:
        return BY_HAND[name]
    stem, _, part = name.rpartition("_")
    if part.isdigit():
        return _part(ufunc(stem), int(part))
    found: Function = ufunc(name)
    return found


def ufunc(name: str) -> Any:
    found = _umath_clip if name == "clip" else getattr(np, name, None)
    if not isinstance(found, np.ufunc):
        raise NotImplementedError(f"op {name!r} is no ufunc of NumPy: give it a row in "
                                  "functions.BY_HAND")
    return found
