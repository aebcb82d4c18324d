"""Changes arrays in place: another size, element type or strides for the same object."""

from __future__ import annotations

import gc
import operator
import sys
import warnings
import weakref
from types import MethodType
from typing import Any

import numpy
from numpy.lib.stride_tricks import as_strided

from diffuse.numpy.arrays import access, core
from diffuse.numpy.arrays.access import host, offset_of, storage_of
from diffuse.numpy.arrays.core import Array, viewing
from diffuse.numpy.arrays.forms import NATIVE, column_major, row_major
from diffuse.numpy.ops.operands import wrap

_VIEWED = numpy.empty(1)
_VIEW = _VIEWED[:]

_SLOTS = ("storage", "form", "part", "meta", "memory", "owner")


def resize(x: Any, shape: tuple[Any, ...], refcheck: bool) -> None:
    """`x.resize(shape)`: elements are cut off, or zeros appended, in the order of memory."""
    # the caller's name for x, the method's, ours, and the argument of the call
    names = sys.getrefcount(x) - 4
    holders = gc.get_referrers(x)
    names -= sum([type(holder) is MethodType for holder in holders])
    wanted: Any = shape[0] if len(shape) == 1 else shape
    if not shape or wanted is None:
        return
    extents = wanted if hasattr(wanted, "__len__") and getattr(wanted, "ndim", 1) != 0 else (wanted,)
    wrong = type(extents) in (dict, set, frozenset) or len(extents) > 64
    if wrong or any([type(n) in (bool, numpy.bool_) for n in extents]):
        numpy.empty(wanted)  # no sequences, though they have a length, or no integers: raises NumPy's error
    try:
        wanted = tuple([operator.index(n) for n in extents])
    except TypeError:
        numpy.empty(0).resize(wanted)
        raise
    if not x.meta.flags.forc:
        raise ValueError("resize only works on single-segment arrays")
    if any([n < 0 for n in wanted]):
        raise ValueError("negative dimensions not allowed")
    if (x.base is not None or x.form.size) and _same_size(x, wanted):  # views go on showing the same memory
        order: Any = "C" if x.meta.flags.c_contiguous else "F"
        form = (row_major if order == "C" else column_major)(wanted, x.form.dtype)
        if (wanted, form.strides) != (x.form.shape, x.form.strides):
            # a view of the array: the result of `as_strided` belongs to an object that `base` would show
            x._become(lambda a: as_strided(a.reshape(wanted, order=order), strides=form.strides)[...])
        return
    if x.base is not None:
        raise ValueError("cannot resize this array: it does not own its data")
    memory = host(x).copy(order="K")
    memory.flags.writeable = True
    memory.resize(wanted, refcheck=False)
    seen = x.storage is not None and x.storage.shown()
    views = [holder for holder in holders if isinstance(holder, Array) and holder.owner is x]
    shared = x.owner is None and x.storage is None and access.lent(x)
    held = names > 0 or seen or views or weakref.getweakrefcount(x) or shared
    if refcheck and memory.size != x.form.size and held:
        _VIEWED.resize(2)  # raises NumPy's error
    memory.flags.writeable = x.meta.flags.writeable
    before = _twin(x)
    for view in views:
        view.owner = before
    take(x, wrap(memory))


def _same_size(x: Array, wanted: Any) -> bool:
    """Does the shape `wanted` have as many elements as `x`?  Strides of 0 avoid an allocation."""
    return numpy.broadcast_to(numpy.empty((), bool), wanted).size == x.form.size


def set_dtype(x: Array, dtype: Any) -> None:
    """Assign `x.dtype = dtype`: the same bytes read as another type."""
    meta: Any = x.meta.view()
    meta.dtype = dtype
    if meta.dtype not in NATIVE:
        raise TypeError(f"cannot make this array one of {meta.dtype} in place, a type that Diffuse leaves to "
                        f"NumPy; expected a numeric type, or x.view({str(meta.dtype)!r})")
    _show(x, meta)


def set_strides(x: Array, strides: Any) -> None:
    """Assign `x.strides = strides`, within the memory of the array that owns it."""
    root = x if x.owner is None else x.owner
    bytes_there = numpy.empty(root.form.size * root.form.itemsize, numpy.uint8)
    offset = offset_of(x, x.meta) if x.form.size else 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            numpy.ndarray(x.form.shape, x.form.dtype, bytes_there, offset, x.form.strides).strides = strides
            meta, wrong = x.meta.view(), None
            meta.strides = strides
        except (TypeError, ValueError) as error:
            wrong = error
    if caught:
        warnings.warn(caught[0].message, stacklevel=3)
    if wrong is not None:
        raise wrong
    _show(x, meta)


def _show(x: Array, meta: numpy.ndarray[Any, Any]) -> None:
    """Make `x` the view of its own store that `meta` describes."""
    if x.owner is None and x.form.size:
        storage_of(x)  # where views of x find the store, which keeps the old type
        x.owner = _twin(x)
    take(x, viewing(x, meta))


def _twin(x: Array) -> Array:
    """Make another array over the same store with the same description."""
    twin: Array = Array.__new__(core.array_class)
    for slot in _SLOTS:
        setattr(twin, slot, getattr(x, slot))
    twin.lent = x.owner is None and x.storage is None and x.lent
    return twin


def take(x: Array, other: Array) -> None:
    """Give `x` the store and the description of another array."""
    for slot in _SLOTS[:-1]:
        setattr(x, slot, getattr(other, slot))
    x.lent = other.owner is None and other.storage is None and other.lent
