"""Memory that the program's NumPy arrays lend: finds who else can see it, by CPython's reference counts.

`np.asarray(array)` shares the array's memory.  While the program holds the array, or anything that leads to
its memory, it may read and write there at any moment, so operations on it are run at once.  When only Diffuse
still holds it, it is an array like all others.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any
from weakref import getweakrefcount

import numpy

from diffuse.numpy.arrays.forms import Mirror, Span, address
from diffuse.numpy.small import native


class Lent(Span):
    """The memory of an array of the program, which only `keep` refers to."""

    __slots__ = ()
    keep: Any


if native is not None:
    for kind in Span, Lent:
        native.lend_buffers(kind)


def borrow(array: Mirror) -> tuple[Lent, Mirror]:
    """Another array over the same memory, which keeps the first alive by one reference."""
    span = Lent(address(array), array.shape, array.dtype.str, array, array.strides)
    return span, _over(span)


def _over(span: Lent) -> Mirror:
    array: Mirror = numpy.asarray(span)
    if array.dtype.char != span.keep.dtype.char:  # types of C with the same size have names of their own
        object.__setattr__(array, "dtype", span.keep.dtype)
    if not span.keep.flags.writeable:
        array.flags.writeable = False
    return array


def lock(ours: Mirror, writeable: bool) -> Mirror:
    """Set WRITEABLE of the array that lends the memory, too, as NumPy's `asarray` would return that array.
    Returns the array over the memory from now on, as one over foreign memory cannot be made writeable
    again."""
    span: Any = ours.base
    span.keep.flags.writeable = writeable
    return _over(span)


def held(span: Lent) -> bool:
    """Could code other than Diffuse write to the memory, or read it?

    Views and buffers refer to the arrays that they belong to, so each array along `base` must have one
    reference only, and the last must own the memory.  Weak references count, as they give access to the
    array.  Read-only flags say nothing: an earlier view may be writable.  `bytes` never change, unless NumPy
    unpickled an array: that is writeable memory of `bytes`, to which nobody else refers.
    """
    outside, writeable, array = False, False, span.keep
    while isinstance(array, numpy.ndarray):
        outside = outside or getrefcount(array) > _ALONE or getweakrefcount(array) > 0
        writeable = writeable or array.flags.writeable
        if array.base is None:
            return outside or not array.flags.owndata
        array = array.base
    return type(array) is not bytes or outside and writeable


def root(array: Any) -> Any:
    """Return the object that keeps an array's memory: the last one along `base`."""
    while isinstance(array, numpy.ndarray) and array.base is not None:
        array = array.base
    return array


def owned(array: Mirror) -> bool:
    """Is it the memory of a NumPy array, not of another library's object?"""
    base = root(array)
    return isinstance(base, numpy.ndarray) and bool(base.flags.owndata)


def origin(memory: Mirror) -> Any:
    """The object outside Diffuse that owns this memory, as NumPy's `base` names it, or None."""
    base: Any = memory.base
    if type(base) is Lent:
        return base.keep.base
    return None if isinstance(base, (numpy.ndarray, Span)) else base


def foreign(memory: Mirror) -> bool:
    """Does another object own this memory: one that is not an array, or the array of which the program's is a
    view?"""
    base: Any = memory.base
    if type(base) is Lent:
        return not base.keep.flags.owndata
    return not isinstance(base, (numpy.ndarray, Span)) and not memory.flags.owndata


def lender(memory: Mirror) -> Any:
    """The program's array from which all of this memory was borrowed, if the program still holds it."""
    span: Any = memory.base
    if type(span) is not Lent or not held(span):
        return None
    array: Any = span.keep
    same = (array.shape, array.strides, array.dtype) == (memory.shape, memory.strides, memory.dtype)
    return array if same and array.flags.writeable == memory.flags.writeable else None


def _references() -> int:
    """The number of references that `held` counts for an unshared array: its holder's, its own and the
    call's."""
    span, _ = borrow(numpy.empty(1))
    array = span.keep
    return getrefcount(array)


_ALONE = _references()
