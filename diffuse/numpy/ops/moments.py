"""Means and variances, by the sums and elementwise steps of NumPy's own."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy
from numpy.lib.array_utils import normalize_axis_index

from diffuse.numpy.arrays import base, core
from diffuse.numpy.arrays.access import ready
from diffuse.numpy.arrays.base import UFUNCS
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import at_once, elementwise, folds
from diffuse.numpy.ops.arguments import axes_of, into, receives
from diffuse.numpy.ops.conversion import asarray
from diffuse.numpy.ops.operands import adopt, foreign, wrap

_NoValue = numpy._NoValue
FLOATS = (numpy.dtype("float32"), numpy.dtype("float64"))
"""The types in which moments are computed if one is given."""
NUMBERS = (int, float, numpy.integer, numpy.floating)


def _plain(a: Any, dtype: Any, keepdims: Any, where: Any) -> Any:
    """The array of a mean or variance that Diffuse computes, else None."""
    x = None if foreign(a) else asarray(a)
    if not isinstance(x, Array) or not x.form.size or where is not True or elementwise.eager_errors:
        return None
    if keepdims is not _NoValue and (type(keepdims) not in (bool, int) or keepdims not in (0, 1)):
        return None  # NumPy takes few other objects, not even its own truth values
    if x.form.size < core.SMALL:  # the bits of small arrays are NumPy's
        return None
    if not x.form.ndim:  # one element: NumPy's moments have no axis there, though its sums do
        return None
    if dtype is not None and (base.element_type(dtype) not in FLOATS or x.form.name[0] == "c"):
        return None
    return x


def _precision(x: Array, dtype: Any) -> tuple[numpy.dtype[Any], Any]:
    """The type in which moments are summed, and the result's type if that differs."""
    if dtype is not None:
        return base.element_type(dtype), None
    if x.form.name[0] in "iub":
        return numpy.dtype(numpy.float64), None
    if x.form.name == "float16":
        return numpy.dtype(numpy.float32), numpy.dtype(numpy.float16)
    return x.form.dtype, None


def _given(result: Any, back: Any) -> Any:
    """Convert a result to the type of the array."""
    if back is not None:
        result = result.astype(back)
        if isinstance(result, Array) and not result.form.ndim and not ready(result):
            result = core.scalar_class.of(result)
    return result


def _axes(axis: Any, x: Array) -> tuple[int, ...]:
    """The axes of a moment; raises the errors of NumPy, which first counts the elements along them."""
    for one in () if axis is None else axis if isinstance(axis, tuple) else (axis,):
        normalize_axis_index(one, x.form.ndim)
    return axes_of(axis, x.form.ndim)


def mean_of(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _NoValue,
            where: Any = True, owner: Any = numpy) -> Any:
    """The mean.  What NumPy computes is the function of `owner`: `numpy`, or its class for the method, whose
    warnings are at the line of the call."""
    if (axis is None and dtype is None and out is None and where is True and type(a) is core.array_class
            and (keepdims is False or keepdims is _NoValue) and a.form.name in ("float32", "float64")
            and a.form.size >= core.SMALL):
        memory = at_once.immediate(a)
        total = None if memory is None else at_once.total("sum", memory)
        if total is not None:
            return total / total.dtype.type(a.form.size)
    x = _plain(a, dtype, keepdims, where)
    if x is None:
        return _moment(owner.mean, a, axis, dtype, out, keepdims, where, {})
    axes = _axes(axis, x)
    wanted, back = _precision(x, dtype)
    keep = keepdims is not _NoValue and bool(keepdims)
    target = adopt(out, writing=True)
    if target is not None and (back is not None or not receives(target, wanted, x, axes, keep)):
        return _moment(owner.mean, x, axis, dtype, out, keepdims, where, {})
    total = folds.fold("sum", x, axes, wanted, keep)
    result = _given(_quotient(total, prod([x.form.shape[d] for d in axes]), wanted,
                              keep and not x.form.ordered), back)
    return result if target is None else into(target, result, out)


def _quotient(total: Any, count: int, wanted: numpy.dtype[Any], inplace: bool = False) -> Any:
    """total / count in the type of the total; in place, as NumPy divides, where its layout matters."""
    kept = {"out": total} if inplace and type(total) is core.array_class and total.dtype == wanted else {}
    result = UFUNCS["divide"](total, count, **kept)
    return result if result.dtype == wanted else result.astype(wanted)


def _moment(function: Callable[..., Any], a: Any, axis: Any, dtype: Any, out: Any, keepdims: Any, where: Any,
            more: dict[str, Any]) -> Any:
    options = {"axis": axis, "dtype": dtype, "out": out, **more}
    if keepdims is not _NoValue:
        options["keepdims"] = keepdims
    if where is not True and where is not _NoValue:
        options["where"] = where
    if foreign(a):
        return fallback.asked(function, a, **options)
    return fallback.call(function, (a,), options, silent="inspection")


def variance(name: str, a: Any, axis: Any, dtype: Any, out: Any, ddof: Any, keepdims: Any, where: Any,
             mean: Any, correction: Any, owner: Any = numpy) -> Any:
    """NumPy's two passes: the mean, then the mean of the squared distances from it.  Those of float16 are
    left to NumPy: its sums are of float16, too, and overflow."""
    if correction is not _NoValue:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    more = {"ddof": ddof} if mean is _NoValue else {"ddof": ddof, "mean": mean}
    x = _plain(a, dtype, keepdims, where) if mean is _NoValue and isinstance(ddof, NUMBERS) else None
    if x is None or x.form.name == "float16" and dtype is None:
        return _moment(getattr(owner, name), a, axis, dtype, out, keepdims, where, more)
    axes = _axes(axis, x)
    count = prod([x.form.shape[d] for d in axes])
    wanted, back = _precision(x, dtype)
    real = wanted if wanted.kind == "f" else numpy.dtype(f"f{wanted.itemsize // 2}")
    keep = keepdims is not _NoValue and bool(keepdims)
    target = adopt(out, writing=True)
    mixed = target is not None and (back is not None or not receives(target, real, x, axes, keep))
    if mixed or count - ddof <= 0:
        return _moment(getattr(owner, name), x, axis, dtype, out, keepdims, where, more)
    centre = wrap(_quotient(folds.fold("sum", x, axes, wanted, True), count, wanted))
    total = folds.spread(x, centre, axes, wanted, keep)
    if total is None:
        distance = UFUNCS["subtract"](x, centre)
        if wanted.kind == "c":
            squares = distance.real * distance.real + distance.imag * distance.imag
        else:
            squares = UFUNCS["multiply"](distance, distance)
        total = folds.fold("sum", asarray(squares), axes, real, keep)
    inplace = keep and not x.form.ordered
    result = _quotient(total, count - ddof, real, inplace)
    if name == "std":
        kept = {"out": result} if inplace and type(result) is core.array_class else {}
        result = UFUNCS["sqrt"](result, **kept)
    result = _given(result, back)
    return result if target is None else into(target, result, out)
