"""NumPy's functions that write through indices and masks: `put`, `place`, `putmask`, `put_along_axis`
and `fill_diagonal`.

Each is recorded if its target is a large, contiguous Diffuse array; otherwise, and for wrong arguments, NumPy
does it at once.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import access, assign, core, gather, indices, masks, scatter, soon
from diffuse.numpy.arrays.core import Array, viewing
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import elementwise, rules
from diffuse.numpy.ops.conversion import asanyarray
from diffuse.numpy.ops.creation import arange
from diffuse.numpy.ops.manipulation import asking
from diffuse.numpy.ops.operands import adopt, lowered
from diffuse.numpy.ops.ufuncs import UFUNCS


def _target(x: Any) -> Any:
    """The contiguous elements of an array that is to be written, as an array of one dimension; None if NumPy
    has to write them."""
    if type(x) is not core.array_class or not x.meta.flags.writeable or not x.meta.flags.c_contiguous:
        return None
    return viewing(x, x.meta.reshape(-1))


def _values(x: Any, dtype: numpy.dtype[Any], casting: Any = "unsafe") -> Any:
    """The contiguous values to write into an array of this element type: numbers and lists are converted to
    that type, arrays must be castable to it by this rule.  None if NumPy has to handle them."""
    if type(x) in assign.SEQUENCES or type(x) in rules.NUMBERS:
        try:
            x = numpy.array(lowered(x), dtype)
        except (TypeError, ValueError, OverflowError):
            return None
    found = adopt(asanyarray(x))
    if type(found) is not core.array_class or not found.form.size:
        return None
    if found.form.dtype.kind == "c" != dtype.kind or not numpy.can_cast(found.form.dtype, dtype, casting):
        return None
    return masks.flat(found)


def _little(*values: Any) -> bool:
    """Are all arrays among these small and at hand, so that NumPy is faster?"""
    for x in values:
        size: Any = x.meta.size if type(x) in core.ARRAYS else x.size if type(x) is numpy.ndarray else 0
        if size >= core.SMALL or type(x) in core.ARRAYS and not access.ready(x):
            return False
    return True


def _repeated(values: Any, count: int) -> Any:
    """A number of the values, repeated cyclically if there are fewer."""
    size = values.form.size
    if size >= count:
        return viewing(values, values.meta[:count])
    if size == 1:
        return values
    if count < core.SMALL and (memory := access.at_hand(values)) is not None:
        return core.hosted(numpy.resize(memory, count))
    return gather.along(values, adopt(UFUNCS["remainder"](arange(count), size)), 0)


@asking(numpy.put)
def put(a: Any, ind: Any, v: Any, mode: Any = "raise") -> None:
    if _little(a, ind, v) or not _put(a, ind, v, mode):
        fallback.silently(numpy.put, a, ind, v, mode)


def _put(a: Any, ind: Any, v: Any, mode: Any) -> bool:
    target: Any = _target(a)
    array: Any = indices.integers(ind)
    if (target is None or not isinstance(array, Array) or type(mode) is not str
            or mode not in ("raise", "wrap", "clip")):
        return False
    values = _values(v, target.form.dtype)
    if values is None or array.form.name in ("bool", "uint64") or not target.form.size:
        return False
    array = masks.flat(array)
    if mode != "raise":
        array, extent = masks.as_indices(array), target.form.size
        array = adopt(UFUNCS["remainder"](array, extent) if mode == "wrap" else array.clip(0, extent - 1))
    values = _repeated(values, array.form.size)
    return values is not None and scatter.write(target, array, values)


@asking(numpy.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    if _little(arr, indices, values) or not _put_along_axis(arr, indices, values, axis):
        fallback.silently(numpy.put_along_axis, arr, indices, values, axis)


def _assigned(values: Any, dtype: numpy.dtype[Any]) -> Any:
    """Values as assignment casts them, or refuses them."""
    if type(values) in assign.NUMBERS:
        return core.hosted(assign.chosen(values, dtype))
    return assign.assigned(values if type(values) in assign.SEQUENCES else asanyarray(values), dtype)


def _put_along_axis(arr: Any, chosen: Any, values: Any, axis: Any) -> bool:
    target: Any = _target(arr)
    array: Any = indices.integers(chosen) if hasattr(chosen, "ndim") else None
    if (target is None or not isinstance(array, Array) or array.form.name == "bool" or type(axis) is not int
            or array.form.ndim != arr.ndim or not -arr.ndim <= axis < arr.ndim
            or not array.meta.flags.c_contiguous or not target.form.size or not array.form.size):
        return False
    axis %= arr.ndim
    if array.form.size == array.form.shape[axis] and arr.ndim > 1:  # the same indices in each line
        places = viewing(array, array.meta.reshape(-1))
        return assign.stored(arr, (*[slice(None)] * axis, places), _assigned(values, target.form.dtype))
    shape = tuple([array.form.shape[k] if k == axis else n for k, n in enumerate(arr.shape)])
    given = _assigned(values, target.form.dtype)
    if (array.form.shape != shape or type(given) is not core.array_class
            or given.form.dtype.kind == "c" != target.form.dtype.kind or given.form.ndim > len(shape)
            or any([n not in (1, m) for n, m in zip(given.form.shape[::-1], shape[::-1], strict=False)])
            or not indices.within(array, arr.shape[axis])):
        return False
    at = masks.as_indices(array)
    at = UFUNCS["add"](at, UFUNCS["multiply"](UFUNCS["less"](at, 0), arr.shape[axis]))
    pitch = 1
    places = UFUNCS["multiply"](at, int(numpy.prod(arr.shape[axis + 1:])))
    for k in range(arr.ndim - 1, -1, -1):
        if k != axis:
            steps = UFUNCS["multiply"](arange(arr.shape[k]), pitch)
            places = UFUNCS["add"](places, steps.reshape((-1, *[1] * (arr.ndim - 1 - k))))
        pitch *= arr.shape[k]
    spread = masks.flat(viewing(given, numpy.broadcast_to(given.meta, shape)))
    return scatter.write(target, masks.flat(adopt(places)), spread)


@asking(numpy.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    if _little(arr, mask, vals) or not _place(arr, mask, vals):
        fallback.silently(numpy.place, arr, mask, vals)


def _place(arr: Any, mask: Any, vals: Any) -> bool:
    target, chosen = _target(arr), adopt(asanyarray(mask))
    if (target is None or type(chosen) is not core.array_class or chosen.form.size != target.form.size
            or not masks.recordable(chosen, target)):
        return False
    storage: Any = access.storage_of(arr)
    if storage.shown() or isinstance(vals, Array) and access.storage_of(vals) is storage:
        return False  # NumPy reads values that it has written, perhaps through an array of the program
    values = _values(vals, target.form.dtype, "safe")
    if values is None:
        return False
    if indices.distant(target):
        from diffuse.numpy.arrays import far

        return far.assigned(target, masks.flat(masks.truth(chosen)), values)
    found = masks.positions(masks.truth(chosen))
    if not found.form.size:
        return True
    values = _repeated(values, found.form.size)
    return values is not None and scatter.write(target, found, values)


@asking(numpy.putmask)
def putmask(a: Any, /, mask: Any, values: Any) -> None:
    if _little(a, mask, values) or not _putmask(a, mask, values):
        fallback.silently(numpy.putmask, a, mask, values)


def _putmask(a: Any, mask: Any, given: Any) -> bool:
    chosen = adopt(asanyarray(mask))
    if type(a) is not core.array_class or not isinstance(chosen, Array) or chosen.form.shape != a.shape:
        return False
    if not a.meta.flags.writeable or not a.form.size or a.form.folded or elementwise.eager_errors:
        return False
    truth = masks.truth(chosen)
    values = _values(given, a.form.dtype, "safe")
    values = None if values is None else _repeated(values, a.form.size)
    if values is None:
        return False
    if values.form.size != 1:
        values = viewing(values, values.meta.reshape(a.shape))
    if values.form.dtype != a.form.dtype:
        values = elementwise.duplicate(values, a.form.dtype)
    name = a.form.name
    a[...] = elementwise.issue("where", ("bool", name, name, name), (truth, values, a))
    return True


@asking(numpy.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: Any = False) -> None:
    if type(a) is core.array_class and _number_on_diagonal(a, val, wrap):
        return
    if _little(a, val) or not _fill_diagonal(a, val, wrap):
        fallback.silently(numpy.fill_diagonal, a, val, wrap)


def _number_on_diagonal(a: Array, val: Any, wrap: Any) -> bool:
    """Write a Python number to the diagonal at once, without a task: of a float64 matrix whose memory is at
    hand and whose diagonal is short.  Returns False, and writes nothing, in all other cases."""
    form = a.form
    if type(val) not in (float, int) or form.name != "float64" or form.ndim != 2 or wrap is not False:
        return False
    _, width = form.shape
    if not 0 < width < indices.SOONER * core.SMALL or not a.meta.flags.c_contiguous or not form.size:
        return False
    memory = access.mine(a) if a.meta.flags.writeable and library.current().host_sees else None
    if memory is None:
        return False
    soon.looked()
    memory.reshape(-1)[:width * width:width + 1] = val
    return True


def _fill_diagonal(a: Any, val: Any, wrap: Any) -> bool:
    target = _target(a)
    if target is None or a.ndim < 2 or a.ndim > 2 and len(set(a.shape)) > 1 or not a.size:
        return False
    if a.ndim == 2:
        step, end = a.shape[1] + 1, None if wrap else a.shape[1] * a.shape[1]
    else:
        step, end = 1 + sum([a.shape[0] ** d for d in range(1, a.ndim)]), None
    if indices.sooner(-(-min(a.size, end or a.size) // step), a):
        return False
    part = viewing(target, target.meta[:end:step])
    values = _values(val, a.form.dtype)
    values = None if values is None else _repeated(values, part.form.size)
    if values is None:
        return False
    part[...] = values
    return True
