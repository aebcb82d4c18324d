"""What a program hands to an operation: from NumPy arrays, sequences and numbers to Diffuse's operands."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import access, core
from diffuse.numpy.arrays.access import host, storage_of
from diffuse.numpy.arrays.base import exported, spanned
from diffuse.numpy.arrays.core import ARRAYS, Array, hosted
from diffuse.numpy.arrays.forms import NATIVE, form_of
from diffuse.numpy.arrays.lending import borrow, held
from diffuse.numpy.bridge import sharing
from diffuse.numpy.ops import rules
from diffuse.settings import config

PLAIN = {*rules.WEAK, *rules.STRONG, numpy.ndarray, list, tuple}
"""Types, beside Diffuse's own, whose elements Diffuse takes over: none of them answers a call itself."""


def wrap(array: Any) -> Any:
    """A Diffuse array over the memory of a NumPy array that only Diffuse will touch from now on.

    Arrays of types that kernels do not compute in (object, str, datetime64, structured, other byte orders)
    and subclasses stay what they are.
    """
    if type(array) is not numpy.ndarray or array.dtype not in NATIVE or not array.flags.aligned:
        return array
    if array.size >= core.SMALL:
        library.foresee(config.runtime)
    known = form_of(array)
    return hosted(array, known) if known.packed else spanned(array)


def shared(array: Any) -> Any:
    """A Diffuse array over memory that the program may also see as a NumPy array, or as something else: while
    it does, operations run at once."""
    if type(array) is not numpy.ndarray or array.dtype not in NATIVE or not array.size:
        return wrap(array)
    span, ours = borrow(array)
    x = wrap(ours)
    if not isinstance(x, Array):  # its elements are not aligned
        return array
    if access.alone():
        storage_of(x).show_while(partial(held, span))
    else:  # several ranks may run the program: what one of them holds must not decide what all do
        storage_of(x).show(None)
    return x


_REFUSAL = "object __array__ method not producing an array"


class Answer:
    """An object whose `__array__` gives an array of Diffuse's, for NumPy, which takes only its own there."""

    __slots__ = ("_asked", "given", "memory")

    def __init__(self, asked: Any) -> None:
        self._asked = asked
        self.given = self.memory = None

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self.given = self.memory = self._asked.__array__(*args, **kwargs)
        if isinstance(self.given, Array):
            self.memory = exported(self.given)
        return self.memory


def answering(value: Any) -> Any:
    """`value` with an `Answer` for each object that NumPy would ask for its `__array__`."""
    if type(value) in (list, tuple):
        return type(value)([answering(v) for v in value])
    if type(value) is dict:
        return {key: answering(v) for key, v in value.items()}
    known = isinstance(value, (numpy.ndarray, numpy.generic, Array, type))
    return Answer(value) if not known and hasattr(value, "__array__") else value


def readable(x: Any) -> Any:
    """Return `x`, or what NumPy can read its elements from."""
    if type(x) in PLAIN or isinstance(x, (Array, numpy.ndarray)) or not hasattr(x, "__array__"):
        return lowered(x)
    if isinstance(x, numpy.generic):  # rules of their own where they are assigned
        return x
    return numpy.asarray(Answer(x))


def refused(error: ValueError) -> bool:
    """Did NumPy ask an object for its `__array__` and get one of Diffuse's arrays?"""
    return str(error) == _REFUSAL


def foreign(x: Any) -> bool:
    """Is this another library's array (a sparse or masked one, `numpy.matrix`), or anything else that NumPy's
    functions ask itself or convert by rules of their own?"""
    return type(x) not in PLAIN and not isinstance(x, Array) and not sharing.shares(x)


def answers(x: Any, out: Any) -> bool:
    """Does NumPy's function ask its operand?  It asks its own numbers, too, which give a number even where
    there is an output."""
    return foreign(x) or out is not None and isinstance(x, numpy.generic)


def adopt(x: Any, writing: bool = False) -> Any:
    """An operand as Diffuse sees it: NumPy arrays and sequences become arrays, scalars stay."""
    kind = type(x)
    if kind in ARRAYS:
        return x if writing or x.storage is not None else access.steady(x)
    if kind in rules.WEAK or kind in rules.STRONG or x is None:
        return x
    if kind is numpy.ndarray or (not writing and kind in (list, tuple)):
        array = x
        if kind is not numpy.ndarray:
            array = numpy.asarray(lowered(x))
            if array.ndim == 0:
                return array.dtype.type(array) if array.dtype in NATIVE else x
        elif not writing and array.size < core.SMALL and array.dtype in NATIVE:
            return access.snapshot(array)
        return shared(array) if kind is numpy.ndarray else wrap(array)
    return sharing.adopt(x) if sharing.shares(x) else x


def lowered(x: Any) -> Any:
    """A nested sequence with NumPy arrays in place of Diffuse's."""
    if isinstance(x, Array):
        return host(x) if type(x) is core.array_class else host(x)[()]
    if type(x) in (list, tuple):
        return type(x)([lowered(v) for v in x])
    return lowered(sharing.adopt(x)) if sharing.shares(x) else x
