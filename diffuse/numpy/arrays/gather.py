"""Reads through arrays of indices: `x[i]`, `x[i, :]`, `x[i, j]` as a task that fuses with its users.

The task reads elements at data-dependent coordinates.  That all indices are within the array is checked
before it is recorded: the minimum and maximum of each index array are read, or computed and waited for, so
that an IndexError is raised at the call, with NumPy's message, and no task reads out of bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from diffuse import library
from diffuse.library import Scalar
from diffuse.numpy.arrays import access, base, core, indices, masks
from diffuse.numpy.arrays.core import Array, viewing
from diffuse.numpy.arrays.forms import Form, Mirror, row_major
from diffuse.numpy.arrays.indices import Chosen
from diffuse.numpy.ops import elementwise, rules
from diffuse.numpy.ops.operands import adopt


def read(x: Array, index: Any) -> Any:
    """`x[index]` for an index with arrays; None if NumPy has to compute it."""
    addressed = library.current().runtime.addressed
    if not addressed and not indices.distant(x) or indices.small(x, index):
        return None
    if not addressed and (found := _rows(x, index)) is not None:
        return found
    if masks.covers(x, index):
        return masked(x, indices.integers(index))
    chosen = indices.take_apart(x.meta, index, positions)
    if chosen is None or not chosen.meta.size:
        return None
    form = indices.layout(chosen, x.form.dtype)
    if not recordable(form, x, *chosen.arrays):
        return None
    for axis, array in zip(chosen.axes, chosen.arrays, strict=True):
        if not indices.within(array, chosen.meta.shape[axis]):
            return None
    return gathered(x, chosen, form)


def positions(mask: Any) -> Sequence[Any]:
    """The indices of a mask's true elements, one array for each of its dimensions."""
    if not masks.recordable(mask):
        return [core.hosted(numpy.ascontiguousarray(found)) for found in access.host(mask).nonzero()]
    rest = masks.positions(mask)
    found = []
    for extent in mask.form.shape[:0:-1]:
        found.append(base.UFUNCS["remainder"](rest, extent))
        rest = base.UFUNCS["floor_divide"](rest, extent)
    return [adopt(part) for part in (rest, *reversed(found))]


def masked(x: Array, mask: Any) -> Any:
    """`x[mask]` for a mask of the array's shape: the selected elements in C order."""
    if not masks.recordable(mask, x) or not mask.form.shape or masks.few(mask, x):
        return None
    found = masks.positions(mask)
    part, count = masks.flat(x), found.form.size
    chosen = Chosen(part.meta, (0,), (found,), 0, (count,), False)
    return gathered(part, chosen, row_major((count,), x.form.dtype))


def gathered(x: Array, chosen: Chosen, form: Form) -> Any:
    """Record the read of the selected elements into a new array of this form; all indices are within the
    array."""
    if not form.size:
        return core.hosted(numpy.ndarray(form.shape, form.dtype))
    if not library.current().runtime.addressed:
        return _apart(x, chosen, form)
    out = core.recorded(form)
    own = range(chosen.place, chosen.place + len(chosen.spread))
    part = x if chosen.meta is x.meta else viewing(x, chosen.meta)
    gather(part, chosen.results, chosen.arrays, chosen.spread, own, (out.storage, out.part))
    bounds = indices.known(x) if form.dtype.kind in "iu" else None
    if bounds is not None:
        indices.know(out, *bounds)
    return out


def _apart(x: Array, chosen: Chosen, form: Form) -> Any:
    """Record the read of a distributed array; None if ranks need all of it."""
    from diffuse.numpy.arrays import far

    found = evenly(chosen)
    if found is None:
        return None
    target, axis = found
    lined = out = core.recorded(form)
    if chosen.place != axis or axis and len(chosen.axes) > 1:
        return None
    if len(chosen.spread) != 1:
        if not form.ordered:
            return None
        lined = viewing(out, out.meta.reshape(*form.shape[:axis], -1,
                                              *form.shape[axis + len(chosen.spread):]))
    return out if far.gathered(viewing(x, target), axis, numbers(chosen), lined) else None


def _rows(x: Array, index: Any) -> Any:
    """`x[mask]` for a mask of the first dimensions of a distributed array; None for other arrays."""
    from diffuse.numpy.arrays import far

    mask: Any = indices.integers(index)
    if (type(mask) not in core.ARRAYS or mask.form.name != "bool"
            or mask.form.shape != x.form.shape[:mask.ndim]
            or not (x.meta.flags.c_contiguous and far.wanted(x, mask))):
        return None
    count = int(mask.sum())
    if not count:
        return None
    return far.masked(x, mask, row_major((count, *x.form.shape[mask.ndim:]), x.form.dtype))


def gather(part: Array, follows: Sequence[int], arrays: Sequence[Any], spread: tuple[int, ...],
           own: Sequence[int], target: base.Operand) -> Any:
    """Record a read of an array into a target; returns the template of the task.

    Dimension k of the array follows the target's dimension `follows[k]`, or none if that is -2; if it is -1,
    the next one of the arrays holds its index.  These are broadcast to the shape `spread`, whose dimensions
    are the target's dimensions `own`.
    """
    shape = target[1].shape
    permuted = rules.turned(shape, target[1].strides)
    space, axes = permuted or (shape, tuple(range(len(shape))))
    source, pitches = located(part, space, [axes[d] if d >= 0 else d for d in follows])
    inputs: list[Any] = [source]
    letters, types = "", [part.form.name]
    for axis, array in zip([k for k, d in enumerate(follows) if d == -1], arrays, strict=True):
        storage, view = base.operand(array if base.locate(array) else elementwise.duplicate(array), spread)
        letters += "1" if pitches[axis] == 1 else "s"
        at = len(types)
        inputs += [(storage, view.kept(space, tuple([axes[d] for d in own]))),
                   Scalar(at + 1, "int64", part.form.shape[axis]), Scalar(at + 2, "int64", pitches[axis])]
        types += ["int64"] * 3
    if permuted is not None:
        target = target[0], target[1].kept(space, axes)
    name = f"gather{len(letters)}:{letters}"
    return library.record(name, (*types, target[1].dtype), space, tuple(inputs), (target,))


def along(x: Array, array: Any, axis: int) -> Any:
    """The elements of an array at these indices of a dimension, as `numpy.take` lays them out; None if NumPy
    has to compute it."""
    chosen = Chosen(x.meta, (axis,), (array,), axis, array.form.shape, False)
    form = row_major(chosen.shape, x.form.dtype)
    if not recordable(form, x, array) or not indices.within(array, x.form.shape[axis]):
        return None
    return gathered(x, chosen, form)


def recordable(form: Form, *arrays: Array) -> bool:
    """Should a read of arrays into one of this form be recorded?  Otherwise NumPy does it at once."""
    if not library.current().runtime.addressed:
        return form.size > 0 and indices.distant(*arrays)
    return form.size > 0 and not indices.sooner(form.size, *arrays)


def located(part: Array, space: tuple[int, ...], axes: list[int]) -> tuple[base.Operand, list[int]]:
    """The view of an array for a task over `space`, with its dimension k following the task's axes[k] (see
    `gather`), and the stride of each dimension in elements.  It is of a copy, if a coordinate of the store
    depends on data only in part."""
    try:
        view = base.view_of(part).picked(space, tuple(axes))
        if not any([stride % part.form.itemsize for stride in part.form.strides]):
            return (part.storage, view), [stride // part.form.itemsize for stride in part.form.strides]
    except (base.Unaddressable, ValueError):
        pass
    return located(elementwise.duplicate(part, order="C"), space, axes)


def evenly(chosen: Chosen) -> tuple[Mirror, int] | None:
    """Merge the indexed dimensions into one: returns a view of the elements that may be chosen, and the
    number of that dimension in it.  None where the indexed elements are not evenly spaced in memory."""
    if len(chosen.axes) == 1:
        return chosen.meta, chosen.axes[0]
    rest = [k for k in range(chosen.meta.ndim) if k not in chosen.axes]
    turned = chosen.meta.transpose(*chosen.axes, *rest)
    try:
        return turned.reshape(-1, *[chosen.meta.shape[k] for k in rest], copy=False), 0
    except ValueError:
        return None


def numbers(chosen: Chosen) -> Any:
    """The nonnegative, contiguous indices along the dimension that `evenly` returns (int64)."""
    found: Any = None
    for axis, array in zip(chosen.axes, chosen.arrays, strict=True):
        extent, negative = chosen.meta.shape[axis], indices.negative(array)
        array = masks.as_indices(array)
        if negative:
            array = base.UFUNCS["add"](array, base.UFUNCS["multiply"](base.UFUNCS["less"](array, 0), extent))
        if found is not None:
            found = base.UFUNCS["add"](base.UFUNCS["multiply"](found, extent), array)
        else:
            found = array
    found = adopt(found)
    if found.form.shape != chosen.spread:
        found = viewing(found, numpy.broadcast_to(found.meta, chosen.spread))
    return masks.flat(found)
