"""Reads through arrays of indices: `x[i]`, `x[i, :]`, `x[i, j]` as a task that fuses with what uses it.

The task reads elements at coordinates that are data.  Whether all indices lie within the array is known
before it is recorded: the smallest and the largest of each array are looked at, or computed and waited for,
so that an IndexError comes at the call, in NumPy's words, and no task reads anything out of bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from diffuse import library
from diffuse.library import Scalar
from diffuse.numpy.arrays import access, base, core, indices, masks
from diffuse.numpy.arrays.core import Array, viewing
from diffuse.numpy.arrays.forms import Form, row_major
from diffuse.numpy.arrays.indices import Chosen
from diffuse.numpy.ops import elementwise, rules
from diffuse.numpy.ops.operands import adopt


def read(x: Array, index: Any) -> Any:
    """`x[index]` for an index with arrays; None where NumPy has to answer."""
    if not library.current().runtime.addressed or indices.small(x, index):
        return None
    if masks.covers(x, index):
        return masked(x, indices.integers(index))
    chosen = indices.take_apart(x.meta, index, positions)
    if chosen is None:
        return None
    form = indices.layout(chosen, x.form.dtype)
    if not recordable(form, x, *chosen.arrays):
        return None
    for axis, array in zip(chosen.axes, chosen.arrays, strict=True):
        if not indices.within(array, chosen.meta.shape[axis]):
            return None
    return gathered(x, chosen, form)


def positions(mask: Any) -> Sequence[Any]:
    """The indices of a mask's true elements, an array for each of its dimensions."""
    if not masks.recordable(mask):
        return [core.hosted(numpy.ascontiguousarray(found)) for found in access.host(mask).nonzero()]
    rest = masks.positions(mask)
    found = []
    for extent in mask.form.shape[:0:-1]:
        found.append(base.UFUNCS["remainder"](rest, extent))
        rest = base.UFUNCS["floor_divide"](rest, extent)
    return [adopt(part) for part in (rest, *reversed(found))]


def masked(x: Array, mask: Any) -> Any:
    """`x[mask]` for a mask of the array's shape: its elements one after another, in C order."""
    if not masks.recordable(mask) or not mask.form.shape or masks.few(mask, x):
        return None
    found = masks.positions(mask)
    part, count = masks.flat(x), found.form.size
    chosen = Chosen(part.meta, (0,), (found,), 0, (count,), False)
    return gathered(part, chosen, row_major((count,), x.form.dtype))


def gathered(x: Array, chosen: Chosen, form: Form) -> Any:
    """Record the read of what is chosen into a new array of this form; all indices lie within the array."""
    if not form.size:
        return core.hosted(numpy.ndarray(form.shape, form.dtype))
    out = core.recorded(form)
    own = range(chosen.place, chosen.place + len(chosen.spread))
    part = x if chosen.meta is x.meta else viewing(x, chosen.meta)
    gather(part, chosen.results, chosen.arrays, chosen.spread, own, (out.storage, out.part))
    bounds = indices.known(x) if form.dtype.kind in "iu" else None
    if bounds is not None:
        indices.know(out, *bounds)
    return out


def gather(part: Array, follows: Sequence[int], arrays: Sequence[Any], spread: tuple[int, ...],
           own: Sequence[int], target: base.Operand) -> Any:
    """Record a read of an array into a target; returns the template of the task.

    Dimension k of the array follows the target's dimension `follows[k]`, or none where that is -2; where it
    is -1 the next one of the arrays has its index.  These are broadcast to the shape `spread`, whose
    dimensions are the target's dimensions `own`.
    """
    shape = target[1].shape
    permuted = rules.turned(shape, target[1].strides)
    space, axes = permuted or (shape, tuple(range(len(shape))))
    source, pitches = located(part, space, [axes[d] if d >= 0 else d for d in follows])
    inputs: list[Any] = [source]
    letters, types = "", [part.form.name]
    for axis, array in zip([k for k, d in enumerate(follows) if d == -1], arrays, strict=True):
        storage, view = base.operand(array, spread)
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
    """The elements of an array at these indices of a dimension, as `numpy.take` lays them out; None where
    NumPy has to answer."""
    chosen = Chosen(x.meta, (axis,), (array,), axis, array.form.shape, False)
    form = row_major(chosen.shape, x.form.dtype)
    if not recordable(form, x, array) or not indices.within(array, x.form.shape[axis]):
        return None
    return gathered(x, chosen, form)


def recordable(form: Form, *arrays: Array) -> bool:
    """Is a read of arrays into one of this form to be recorded?  Else NumPy does it at once."""
    return (library.current().runtime.addressed and form.size > 0
            and not indices.sooner(form.size, *arrays))


def located(part: Array, space: tuple[int, ...], axes: list[int]) -> tuple[base.Operand, list[int]]:
    """An array as a task over `space` reads it whose dimension k follows the task's axes[k] (see
    `gather`), with the elements from one index of each dimension to the next.  Of a copy, where a coordinate
    of the store is data in part."""
    try:
        view = base.view_of(part).picked(space, tuple(axes))
        if not any([stride % part.form.itemsize for stride in part.form.strides]):
            return (part.storage, view), [stride // part.form.itemsize for stride in part.form.strides]
    except (base.Unaddressable, ValueError):
        pass
    return located(elementwise.duplicate(part, order="C"), space, axes)
