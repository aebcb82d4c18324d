"""Differences, gradients, integrals, averages: formulas over views."""

from __future__ import annotations

from typing import Any

import numpy

from diffuse.numpy.arrays.base import unboxed
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import at_once
from diffuse.numpy.ops.conversion import asanyarray
from diffuse.numpy.ops.creation import empty
from diffuse.numpy.ops.joining import concatenate
from diffuse.numpy.ops.like import empty_like
from diffuse.numpy.ops.manipulation import asking, broadcast_to, is_array, moveaxis
from diffuse.numpy.ops.ufuncs import UFUNCS


def _along(rank: int, axis: int, cut: Any) -> tuple[Any, ...]:
    """An index that cuts one axis and leaves the others whole."""
    index: list[Any] = [slice(None)] * rank
    index[axis] = cut
    return tuple(index)


@asking(numpy.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = numpy._NoValue,
         append: Any = numpy._NoValue) -> Any:
    if n == 0:
        return a
    if n < 0:
        raise ValueError("order must be non-negative but got " + repr(n))
    x = asanyarray(a)
    if x.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = numpy.lib.array_utils.normalize_axis_index(axis, x.ndim)
    ends = [None if value is numpy._NoValue else asanyarray(value) for value in (prepend, append)]
    one = (*x.shape[:axis], 1, *x.shape[axis + 1:])
    first, last = [[] if e is None else [broadcast_to(e, one) if e.ndim == 0 else e] for e in ends]
    if first or last:
        x = concatenate([*first, x, *last], axis)
    subtract = UFUNCS["not_equal" if x.dtype == bool else "subtract"]
    high, low = _along(x.ndim, axis, slice(1, None)), _along(x.ndim, axis, slice(None, -1))
    for _ in range(n):
        x = subtract(x[high], x[low])
    return x


@asking(numpy.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    x = asanyarray(f)
    rank = x.ndim
    known = type(edge_order) is int and edge_order in (1, 2)
    plain = is_array(x) and x.dtype.kind in "fiu" and rank and known and all(
        isinstance(h, (int, float, numpy.number)) for h in varargs)
    axes = tuple(range(rank)) if axis is None else numpy.lib.array_utils.normalize_axis_tuple(axis, rank)
    if not plain or len(varargs) not in (0, 1, len(axes)) or any(x.shape[d] < edge_order + 1 for d in axes):
        return fallback.call(numpy.gradient, (f, *varargs), {"axis": axis, "edge_order": edge_order})
    steps = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    if x.dtype.kind in "iu":
        x = x.astype(numpy.float64)
    found = [_slope(x, d, h, edge_order) for d, h in zip(axes, steps, strict=True)]
    return found[0] if len(axes) == 1 else tuple(found)


def _slope(x: Any, axis: int, h: Any, edge_order: int) -> Any:
    def at(start: int | None, stop: int | None = None) -> Any:
        cut = slice(start, stop) if stop is not None or start is None else slice(start, None)
        return _along(x.ndim, axis, cut)

    def one(k: int) -> Any:
        return _along(x.ndim, axis, k)

    out = empty_like(x)
    out[at(1, -1)] = (x[at(2)] - x[at(None, -2)]) / (2.0 * h)
    if edge_order == 1:
        out[one(0)] = (x[one(1)] - x[one(0)]) / h
        out[one(-1)] = (x[one(-1)] - x[one(-2)]) / h
    else:
        out[one(0)] = -1.5 / h * x[one(0)] + 2.0 / h * x[one(1)] + -0.5 / h * x[one(2)]
        out[one(-1)] = 0.5 / h * x[one(-3)] + -2.0 / h * x[one(-2)] + 1.5 / h * x[one(-1)]
    return out


@asking(numpy.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    values = asanyarray(y)
    spacing: Any = dx
    if x is not None:
        points = asanyarray(x)
        if points.ndim == 1:
            shape = [1] * values.ndim
            spacing = diff(points)
            shape[axis] = spacing.shape[0]
            spacing = spacing.reshape(shape)
        else:
            spacing = diff(points, axis=axis)
    rank = values.ndim
    high, low = _along(rank, axis, slice(1, None)), _along(rank, axis, slice(None, -1))
    return (spacing * (values[high] + values[low]) / 2.0).sum(axis)


@asking(numpy.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = asanyarray(a), asanyarray(b)
    plain = (is_array(x) and is_array(y) and x.ndim and y.ndim
             and all([isinstance(k, (int, numpy.integer)) for k in (axisa, axisb, axisc)])
             and -x.ndim <= axisa < x.ndim and -y.ndim <= axisb < y.ndim
             and -max(x.ndim, y.ndim) <= axisc < max(x.ndim, y.ndim)
             and x.shape[axisa] == 3 == y.shape[axisb])
    if not plain:
        return fallback.call(numpy.cross, (a, b, axisa, axisb, axisc), {})
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    shape = numpy.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    out = empty((*shape, 3), numpy.result_type(x.dtype, y.dtype))
    for k, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
        # Of vectors the products may be NumPy's scalars, whose operators would report overflows of integers.
        out[..., k] = UFUNCS["subtract"](x[..., i] * y[..., j], x[..., j] * y[..., i])
    return moveaxis(out, -1, axisc)


@asking(numpy.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *,
            keepdims: Any = numpy._NoValue) -> Any:
    x = asanyarray(a)
    options = {} if keepdims is numpy._NoValue else {"keepdims": keepdims}
    if not is_array(x) or not x.size:
        return fallback.call(numpy.average, (a, axis, weights, returned), options)
    if axis is not None:
        axis = numpy.lib.array_utils.normalize_axis_tuple(axis, x.ndim, argname="axis")
    if weights is None:
        found = x.mean(axis[0] if axis is not None and len(axis) == 1 else axis, **options)
        if not returned:
            return found
        if type(found) is numpy.ndarray:
            return found, numpy.full(found.shape, x.size / found.size, found.dtype)
        found = asanyarray(found)
        total = found.dtype.type(x.size / found.size)
        return _averaged(found, total, returned)
    w = asanyarray(weights)
    if w.shape != x.shape:
        if axis is None or len(axis) != 1 or w.shape != (x.shape[axis[0]],):
            return fallback.call(numpy.average, (a, axis, weights, returned), options)
        shape = [1] * x.ndim
        shape[axis[0]] = -1
        w = w.reshape(shape)
    kinds = [x.dtype, w.dtype, *(["f8"] if x.dtype.kind in "biu" else [])]
    dtype = numpy.result_type(*kinds)
    if w.shape != x.shape:
        w = broadcast_to(w, x.shape)
    kept = {} if dtype == x.dtype == w.dtype else {"dtype": dtype}
    total = w.sum(axis, **kept, **options)
    zero = total == 0
    if bool(zero if type(zero) is numpy.bool else asanyarray(zero).any()):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    plain = axis is None and not kept and not options
    found = at_once.weighted(x, w) if plain else None
    if found is None:
        found = UFUNCS["multiply"](x, w, **kept).sum(axis, **options)
    found = found / total
    if isinstance(found, numpy.generic) and not returned:
        return found
    return _averaged(asanyarray(found), total, returned)


def _averaged(found: Any, total: Any, returned: bool) -> Any:
    shown = unboxed(found)
    if not returned:
        return shown
    total = asanyarray(total)
    total = broadcast_to(total, found.shape).copy() if total.shape != found.shape else total
    return shown, unboxed(total)
