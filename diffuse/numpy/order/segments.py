"""`ufunc.reduceat` of one dimension: each thread folds a part of the segments by NumPy's own method.

NumPy folds the elements from each index up to the next one on their own, so the bits do not depend on how the
segments are divided.  If an operation raises a floating-point flag, NumPy does all of it again, and reports.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy

from diffuse.numpy.arrays import access, core
from diffuse.numpy.arrays.forms import NATIVE
from diffuse.numpy.order.calls import Array, given, table
from diffuse.numpy.order.team import SHARE, threads, together

_NoValue: Any = numpy._NoValue


def reduceat(ufunc: Any, array: Any, indices: Any, axis: Any, dtype: Any, out: Any) -> Any:
    """Fold the segments of an array of one dimension, of at least two threads' share of elements; returns
    None if NumPy has to."""
    if (type(array) is not core.array_class or array.form.ndim != 1 or array.form.size < 2 * SHARE
            or not (axis is _NoValue or type(axis) is int and axis in (0, -1))
            or dtype is not _NoValue and dtype is not None or out is not None or threads() < 2):
        return None
    elements = access.host(array)
    if elements.dtype not in NATIVE or elements.dtype == numpy.bool_:  # NumPy ends at the first that decides
        return None
    starts = table(indices)
    if starts is None or not _ascending(starts, elements.size):
        return None
    many = min(threads(), elements.size // SHARE)
    cuts = [0, *numpy.searchsorted(starts, [elements.size * k // many for k in range(1, many)]), starts.size]
    ends = [starts[cut] if cut < starts.size else elements.size for cut in cuts[1:]]
    found = numpy.empty(starts.size, ufunc.numpy.reduceat(elements[:1], [0]).dtype)

    def fold(low: int, high: int, end: int) -> None:
        if low < high:
            begin = starts[low]
            found[low:high] = ufunc.numpy.reduceat(elements[begin:end], starts[low:high] - begin)

    modes: Any = {error: "raise" for error, mode in numpy.geterr().items() if mode != "ignore"}
    try:
        with numpy.errstate(**modes):
            together([partial(fold, *part) for part in zip(cuts, cuts[1:], ends, strict=False)])
    except FloatingPointError:
        return None
    return given(found)


def _ascending(starts: Array, size: int) -> bool:
    """Are these indices of elements, of which each is at least as large as the one before it?"""
    return bool(starts.ndim == 1 and starts.size > 1 and starts.dtype == numpy.int64 and starts[0] >= 0
                and starts[-1] < size and (starts[1:] >= starts[:-1]).all())
