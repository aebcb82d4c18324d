"""Reads through arrays of indices: `x[i]`, `x[i, :]`, `x[i, j]` as one task that fuses with what uses the result.

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
from diffuse.numpy.arrays import access, base, core, indices
from diffuse.numpy.arrays.core import Array, viewing
from diffuse.numpy.arrays.forms import Form
from diffuse.numpy.arrays.indices import Chosen
from diffuse.numpy.ops import elementwise, rules


def read(x: Array, index: Any) -> Any:
    """`x[index]` for an index with arrays; None where NumPy has to answer."""
    if not library.current().runtime.addressed or indices.small(x, index):
        return None
    chosen = indices.take_apart(x.meta, index, positions)
    if chosen is None:
        return None
    shape = chosen.shape
    size = numpy.prod(shape, dtype=object)
    if not size or size < core.SMALL and ready(x, chosen):
        return None
    for axis, array in zip(chosen.axes, chosen.arrays, strict=True):
        if not indices.within(array, chosen.meta.shape[axis]):
            return None
    return gathered(x, chosen, indices.layout(chosen, x.form.dtype))


def ready(x: Array, chosen: Chosen) -> bool:
    """Is all that a read needs at hand?"""
    return not [a for a in (x, *chosen.arrays) if not access.ready(a)]


def positions(mask: Any) -> Sequence[Any]:
    """The indices of a mask's true elements."""
    return [core.hosted(numpy.ascontiguousarray(found)) for found in access.host(mask).nonzero()]


def gathered(x: Array, chosen: Chosen, form: Form) -> Any:
    """Record the read of what is chosen into a new array of this form; all indices lie within the array."""
    if not form.size:
        return core.hosted(numpy.ndarray(form.shape, form.dtype))
    out = core.recorded(form)
    gather(viewing(x, chosen.meta), chosen, (out.storage, out.part))
    return out


def gather(part: Array, chosen: Chosen, target: base.Operand) -> Any:
    """Record the read of what is chosen of a part of an array; returns the template of the task."""
    shape = target[1].shape
    permuted = rules.turned(shape, target[1].strides)
    space, axes = permuted or (shape, tuple(range(len(shape))))
    source, pitches = located(part, space, [axis if axis < 0 else axes[axis] for axis in chosen.results])
    inputs: list[Any] = [source]
    letters, types = "", [part.form.name]
    own = axes[chosen.place:chosen.place + len(chosen.spread)]
    for axis, array in zip(chosen.axes, chosen.arrays, strict=True):
        storage, view = base.operand(array, chosen.spread)
        letters += "1" if pitches[axis] == 1 else "s"
        at = len(types)
        inputs += [(storage, view.kept(space, own)), Scalar(at + 1, "int64", chosen.meta.shape[axis]),
                   Scalar(at + 2, "int64", pitches[axis])]
        types += ["int64"] * 3
    if permuted is not None:
        target = target[0], target[1].kept(space, axes)
    name = f"gather{len(letters)}:{letters}"
    return library.record(name, (*types, target[1].dtype), space, tuple(inputs), (target,))


def located(part: Array, space: tuple[int, ...], axes: list[int]) -> tuple[base.Operand, list[int]]:
    """An array as a task over `space` reads it whose dimension k follows the task's axes[k], or is indexed by
    data where that is -1; with the elements from one index of each dimension to the next.  Of a copy, where a
    coordinate of the store is data in part."""
    try:
        view = base.view_of(part).picked(space, tuple(axes))
        if not any([stride % part.form.itemsize for stride in part.form.strides]):
            return (part.storage, view), [stride // part.form.itemsize for stride in part.form.strides]
    except (base.Unaddressable, ValueError):
        pass
    return located(elementwise.duplicate(part, order="C"), space, axes)
