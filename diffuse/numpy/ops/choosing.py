"""Functions that choose between arrays, or remove and add parts of one: `choose`, `select`, `piecewise`,
`delete`, `insert`, `diag`.

`choose` and `diag` are written here; the others are NumPy's own code over recorded operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from diffuse.numpy.arrays import access, base, core, indices, masks
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.arrays.forms import NATIVE
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import elementwise, rules
from diffuse.numpy.ops.conversion import asanyarray
from diffuse.numpy.ops.creation import zeros
from diffuse.numpy.ops.manipulation import asking, diagonal
from diffuse.numpy.ops.operands import adopt
from diffuse.numpy.ops.ufuncs import UFUNCS
from diffuse.numpy.order import memory as memory_for
from diffuse.numpy.order import team

SPACED = 512
"""The least number of elements of a vector for each one inserted, so that ranges between them are copied."""
MOST = 16
"""The most choices for which each is recorded as one operation; with more of them NumPy is faster."""


def _over_ours(real: Any) -> Callable[..., Any]:
    """NumPy's own code over recorded operations."""
    from diffuse.numpy.bridge import rebound

    found: Callable[..., Any] = rebound.over(real._implementation)
    return found


def _arrays(*values: Any) -> bool:
    """Is one of these, or of their items, a Diffuse array that is large, or not at hand?"""
    for value in values:
        if isinstance(value, (list, tuple)):
            if _arrays(*value):
                return True
        elif type(value) is core.array_class and (value.form.size >= core.SMALL or not access.ready(value)):
            return True
    return False


def _plain(*values: Any) -> bool:
    """Are all of these, and their items, arrays of types with kernels, numbers, or Python objects?"""
    return all([_plain(*v) if isinstance(v, (list, tuple)) else not isinstance(v, numpy.ndarray) or
                type(v) is numpy.ndarray and v.dtype in NATIVE for v in values])


def _written(real: Callable[..., Any], args: tuple[Any, ...], *looked: Any) -> Any:
    """Run NumPy's code over our functions if there is something to record; else NumPy itself."""
    if _arrays(*looked) and _plain(*looked) and not elementwise.eager_errors:
        return _over_ours(real)(*args)
    return fallback.silently(real, *args)


@asking(numpy.select, lambda condlist, choicelist, *_, **__: (*condlist, *choicelist))
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    return _written(numpy.select, (condlist, choicelist, default), condlist, choicelist)


@asking(numpy.delete, lambda arr, *_, **__: (arr,))
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    return _written(numpy.delete, (arr, obj, axis), arr)


@asking(numpy.insert, lambda arr, *_, **__: (arr,))
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    found = _inserted(arr, obj, values, axis)
    if found is not None:
        return found
    if type(arr) is core.array_class and core.SMALL and access.ready(arr):  # two tasks would take as long
        return fallback.silently(numpy.insert, arr, obj, values, axis)
    return _written(numpy.insert, (arr, obj, values, axis), arr)


def _inserted(arr: Any, obj: Any, values: Any, axis: Any) -> Any:
    """The result of `insert` for a large vector at hand and a few integers, whose ranges of elements between
    them are copied as wholes; None of all else."""
    plain = type(arr) is core.array_class and (axis is None or type(axis) is int and axis in (0, -1))
    memory = access.at_hand(arr) if plain else None
    given, places = (access.at_hand(x) if type(x) is core.array_class else x for x in (values, obj))
    if (memory is None or memory.ndim != 1 or type(places) not in (list, numpy.ndarray)
            or type(given) is not numpy.ndarray and type(given) not in rules.NUMBERS):
        return None
    size, places = memory.size, numpy.array(places)
    if (places.ndim != 1 or places.dtype.kind != "i" or not 1 < places.size <= size // SPACED
            or places.min() < -size or places.max() > size):
        return None
    count = places.size
    places = numpy.where(places < 0, places + size, places).astype(numpy.intp)
    order = places.argsort(kind="stable")
    ends = places[order]
    out, shifts = memory_for.empty(size + count, memory.dtype), numpy.arange(count)
    places[order] += shifts
    out[places] = numpy.array(given, copy=None, ndmin=1, dtype=memory.dtype)
    bounds = [0, *ends.tolist(), size]

    def copied(low: int, high: int) -> None:
        for k in range(low, high):
            out[bounds[k] + k:bounds[k + 1] + k] = memory[bounds[k]:bounds[k + 1]]

    team.on_parts(count + 1, copied, max(1, (count + 1) * team.SHARE // size))
    return core.given(out)


@asking(numpy.piecewise, lambda x, *_, **__: (x,))
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    if _arrays(x) and not elementwise.eager_errors:
        return _over_ours(numpy.piecewise)(x, condlist, funclist, *args, **kw)
    return fallback.silently(numpy.piecewise, x, condlist, funclist, *args, **kw)


@asking(numpy.diag)
def diag(v: Any, k: Any = 0) -> Any:
    x = asanyarray(v)
    if type(x) is not core.array_class or x.ndim not in (1, 2) or type(k) is not int:
        return fallback.silently(numpy.diag, v, k)
    if x.ndim == 2:
        return diagonal(x, k)
    n = x.shape[0] + abs(k)
    found = zeros((n, n), x.dtype)
    if x.size:
        found[:n - k].reshape(-1)[k if k >= 0 else -k * n::n + 1] = x
    return found


@asking(numpy.choose, lambda a, choices, *_, **__: (a, *choices))
def choose(a: Any, choices: Any, out: Any = None, mode: Any = "raise") -> Any:
    found = _chosen(a, choices, mode) if out is None else None
    if found is None:
        return fallback.silently(numpy.choose, a, choices, out, mode)
    return base.unboxed(found)


def _chosen(a: Any, choices: Any, mode: Any) -> Any:
    """The result of `choose`, as tasks; None if NumPy has to compute it."""
    which = adopt(asanyarray(a))
    if type(which) is not core.array_class or which.form.dtype.kind not in "bi" or elementwise.eager_errors:
        return None
    options = [adopt(c) for c in choices] if isinstance(choices, (list, tuple)) else None
    if not options or len(options) > MOST or mode not in ("raise", "wrap", "clip"):
        return None
    if not _arrays(which, options):
        return None
    if any([not isinstance(c, Array) and type(c) not in rules.WEAK and type(c) not in rules.STRONG
            for c in options]):
        return None
    try:
        arrays = [c for c in options if isinstance(c, Array)]
        shape = numpy.broadcast_shapes(which.form.shape, *[c.form.shape for c in arrays])
        models = [numpy.zeros((1,) * c.form.ndim, c.form.dtype) if isinstance(c, Array) else c
                  for c in options]
        dtype = numpy.choose(numpy.zeros((1,) * len(shape), int), models).dtype
    except (ValueError, TypeError):
        return None
    if dtype not in NATIVE or 0 in shape:
        return None
    which = masks.as_indices(which)
    if mode == "raise":
        low, high = indices.extremes(which)
        if low < 0 or high >= len(options):
            return None
    else:
        count = len(options)
        which = adopt(UFUNCS["remainder"](which, count) if mode == "wrap" else which.clip(0, count - 1))
    try:
        return _merged(which, options, dtype, shape)
    except OverflowError:  # a number beyond all values of the type, of which NumPy takes the low bits
        return None


def _merged(which: Any, options: list[Any], dtype: numpy.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Select the option for each element of `which`, in C order."""
    name, signature = NATIVE[dtype], ("bool", *[NATIVE[dtype]] * 3)
    found = options[-1]
    for k in range(len(options) - 2, -1, -1):
        chosen = adopt(UFUNCS["equal"](which, k))
        found = elementwise.issue("where", signature, (chosen, options[k], found))
    if len(options) == 1 or found.form.shape != shape or not found.meta.flags.c_contiguous:
        fresh = zeros(shape, name)
        fresh[...] = found
        return fresh
    return found
