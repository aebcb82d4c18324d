"""Writes through arrays of indices: `x[i] = v`, `x[i, :] = v`, `x[mask] = v` and `ufunc.at`, each as a task.

The task processes the indices in order, so that the last of equal ones wins, as in NumPy.  As for reads, all
indices are checked to be within the array before it is recorded.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from diffuse import library
from diffuse.library import Scalar, operations
from diffuse.numpy.arrays import access, base, core, gather, indices, masks, soon, views
from diffuse.numpy.arrays.core import Array, viewing
from diffuse.numpy.arrays.forms import NATIVE, Mirror
from diffuse.numpy.arrays.indices import Chosen
from diffuse.numpy.ops import elementwise, rules
from diffuse.numpy.ops.operands import adopt

MANY = 1 << 19
"""The number of indices from which on a task folds into a short array in less time than NumPy."""


def write(x: Array, index: Any, value: Any, operator: str = "") -> bool:
    """Record `x[index] = value`, or the equivalent of `operator.at(x, index, value)`; False if NumPy has to
    do it.

    The value is a Diffuse array with an element type that kernels support.
    """
    running = library.current()
    if elementwise.eager_errors or not (running.runtime.addressed and running.host_sees
                                        or indices.distant(x)):
        return False
    if indices.small(x, index) and access.ready(value):
        return False
    if type(index) is tuple and len(index) == 1:
        index, = index
    if type(index) is list:
        index = indices.integers(index)
    whole = masks.covers(x, index)
    if whole and (value.form.ndim > 1 or masks.overlaps(x, value) or masks.overlaps(x, index)):
        return False  # an error, or NumPy writes elements that it reads later
    if whole and not operator and not running.host_sees:
        through = _through(x, index, value)
        if through is not None:
            return through
    chosen = _flat(x, index) if whole else None
    chosen = chosen or indices.take_apart(x.meta, index, gather.positions)
    if operator and chosen is not None and value.form.ndim > len(chosen.shape):
        return False  # an error of `at`, where assignments drop extents of 1
    if chosen is None or not _in_order(chosen, value) or not _fits(x, chosen, value):
        return False
    try:
        found = gather.evenly(chosen)
        if found is None:
            return False
        target, axis = found
        if not running.host_sees:
            return _apart(x, chosen, value, target, axis, operator)
        direct = (x.meta.ndim == 1 and value.form.ndim <= 1 and value.form.dtype == x.form.dtype
                  and (type(index) is not tuple or index[0] is not None))
        _record(x, chosen, value, target, axis, operator, direct)
    except base.Unaddressable:
        return False
    return True


def _through(x: Array, index: Any, value: Any) -> bool | None:
    """Record `x[mask] = values` for a distributed array; None if another way is needed."""
    from diffuse.numpy.arrays import far

    mask: Any = indices.integers(index)
    if not x.meta.flags.c_contiguous or value.form.ndim != 1 or value.form.size != int(mask.sum()):
        return None
    flat = viewing(x, x.meta.reshape(-1))
    return far.assigned(flat, masks.flat(mask), value) if value.form.size else None


def _flat(x: Array, index: Any) -> Chosen | None:
    """The flat elements of an array that a mask of its shape selects; None if they are not contiguous."""
    mask: Any = indices.integers(index)
    if not x.meta.flags.c_contiguous or not masks.recordable(mask, x):
        return None
    found = masks.positions(mask)
    return Chosen(x.meta.reshape(-1), (0,), (found,), 0, found.form.shape, False)


def _in_order(chosen: Chosen, value: Any) -> bool:
    """Does NumPy process the indices in C order?  If arrays agree on another order in memory it uses that,
    and then another one of equal indices is the last."""
    if len(chosen.spread) == 1:
        return any([a.form.shape == chosen.spread and a.form.strides[0] > 0 for a in chosen.arrays])
    if any([a.form.shape == chosen.spread and a.meta.flags.c_contiguous for a in chosen.arrays]):
        return True
    return all([a.meta.flags.c_contiguous for a in (*chosen.arrays, value)])


def _fits(x: Array, chosen: Chosen, value: Any) -> bool:
    """Should the write be recorded: is it large, within the array, and of a value with a fitting shape?"""
    shape = chosen.shape
    size = prod(shape)
    if not size or indices.sooner(size, x, value, *chosen.arrays):
        return False
    given = value.form.shape
    while len(given) > len(shape) and given[0] == 1:
        given = given[1:]
    if len(given) > len(shape) or any(
            [n not in (1, m) for n, m in zip(given[::-1], shape[::-1], strict=False)]):
        return False
    return all([indices.within(array, chosen.meta.shape[axis])
                for axis, array in zip(chosen.axes, chosen.arrays, strict=True)])


def _record(x: Array, chosen: Chosen, value: Any, target: Mirror, axis: int, operator: str,
            direct: bool) -> None:
    """Record the task.  Unless a write is `direct`, NumPy's `ufunc.at` goes from element to element, and its
    warnings name `at` instead of the operation; NaN is no error of `maximum.at` and `minimum.at` then."""
    view = base.view_in(x, target)
    storage = x.storage
    numbers, values = _operands(x, chosen, value, target, axis)
    ascending = len(chosen.arrays) == 1 and indices.ascending(chosen.arrays[0])
    permuted = rules.turned(target.shape, target.strides)
    space, axes = permuted or (target.shape, tuple(range(target.ndim)))
    rest = [axes[d] for d in range(target.ndim) if d != axis]
    source, pitches = gather.located(values, space, [-1, *rest])
    if permuted is not None:
        view = view.kept(space, axes)
    place = storage, view
    counted = access.storage_of(numbers), base.view_of(numbers).picked(space, (-1,))
    name, dtype = f"scatter_{operator}" if operator else "scatter", x.form.name
    letter = "d" if direct or not operator else "a"
    library.record(
        f"{name}:{letter}{axes[axis]}", (dtype, "int64", values.form.name, *["int64"] * 3, dtype), space,
        (place, counted, source, Scalar(3, "int64", numbers.form.size), Scalar(4, "int64", pitches[0]),
         Scalar(5, "int64", int(ascending))),
        (place,))


def _operands(x: Array, chosen: Chosen, value: Any, target: Mirror, axis: int) -> list[Any]:
    """The indices and the values, copied if they overlap the array."""
    return [elementwise.duplicate(a) if elementwise.meets(access.storage_of(a), x.storage) else a
            for a in (gather.numbers(chosen), _values(chosen, value, target, axis))]


def _apart(x: Array, chosen: Chosen, value: Any, target: Mirror, axis: int, operator: str) -> bool:
    """Record the write to a distributed array; False if every rank needs the whole array."""
    from diffuse.numpy.arrays import far

    if axis or x.form.dtype.kind != "c" == value.form.dtype.kind:
        return False
    numbers, values = _operands(x, chosen, value, target, axis)
    if value.form.size == 1:
        values = viewing(values, values.meta[:1])
    return far.scattered(viewing(x, target), numbers, values, operator)


def _values(chosen: Chosen, value: Any, target: Mirror, axis: int) -> Any:
    """The values with the indexed dimension first, followed by the other dimensions of the target."""
    if value.form.shape == chosen.shape and not chosen.place and len(chosen.spread) == 1:
        return value
    while value.form.ndim > len(chosen.shape):
        value = viewing(value, value.meta[0])
    spread, place = len(chosen.spread), chosen.place
    meta = numpy.moveaxis(numpy.broadcast_to(value.meta, chosen.shape), range(place, place + spread),
                          range(spread))
    rest = [n for d, n in enumerate(target.shape) if d != axis]
    return views.reshape(viewing(value, meta), (-1 if spread != 1 else chosen.spread[0], *rest))


def few_at(function: Any, array: Array, index: Any, value: Any) -> bool:
    """Let NumPy's `ufunc.at` write at once if it writes few elements of an array at hand, which is faster
    than a task; returns False otherwise."""
    if (type(index) is not core.array_class or index.form.ndim != 1 or index.form.dtype.kind not in "iu"
            or not array.form.shape or elementwise.eager_errors or not library.current().host_sees):
        return False
    if index.form.size * array.form.size >= indices.SOONER * core.SMALL * max(array.form.shape[0], 1):
        return False
    places = access.at_hand(index)
    if type(value) is core.array_class:
        value = access.at_hand(value)
    elif type(value) not in rules.NUMBERS:
        return False
    memory = None if places is None or value is None else access.mine(array)
    if memory is None:
        return False
    soon.looked()
    function(memory, places, value)
    return True


def fold_at(function: Any, array: Any, index: Any, value: Any) -> bool:
    """Record the method `at` of a binary ufunc; returns False if NumPy has to do it."""
    if (type(array) is not core.array_class or function.__name__ not in operations.SCATTERED
            or not array.meta.flags.writeable or array.form.dtype.kind not in "iuf"):
        return False
    given = adopt(numpy.asarray(value) if type(value) in rules.NUMBERS else value)
    if type(given) is not core.array_class or given.storage is not None and given.storage is array.storage:
        return False
    many = type(index) is core.array_class and index.form.size >= MANY
    if array.form.size < core.SMALL and not many and access.ready(array) and access.ready(given):
        return False  # one point would process all of it, and NumPy is as fast
    try:
        types = function.numpy.resolve_dtypes((array.form.dtype, given.form.dtype, None))
    except TypeError:
        return False
    if set(types) != {array.form.dtype} or types[0] not in NATIVE:
        return False
    return write(array, index, given, function.__name__)
