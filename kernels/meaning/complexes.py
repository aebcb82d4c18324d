"""Operations on complex numbers by NumPy's operations on their parts, with the bits of the compiled kernels.

NumPy's own functions may round otherwise (see `operations.exact`): they may fuse a product and a sum on one
processor and not on another.  The formulas here are those of `kernels.llvm.ops.complexes`, operation by
operation, so that a task with them is interpreted without waiting until a routine is compiled.  Where NumPy's
function turns out to round as the formula does, it is called instead, as it is ten times as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
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


def rint(x: Array, out: Array) -> None:
    """Round each part."""
    out.real[...] = np.rint(x.real)
    out.imag[...] = np.rint(x.imag)


FORMULAS: dict[str, Function] = {"divide": divide, "reciprocal": reciprocal, "rint": rint,
                                 "absolute": absolute}
PRODUCTS = ("multiply", "square", "absolute")
"""Operations that need NumPy's fused products."""
OPERATIONS = (*FORMULAS, "multiply", "square")


@cache
def function(name: str, dtype: str) -> Function | None:
    """The function that computes an op on complex numbers of this type with the bits of kernels: NumPy's, on
    contiguous arrays, where it rounds as the formula does, else the formula; None if there is none here."""
    if name not in OPERATIONS or not dtype.startswith("complex") or name in PRODUCTS and not fused(dtype):
        return None
    ufunc, formula = getattr(np, name), FORMULAS.get(name)
    if formula is None:
        return partial(_contiguous, ufunc)
    return partial(_ordinary, ufunc, formula) if _agree(ufunc, formula, dtype) else formula


def _contiguous(ufunc: Any, *inputs: Array, out: Array) -> None:
    """NumPy's function on contiguous arrays, as it may round otherwise where elements lie apart."""
    np.copyto(out, ufunc(*[np.ascontiguousarray(np.broadcast_to(x, out.shape)) for x in inputs]))


def _ordinary(ufunc: Any, formula: Function, *inputs: Array, out: Array) -> None:
    """NumPy's function; and the formula, for its floating-point errors, where there may be any."""
    raised: list[str] = []
    with np.errstate(all="call", call=lambda kind, _: raised.append(kind)):
        _contiguous(ufunc, *inputs, out=out)
    if raised or not np.isfinite(out).all():
        formula(*inputs, out=out)


def _agree(ufunc: Any, formula: Function, dtype: str) -> bool:
    """Do both compute the same bits of numbers that tell ways of rounding apart, and of special numbers?"""
    part = np.finfo(dtype)
    line = np.array([0.0, -0.0, 1.0, -3.0, np.inf, -np.inf, np.nan, part.max, part.tiny], part.dtype)
    k = np.arange(1, 68)
    x = np.empty(line.size ** 2 + k.size, dtype)
    x.real = np.concatenate([np.sqrt(k), np.repeat(line, line.size)])
    x.imag = np.concatenate([np.sqrt(k * 29 % 67), np.tile(line, line.size)])
    inputs = [(x, np.roll(x, turn)) for turn in (1, 7, 70)] if ufunc.nin == 2 else [(x,)]
    with np.errstate(all="ignore"):
        return all(_same(partial(_contiguous, ufunc), formula, [one[:n] for one in given])
                   for given in inputs for n in (1, 2, 3, 33, x.size))


def _same(one: Function, other: Function, inputs: list[Array]) -> bool:
    """Do two functions compute the same bits, where one NaN is like another?"""
    found = [np.empty_like(inputs[0]) for _ in "ab"]
    parts = []
    for function, out in zip((one, other), found, strict=True):
        function(*inputs, out=out)
        parts.append(out.view(out.real.dtype))
    a, b = parts
    same = (a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)
    return bool(same.all())
