"""Scans: `cumsum`, `cumprod` and the running values of other ufuncs, recorded as tasks."""

from __future__ import annotations

from typing import Any

import numpy
from numpy.lib.array_utils import normalize_axis_index

from diffuse import library
from diffuse.library import operations
from diffuse.numpy.arrays import base, indices, views
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.base import operand
from diffuse.numpy.arrays.core import Array, recorded
from diffuse.numpy.arrays.forms import NATIVE, like
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import elementwise
from diffuse.numpy.ops.arguments import PLAINLY, computing, fits, into, one_axis
from diffuse.numpy.ops.conversion import asarray
from diffuse.numpy.ops.folds import FUNCTIONS, narrows, numpys
from diffuse.numpy.ops.operands import adopt, answers, wrap

FOLD_OF = {scan: operator for operator, scan in operations.SCANS.items()}
"""The operator of each scan."""


def scan(operation: str, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
         function: Any = None) -> Any:
    """Compute the running values of a scan along an axis, or over the flattened array if none is given;
    `function` is NumPy's, for arguments that only it supports."""
    words = () if function is None else (PLAINLY,)
    function, operator = function or getattr(numpy, operation), FOLD_OF[operation]
    if answers(a, out):
        return fallback.asked(function, a, axis=axis, dtype=dtype, out=out)
    x = asarray(a)
    target = adopt(out, writing=True)
    if isinstance(target, Array) and not target.form.ndim:  # NumPy writes beyond it
        raise ValueError("provided out is the wrong size for the accumulation.")
    wanted = computing(operator, x, dtype, target)
    if (wanted not in NATIVE or wanted.name == "float16" or x.form.size == 0
            or elementwise.eager_errors or numpys(operator, x) or narrows(x, wanted)
            or operator in FUNCTIONS and wanted.name == "bool"
            or x.form.name[0] == "c" and (wanted.kind != "c" or operator not in FUNCTIONS)):
        if out is None and isinstance(x, Array) and not isinstance(dtype, Array):
            return wrap(function(host(x), axis, dtype))
        return fallback.call(function, (x, axis, dtype, out), {}, silent="inspection")
    if x.form.ndim != 1 and (axis is None or x.form.ndim == 0):
        x = views.ravel(x)
    axis = 0 if axis is None else normalize_axis_index(one_axis(axis, *words), x.form.ndim)
    if target is not None and not fits(target, x, (), False):
        return fallback.call(function, (x, axis, dtype, out), {}, silent="inspection")
    try:
        source = operand(x, x.form.shape)
    except base.Unaddressable:
        return scan(operation, wrap(host(x).copy("K")), axis, dtype, out, function)
    result = recorded(like([x.meta], x.form.shape, wanted))
    if x.form.ndim == 1 and operator in FUNCTIONS and indices.distant(x):
        from diffuse.numpy.arrays import far

        far.scan(operation, FUNCTIONS[operator], x, result)
        return result if target is None else into(target, result, out)
    taken = x.form.name if operator in operations.TRUTH else wanted.name
    library.record(f"{operation}:{axis}", (taken, wanted.name), x.form.shape, (source,),
                   ((result.storage, result.part),))
    return result if target is None else into(target, result, out)
