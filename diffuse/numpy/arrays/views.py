"""Views: an index, a shape or a permutation makes another array over the same store.

NumPy itself computes every view, on the array's meta; results and exceptions are therefore its own.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import access, base, core, gather
from diffuse.numpy.arrays.access import host, ready
from diffuse.numpy.arrays.base import distant
from diffuse.numpy.arrays.core import Array, hosted, viewing
from diffuse.numpy.arrays.forms import NATIVE, Mirror, computable, copying, memory_order
from diffuse.numpy.arrays.versions import CHECKS_PARTS
from diffuse.numpy.ops import elementwise
from diffuse.numpy.ops.operands import answering, lowered, refused, wrap

SIMPLE = {int, slice, type(None), type(Ellipsis), *(d.type for d in NATIVE if d.kind in "iu")}
_NUMBERS = {int, *(d.type for d in NATIVE if d.kind in "iu")}


def basic(index: Any) -> Any:
    """The index with pending numbers replaced by their values if it selects a view, else None."""
    kind = type(index)
    if kind in SIMPLE:
        return index if kind is not type(None) else (None,)
    if kind is tuple:
        if SIMPLE.issuperset(map(type, index)):
            return index
        parts = [p if type(p) in SIMPLE else _integer(p) for p in index]
        return None if any(p is NotImplemented for p in parts) else tuple(parts)
    found = _integer(index)
    return None if found is NotImplemented else found


def _integer(part: Any) -> Any:
    """Is it a 0-d integer, or another object usable as a Python index?  Arrays, lists and bools are not."""
    if isinstance(part, (bool, numpy.bool_, list, numpy.ndarray, str)) or type(part) is core.array_class:
        return NotImplemented
    try:
        return operator.index(part)
    except TypeError:
        return NotImplemented


def part(meta: Mirror, index: Any) -> tuple[Mirror, bool]:
    """The view of `meta` that a basic index selects (0-d for one element), and whether it is an element."""
    kind = type(index)
    if kind in _NUMBERS:
        return (meta[index, ...], True) if meta.ndim == 1 else (meta[index], False)
    if kind is tuple and len(index) == meta.ndim and _NUMBERS.issuperset(map(type, index)):
        return meta[(*index, Ellipsis)], True
    return meta[index], False


def getitem(x: Array, index: Any) -> Any:
    """`x[index]`: a view, an element (which is waited for), or a copy for arrays of indices."""
    kind = type(index)
    simple = index if kind is int or kind is slice else basic(index)
    if simple is None:
        return _gather(x, index)
    if (x.memory is None and x.meta.size >= core.SMALL > 0 and ready(x)
            and library.current().host_sees):
        host(x)  # the views that follow are made of the memory, too
    if x.memory is not None and (core.SEES or x.memory is x.meta) and ready(x):
        found = x.memory[simple]
        return core.looking(x, found) if type(found) is numpy.ndarray else found
    meta, element = part(x.meta, simple)
    if element:
        return peek(viewing(x, meta)) if distant(x) else host(x)[simple]
    return viewing(x, meta)


def peek(x: Array) -> Any:
    """The element of a 0-d view, fetched separately: its store stays where it is."""
    found = access.short(x)
    return (host(elementwise.duplicate(x)) if found is None else found)[()]


def _gather(x: Array, index: Any) -> Any:
    """Index with arrays: by a task; by NumPy at once, if all arrays are small or the case is NumPy's."""
    taken = gather.read(x, index)
    if taken is not None:
        return taken
    key = lowered(index)
    try:
        found = host(x)[key]
    except ValueError as error:
        if not refused(error):
            raise
        found = host(x)[answering(key)]
    return wrap(found) if type(found) is numpy.ndarray else found


def reshape(x: Array, shape: Any, order: Any = "C", copy: bool | None = None) -> Any:
    """Reshape: a view where NumPy's would be one, else a copy."""
    if isinstance(shape, Array):
        shape = host(shape)
    order = "C" if order is None else order
    if copy is not None:
        copy = copying(copy)
    if copy:
        laid = memory_order(order)
        if laid == "A":
            laid = "F" if x.meta.flags.fnc else "C"
        return reshape(elementwise.duplicate(x, order=laid), shape, laid)
    try:
        return viewing(x, x.meta.reshape(shape, order=order, copy=False))
    except ValueError as error:
        if copy is False or not str(error).startswith("Unable to avoid"):
            raise
    if order == "A":
        order = "F" if x.meta.flags.fnc else "C"
    fresh = elementwise.duplicate(x, order=order)
    return viewing(fresh, fresh.meta.reshape(shape, order=order, copy=False))


def ravel(x: Array, order: Any = "C") -> Any:
    """Ravel: a view if the elements are contiguous in that order, else a flat copy (NumPy's rule, which is
    stricter than that of reshape)."""
    flags, order = x.meta.flags, memory_order("C" if order is None else order)
    if order == "A":
        order = "F" if flags.fnc else "C"
    if order == "K":
        turned = _in_memory_order(x)
        return reshape(turned, -1) if turned.form.ordered else flatten(turned)
    if flags.c_contiguous if order == "C" else flags.f_contiguous:
        return reshape(x, -1, order)
    return flatten(x, order)


def _in_memory_order(x: Array) -> Any:
    """The array with its dimensions in memory order, as NumPy's iterator visits them; dimensions of stride 0
    have no place in memory order, and keep theirs."""
    steps, innermost = x.form.strides, [*reversed(range(x.form.ndim))]
    for i in range(1, x.form.ndim):
        place, mine = i, abs(steps[innermost[i]])
        for j in reversed(range(i)):
            other = abs(steps[innermost[j]])
            if mine and other:
                if mine >= other:
                    break
                place = j
        innermost.insert(place, innermost.pop(i))
    ranked = innermost[::-1]
    return x if ranked == list(range(x.form.ndim)) else viewing(x, x.meta.transpose(ranked))


def flatten(x: Array, order: Any = "C") -> Any:
    """A flat copy."""
    order = memory_order("C" if order is None else order)
    if order == "K":
        return flatten(_in_memory_order(x))
    flat = reshape(x, -1, order)
    if flat.owner is x or flat.owner is x.owner:
        return elementwise.duplicate(flat)
    if flat.storage is not None:
        base.view_of(flat)  # while it is a view: the store has the copy's shape
    flat.owner, flat.lent = None, False
    return flat


def retyped(x: Array, dtype: Any) -> Any:
    """`x.view(dtype)`: the same memory read as another element type."""
    meta = x.meta.view(dtype)
    if type(meta) is not numpy.ndarray or not computable(meta.dtype):
        return base.exported(x).view(dtype)
    return viewing(x, meta)


def component(x: Array, name: str) -> Any:
    """`.real` and `.imag`: views of complex arrays; for real ones the array itself, or zeros."""
    if x.meta.dtype.kind == "c":
        return viewing(x, x.meta.real if name == "real" else x.meta.imag)
    if name == "real":
        return x if type(x) is core.array_class else viewing(x, x.meta.view())
    zero = hosted(numpy.zeros(x.form.shape, x.form.dtype, "F" if x.meta.flags.fnc else "C"))
    zero.meta.flags.writeable = False
    return zero


def set_component(x: Array, name: str, value: Any) -> None:
    """Assign `x.real = value` and `x.imag = value`."""
    if name == "imag" and x.form.name[0] != "c":
        plain: Any = numpy.empty(0, x.form.dtype)
        plain.imag = 0  # raises NumPy's exception, whose words depend on its release
    # before NumPy 2.5 an array, whose numbers are cast where the type cannot hold them
    component(x, name)[...] = value if isinstance(value, Array) or CHECKS_PARTS else numpy.asarray(value)
