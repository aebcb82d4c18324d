"""Converts what a program passes to an operation (NumPy arrays, sequences, numbers) to Diffuse's operands."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import access, core
from diffuse.numpy.arrays.access import host, storage_of
from diffuse.numpy.arrays.base import exported, spanned
from diffuse.numpy.arrays.core import ARRAYS, Array, hosted
from diffuse.numpy.arrays.forms import NATIVE, computable, form_of
from diffuse.numpy.arrays.lending import borrow, held
from diffuse.numpy.bridge import exposed
from diffuse.numpy.ops import rules
from diffuse.settings import config

PLAIN = {*rules.WEAK, *rules.STRONG, numpy.ndarray, list, tuple}
"""Types, besides Diffuse's own, whose elements Diffuse uses directly: none of them handles a call itself."""


def wrap(array: Any) -> Any:
    """A Diffuse array over the memory of a NumPy array that only Diffuse will use from now on.

    Arrays of types without kernels (object, str, datetime64, structured, other byte orders) and subclasses
    stay what they are.
    """
    if type(array) is not numpy.ndarray or not computable(array.dtype) or not array.flags.aligned:
        return array
    if array.size >= core.SMALL:
        library.foresee(config.runtime)
    known = form_of(array)
    return hosted(array, known) if known.packed else spanned(array)


def shared(array: Any) -> Any:
    """A Diffuse array over memory that the program may also see as a NumPy array, or as something else; for
    that time, operations run at once."""
    if type(array) is not numpy.ndarray or not computable(array.dtype) or not array.size:
        return wrap(array)
    span, ours = borrow(array)
    x = wrap(ours)
    if not isinstance(x, Array):  # its elements are not aligned
        return array
    if access.alone():
        storage_of(x).show_while(partial(held, span))
    else:  # several ranks may run the program: decisions must not depend on what one of them holds
        storage_of(x).show(None)
    return x


_REFUSAL = "object __array__ method not producing an array"


class Answer:
    """Wraps an object whose `__array__` returns a Diffuse array: NumPy accepts only arrays of its own from
    that method."""

    __slots__ = ("_asked", "given", "memory")

    def __init__(self, asked: Any) -> None:
        self._asked = asked
        self.given = self.memory = None

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self.given = self.memory = self._asked.__array__(*args, **kwargs)
        if isinstance(self.given, Array):
            self.memory = exported(self.given)
        return self.memory

    def __getattr__(self, name: str) -> Any:
        # ufuncs ask what their result becomes, and objects to which they delegate may ask for anything public
        if name in ("__array_wrap__", "__array_priority__") or not name.startswith("_"):
            return getattr(self._asked, name)
        raise AttributeError(name)


def delegate(x: Any) -> bool:
    """Do ufuncs leave a call with this operand to the operand itself?"""
    known = isinstance(x, (numpy.ndarray, numpy.generic, Array))
    return not known and getattr(type(x), "__array_ufunc__", None) is not None


def answering(value: Any) -> Any:
    """Replace each object in `value` whose `__array__` NumPy would call by an `Answer`."""
    if type(value) in (list, tuple):
        return type(value)([answering(v) for v in value])
    if type(value) is dict:
        return {key: answering(v) for key, v in value.items()}
    known = isinstance(value, (numpy.ndarray, numpy.generic, Array, type))
    return Answer(value) if not known and hasattr(value, "__array__") else value


def readable(x: Any) -> Any:
    """`x`, or a replacement from which NumPy can read its elements."""
    if type(x) in PLAIN or isinstance(x, (Array, numpy.ndarray)) or not hasattr(x, "__array__"):
        return lowered(x)
    if isinstance(x, numpy.generic):  # they have rules of their own for assignment
        return x
    return numpy.asarray(Answer(x))


def refused(error: ValueError) -> bool:
    """Did NumPy call the `__array__` of an object and get a Diffuse array?"""
    return str(error) == _REFUSAL


def foreign(x: Any) -> bool:
    """Is this another library's array (a sparse or masked one, `numpy.matrix`), or another object to which
    NumPy's functions delegate, or that they convert by rules of their own?"""
    return type(x) not in PLAIN and not isinstance(x, Array) and not exposed.shares(x)


def answers(x: Any, out: Any) -> bool:
    """Does NumPy's function delegate to its operand?  For NumPy's own numbers it does, and returns a number
    even if there is an output."""
    return foreign(x) or out is not None and isinstance(x, numpy.generic)


def adopt(x: Any, writing: bool = False, gaps: bool = False) -> Any:
    """Convert an operand: NumPy arrays and sequences become Diffuse arrays, scalars stay.

    With `gaps`, an array that is not contiguous stays so: the memory order of a result depends on it.
    With `writing` the operand is an output, and a pending number the number that NumPy refuses there.
    """
    kind = type(x)
    if kind in ARRAYS:
        if writing:
            return x.value() if kind in core.PENDING else x
        return x if x.storage is not None else access.steady(x, gaps)
    if kind in rules.WEAK or kind in rules.STRONG or x is None:
        return x
    if kind is numpy.ndarray or (not writing and kind in (list, tuple)):
        array = x
        if kind is not numpy.ndarray:
            array = numpy.asarray(lowered(x))
            if array.ndim == 0:
                return array.dtype.type(array) if array.dtype in NATIVE else x
        elif not writing and array.size < core.SMALL and array.dtype in NATIVE:
            return access.snapshot(array, gaps=gaps)
        return shared(array) if kind is numpy.ndarray else wrap(array)
    return exposed.adopt(x) if exposed.shares(x) else x


def lowered(x: Any) -> Any:
    """Replace Diffuse's arrays in a nested sequence by NumPy arrays."""
    if isinstance(x, Array):
        return host(x) if type(x) is core.array_class else host(x)[()]
    if type(x) in (list, tuple):
        return type(x)([lowered(v) for v in x])
    return lowered(exposed.adopt(x)) if exposed.shares(x) else x
