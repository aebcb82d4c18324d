"""Calls NumPy's functions along the lines of distributed arrays, on the part that each rank holds.

Such a function processes the lines along an axis one by one, so that it is independent along all others: each
rank calls it on the part that it holds, and gets the bits that it would have in the whole.  The form of the
result, and errors for wrong arguments, are determined by NumPy's own call on one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import base, core, far
from diffuse.numpy.arrays.forms import NATIVE, Form, resized, row_major

Array = numpy.ndarray[Any, Any]
KINDS = "biufc"


def wanted(x: Any) -> bool:
    """Is this a distributed array that is large enough for a call in parts?"""
    return (type(x) is core.array_class and x.size >= (core.SMALL or 1) and x.dtype.kind in KINDS
            and far.here(x))


def axis_of(axis: Any, ndim: int) -> int | None:
    """Return the number of an axis, counted from the first; None if it is invalid."""
    try:
        found = index(axis)
    except TypeError:
        return None
    return found % ndim if -ndim <= found < ndim else None


def along(name: str, function: Callable[..., Any], x: Any, axis: Any, lead: int = 0, left_out: bool = False,
          into: bool = False) -> Any:
    """Record `function(x)`, which is independent along all axes but one; None if NumPy has to compute it.

    The result has `lead` axes of its own and then those of `x`, without the one axis if it is `left_out`.
    With `into` the function receives the array for the result as `out`.
    """
    if not wanted(x) or x.ndim < 2 or (lines := axis_of(axis, x.ndim)) is None:
        return None
    one = function(numpy.ones([n if d == lines else 1 for d, n in enumerate(x.shape)], x.dtype))
    same = not lead and not left_out
    if (type(one) is not numpy.ndarray or one.dtype not in NATIVE or one.ndim != x.ndim + lead - left_out
            or not same and not _row_major(x) or not base.locate(x)):
        return None
    others = [d for d in range(x.ndim) if d != lines]
    cuts = tuple([(d, d + lead - (left_out and d > lines)) for d in others])
    shape = list(one.shape)
    for axis, place in cuts:
        shape[place] = x.shape[axis]
    if not all(shape):
        return None
    form = resized(x.meta, tuple(shape), one.dtype, "K") if same else row_major(tuple(shape), one.dtype)

    def run(array: Array, out: Array) -> None:
        if into:
            function(array, out=out)
        else:
            out[...] = function(array)

    return recorded(name, run, cuts, (x,), form)


def each(name: str, function: Callable[[Array], Array], x: Any, dtype: Any) -> Any:
    """Record `function(x)`, which computes each element by itself; None if NumPy has to compute it."""
    if not wanted(x) or not x.form.ordered or not base.locate(x):
        return None
    def run(array: Array, out: Array) -> None:
        out[...] = function(array)

    cuts = tuple([(d, d) for d in range(x.ndim)])
    return recorded(name, run, cuts, (x,), row_major(x.shape, numpy.dtype(dtype)))


def recorded(name: str, run: Callable[..., None], cuts: tuple[tuple[int | None, ...], ...],
             arrays: Sequence[Any], form: Form) -> Any:
    """Record `run(*arrays, out)`, where `out` is a new array of this form, which is returned.  The cuts are
    those of `Independent`."""
    found = core.recorded(form)
    library.call(name, library.Independent(run, cuts), tuple(map(base.argument, arrays)),
                 (base.argument(found),))
    return found


def _row_major(x: Any) -> bool:
    """Is a copy of an array in C order?"""
    return resized(x.meta, x.shape, x.dtype, "K") is row_major(x.shape, x.dtype)


def in_place(name: str, function: Callable[[Array], None], x: Any, axis: Any) -> bool:
    """Record a function that changes lines of an array in place; returns False if NumPy has to do it."""
    if not wanted(x) or x.ndim < 2 or not x.flags.writeable or (lines := axis_of(axis, x.ndim)) is None:
        return False
    if not base.locate(x):
        return False
    cuts = tuple([(d, d) for d in range(x.ndim) if d != lines])
    both = (base.argument(x),)
    library.call(name, library.Independent(lambda _, out: function(out), cuts), both, both)
    return True
