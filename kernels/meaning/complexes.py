"""Operations on complex numbers by NumPy's operations on their parts, with the bits of the compiled kernels.

NumPy's own functions may round otherwise (see `operations.exact`): they may fuse a product and a sum on one
processor and not on another.  The formulas here are those of `kernels.llvm.ops.complexes`, operation by
operation, so that a task with them is interpreted without waiting until a routine is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Function = Callable[..., None]


@cache
def fused(dtype: str) -> bool:
    """Does NumPy compute products of contiguous complex numbers of this type by the fused multiply-adds of
    the kernels on this processor, both in whole vectors and in the remainder?"""
    step = 2.0 ** -(np.finfo(dtype).nmant // 2 + 4)
    small, large = 2 * step + step * step, 2 + 2 * step  # (1 + step)^2 - 1 only if the square is not rounded
    x, y = np.full(33, complex(1 + step, 1), dtype), np.full(33, complex(-1, 1 + step), dtype)
    square, product = np.array([complex(small, large), complex(-large, small)], dtype)
    return all((x[:n] * x[:n] == square).all() and (np.square(x[:n]) == square).all()
               and (x[:n] * y[:n] == product).all() for n in range(1, 34))


def divide(x: Array, y: Array, out: Array) -> None:
    """Smith's method: divide by the larger part of the divisor first; by zero, divide part by part."""
    a, b, c, d = x.real, x.imag, y.real, y.imag
    c_size, d_size = np.abs(c), np.abs(d)
    real_larger = c_size >= d_size
    none = (c_size == 0) & (d_size == 0)
    one = c.dtype.type(1)
    small = np.where(real_larger, d, c)
    safe = np.where(none, one, np.where(real_larger, c, d))
    ratio = small / safe
    scale = one / (safe + small * ratio)
    top = np.where(real_larger, a, b) + np.where(real_larger, b, a) * ratio
    side = np.where(real_larger, b - a * ratio, b * ratio - a)
    out.real[...] = np.where(none, a / np.where(none, c_size, one), top * scale)
    out.imag[...] = np.where(none, b / np.where(none, d_size, one), side * scale)


def reciprocal(x: Array, out: Array) -> None:
    """1 / x, divided by the larger part first."""
    a, b = x.real, x.imag
    one = a.dtype.type(1)
    imaginary_larger = np.abs(a) <= np.abs(b)
    large = np.where(imaginary_larger, b, a)
    small = np.where(imaginary_larger, a, b)
    ratio = small / large
    below = small * ratio + large
    out.real[...] = np.where(imaginary_larger, ratio, one) / below
    out.imag[...] = np.where(imaginary_larger, -one, -ratio) / below


def absolute(x: Array, out: Array) -> None:
    """larger * sqrt(1 + (smaller / larger)^2); infinite if either part is, even beside a NaN."""
    a, b = np.abs(x.real), np.abs(x.imag)
    zero, one, infinite = a.dtype.type(0), a.dtype.type(1), a.dtype.type(np.inf)
    endless = (a == infinite) | (b == infinite)
    ordered = a > b
    larger, smaller = np.where(ordered, a, b), np.where(ordered, b, a)
    special = endless | (larger == 0)
    ratio = np.where(special, zero, smaller) / np.where(special, one, larger)
    sides = np.empty(ratio.shape, x.dtype)
    sides.real, sides.imag = ratio, one
    found = np.sqrt((sides * np.conjugate(sides)).real) * larger  # the product is fused
    found = np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), found)
    np.copyto(out, np.where(endless, infinite, found))


def multiply(x: Array, y: Array, out: Array) -> None:
    """NumPy's product of contiguous arrays."""
    np.copyto(out, np.multiply(_whole(x, out), _whole(y, out)))


def square(x: Array, out: Array) -> None:
    """NumPy's square of a contiguous array."""
    np.copyto(out, np.square(_whole(x, out)))


def rint(x: Array, out: Array) -> None:
    """Round each part."""
    out.real[...] = np.rint(x.real)
    out.imag[...] = np.rint(x.imag)


def _whole(x: Array, out: Array) -> Array:
    """An operand in the shape of the result, contiguous."""
    return np.ascontiguousarray(np.broadcast_to(x, out.shape))


BY_PARTS: dict[str, Function] = {"divide": divide, "reciprocal": reciprocal, "rint": rint}
BY_PRODUCTS: dict[str, Function] = {"absolute": absolute, "multiply": multiply, "square": square}
"""Functions that take fused products from NumPy."""


def function(name: str, dtypes: tuple[str, ...]) -> Function | None:
    """The function that computes an op on complex numbers with the bits of kernels, if there is one here."""
    if not dtypes or not dtypes[0].startswith("complex"):
        return None
    found = BY_PARTS.get(name)
    return found if found or name not in BY_PRODUCTS or not fused(dtypes[0]) else BY_PRODUCTS[name]
