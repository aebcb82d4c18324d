"""NumPy's functions that read through indices and masks: `take`, `compress`, `nonzero` and their kin.

Each is a task, or a few, if its operands are large.  NumPy handles small ones at hand, given outputs, and
errors.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import access, core, gather, indices, masks, soon
from diffuse.numpy.arrays.core import Array, viewing
from diffuse.numpy.arrays.forms import model, outermost_first, packed, row_major
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops.conversion import asanyarray
from diffuse.numpy.ops.manipulation import answers_with, asking
from diffuse.numpy.ops.operands import adopt
from diffuse.numpy.ops.ufuncs import UFUNCS


def _array(x: Any) -> Any:
    """The argument as a Diffuse array of a type with kernels; else None."""
    found = adopt(asanyarray(x))
    return found if type(found) is core.array_class else None


def _at_hand(*arrays: Array) -> bool:
    """Are all arrays small and at hand, so that NumPy is faster?"""
    return all([a.form.size < core.SMALL and access.ready(a) for a in arrays])


def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    if out is None and type(a) is core.array_class and type(indices) is core.array_class:
        memory, chosen = _few(a, indices, axis)
        if memory is not None:
            soon.looked()
            return core.given(memory.take(chosen, axis, None, mode))
    return _take(a, indices, axis, out, mode)


def _few(a: Array, chosen: Array, axis: Any) -> tuple[Any, Any]:
    """The memory of both arrays if `take` reads few elements, which NumPy does faster; else None twice."""
    size = chosen.form.size
    if axis is not None:
        axis = _axis(axis, a.form.ndim)
        size *= a.form.size // max(a.form.shape[axis], 1) if axis is not None else a.form.size
    if size >= indices.SOONER * core.SMALL or not library.current().host_sees:
        return None, None
    memory = access.at_hand(a)
    found = None if memory is None else access.at_hand(chosen)
    return (None, None) if found is None else (memory, found)


@asking(numpy.take, lambda a, indices, *_, **__: (a, indices))
def _take(a: Any, indices: Any, axis: Any, out: Any, mode: Any) -> Any:
    found = _taken(a, indices, axis, mode) if out is None else None
    return fallback.silently(numpy.take, a, indices, axis, out, mode) if found is None else found


def _taken(a: Any, chosen: Any, axis: Any, mode: Any) -> Any:
    """The result of `take`, as a task; None if NumPy has to compute it."""
    if answers_with(a, "take"):
        return None
    x = _array(a)
    array: Any = indices.integers(chosen)
    if (x is None or not isinstance(array, Array) or mode not in ("raise", "wrap", "clip") or not x.form.size
            or array.form.name == "uint64" or _at_hand(x, array)):
        return None
    x, axis = (masks.flat(x), 0) if axis is None else (x, _axis(axis, x.form.ndim))
    if axis is None:
        return None
    if mode != "raise" or array.form.name == "bool":
        array = masks.as_indices(array)
    extent = x.form.shape[axis]
    if mode == "wrap":
        array = adopt(UFUNCS["remainder"](array, extent))
    elif mode == "clip":
        array = adopt(array.clip(0, extent - 1))
    return gather.along(x, array, axis)


def _axis(axis: Any, rank: int) -> int | None:
    """A dimension counted from the first; None if it is invalid."""
    return axis % rank if type(axis) is int and -rank <= axis < rank else None


@asking(numpy.take_along_axis, lambda arr, indices, *_, **__: (arr, indices))
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    found = _along_axis(arr, indices, axis)
    return fallback.silently(numpy.take_along_axis, arr, indices, axis) if found is None else found


def _along_axis(arr: Any, chosen: Any, axis: Any) -> Any:
    """The result of `take_along_axis`, as a task; None if NumPy has to compute it."""
    if not hasattr(arr, "ndim") or not hasattr(chosen, "ndim"):  # NumPy raises the error of a list
        return None
    x, array = _array(arr), indices.integers(chosen)
    if x is None or not isinstance(array, Array) or array.form.name == "bool" or _at_hand(x, array):
        return None
    x, axis = (masks.flat(x), 0) if axis is None else (x, _axis(axis, x.form.ndim))
    if axis is None or array.form.ndim != x.form.ndim:
        return None
    try:
        others = [(*a.form.shape[:axis], 1, *a.form.shape[axis + 1:]) for a in (x, array)]
        shape = list(numpy.broadcast_shapes(*others))
    except ValueError:
        return None
    shape[axis] = array.form.shape[axis]
    places = numpy.zeros_like(array.meta[(slice(0, 2),) * x.form.ndim])
    small = numpy.take_along_axis(model(x.meta), places, axis)
    form = packed(tuple(shape), outermost_first(small), x.form.dtype)
    if not gather.recordable(form, x, array) or not indices.within(array, x.form.shape[axis]):
        return None
    follows = [-1 if k == axis else k if n == shape[k] else -2 for k, n in enumerate(x.form.shape)]
    out = core.recorded(form)
    gather.gather(x, follows, [array], form.shape, range(len(shape)), (out.storage, out.part))
    return out


@asking(numpy.compress, lambda condition, a, *_, **__: (condition, a))
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    found = _compressed(condition, a, axis) if out is None else None
    return fallback.silently(numpy.compress, condition, a, axis, out) if found is None else found


def _compressed(condition: Any, a: Any, axis: Any) -> Any:
    """The result of `compress`, as tasks; None if NumPy has to compute it."""
    x, chosen = _array(a), _array(condition)
    if x is None or chosen is None or chosen.form.ndim != 1 or _at_hand(x, chosen):
        return None
    x, axis = (masks.flat(x), 0) if axis is None else (x, _axis(axis, x.form.ndim))
    if axis is None:
        return None
    return gather.along(x, adopt(flatnonzero(chosen)), axis)


@asking(numpy.extract)
def extract(condition: Any, arr: Any) -> Any:
    x, chosen = _array(arr), _array(condition)
    found = None
    if x is not None and chosen is not None and not _at_hand(x, chosen):
        found = gather.along(masks.flat(x), adopt(flatnonzero(chosen)), 0)
    return fallback.silently(numpy.extract, condition, arr) if found is None else found


@asking(numpy.nonzero)
def nonzero(a: Any) -> Any:
    found = _places(a, columns=True)
    if found is None:
        return fallback.silently(numpy.nonzero, a)
    return tuple([viewing(found, found.meta[:, k]) for k in range(found.meta.shape[1])])


@asking(numpy.argwhere)
def argwhere(a: Any) -> Any:
    found = _places(a, columns=False)
    return fallback.silently(numpy.argwhere, a) if found is None else found.T


@asking(numpy.flatnonzero)
def flatnonzero(a: Any) -> Any:
    x = _array(a)
    if x is None or not x.form.ndim or not masks.recordable(x):
        return fallback.silently(numpy.flatnonzero, a)
    found = masks.positions(masks.truth(x))
    return viewing(found, found.meta.view())


def _places(a: Any, columns: bool) -> Any:
    """The indices of an array's nonzero elements, one per row, or one per column; None if NumPy has to
    compute them."""
    x = _array(a)
    if x is None or not x.form.ndim or not masks.recordable(x):
        return None
    rest = masks.positions(masks.truth(x))
    if x.form.ndim == 1:
        return viewing(rest, rest.meta.reshape(-1, 1) if columns else rest.meta.reshape(1, -1))
    count, rank = rest.form.size, x.form.ndim
    if not count:
        return None
    out = core.recorded(row_major((count, rank) if columns else (rank, count), masks.INDEX))
    for k in range(rank - 1, -1, -1):
        part = viewing(out, out.meta[:, k] if columns else out.meta[k])
        if k:
            UFUNCS["remainder"](rest, x.form.shape[k], out=part)
            rest = UFUNCS["floor_divide"](rest, x.form.shape[k])
        else:
            part[...] = rest
    return out
