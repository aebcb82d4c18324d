"""Scans: `cumsum` and `cumprod`, recorded as tasks."""

from __future__ import annotations

import operator as _operator
from typing import Any

import numpy
from numpy.lib.array_utils import normalize_axis_index

from diffuse import library
from diffuse.numpy.arrays import base, views
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.base import operand
from diffuse.numpy.arrays.core import Array, recorded
from diffuse.numpy.arrays.forms import NATIVE, like
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import elementwise
from diffuse.numpy.ops.arguments import computing, fits, into
from diffuse.numpy.ops.conversion import asarray
from diffuse.numpy.ops.folds import numpys
from diffuse.numpy.ops.operands import adopt, foreign, wrap

FOLD_OF = {"cumsum": "sum", "cumprod": "prod"}


def scan(operation: str, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
         function: Any = None) -> Any:
    """Compute `cumsum` or `cumprod` along an axis, or of the flattened array where none is given; `function`
    is NumPy's, for arguments that only that takes."""
    function = function or getattr(numpy, operation)
    if foreign(a):
        return fallback.asked(function, a, axis=axis, dtype=dtype, out=out)
    x = asarray(a)
    target = adopt(out, writing=True)
    if isinstance(target, Array) and not target.form.ndim:  # NumPy writes beyond it
        raise ValueError("provided out is the wrong size for the accumulation.")
    wanted = computing(operation.removeprefix("cum"), x, dtype, target)
    if (wanted not in NATIVE or wanted.name in ("float16", "bool") or x.form.size == 0
            or elementwise.eager_errors or numpys(FOLD_OF[operation], x)
            or (x.form.name[0] == "c" != wanted.kind)):
        if out is None and isinstance(x, Array) and not isinstance(dtype, Array):
            return wrap(function(host(x), axis, dtype))
        return fallback.call(function, (x, axis, dtype, out), {}, silent="inspection")
    if x.form.ndim != 1 and (axis is None or x.form.ndim == 0):
        x = views.ravel(x)
    axis = 0 if axis is None else normalize_axis_index(_operator.index(axis), x.form.ndim)
    if target is not None and not fits(target, x, (), False):
        return fallback.call(function, (x, axis, dtype, out), {}, silent="inspection")
    try:
        source = operand(x, x.form.shape)
    except base.Unaddressable:
        return scan(operation, wrap(host(x).copy()), axis, dtype, out, function)
    result = recorded(like([x.meta], x.form.shape, wanted))
    name = wanted.name
    library.record(f"{operation}:{axis}", (name, name), x.form.shape, (source,),
                  ((result.storage, result.part),))
    return result if target is None else into(target, result, out)
