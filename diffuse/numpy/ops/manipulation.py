"""Functions that return views: the same elements under another shape, order or index.

NumPy's own function runs on the array's description (`meta`), so views and errors are exactly NumPy's, and
nothing waits.  Calls with another library's array are delegated to it, as NumPy does: `np.transpose(sparse)`
is sparse.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from types import NoneType
from typing import Any

import numpy
from numpy.lib import stride_tricks

from diffuse.numpy.arrays import access, core
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops.conversion import asanyarray
from diffuse.numpy.ops.operands import foreign, lowered

NUMBERS = (bool, int, float, complex, numpy.generic)


ASKING = ("unstack", "rollaxis", "split", "hsplit", "vsplit", "dsplit")
"""Functions that ask their argument for its dimensions, and take no sequences, or not in every case."""


def is_array(x: Any) -> bool:
    """Is this an array of Diffuse's, or a scalar that a task will write?"""
    return isinstance(x, Array)


def viewed(x: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Apply a view function of NumPy to an array's description; the result is a view of the same store."""
    if foreign(x):
        return fallback.asked(function, x, *args, **kwargs)
    args, kwargs = tuple([lowered(a) for a in args]), {k: lowered(v) for k, v in kwargs.items()}
    if isinstance(x, NUMBERS):  # numbers stay what they are, and so do pending ones
        return function(lowered(x), *args, **kwargs)
    if isinstance(x, (list, tuple)) and function.__name__ in ASKING:
        return fallback.call(function, (x, *args), kwargs, silent="foreign")
    x = asanyarray(x)
    if not is_array(x):
        return function(x, *args, **kwargs)
    found = function(x.meta, *args, **kwargs)
    if isinstance(found, numpy.ndarray):
        return x if found is x.meta else core.viewing(x, found)
    if isinstance(found, numpy.generic) or any([isinstance(part, numpy.generic) for part in found]):
        return function(access.host(x), *args, **kwargs)  # the function read elements of the description
    return type(found)([core.viewing(x, part) for part in found])


def asking(function: Callable[..., Any], arrays: Callable[..., Any] | None = None
           ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Leave calls with an array of another library that handles NumPy's functions itself to NumPy.

    `arrays` finds the arrays among the arguments, or returns None if NumPy should raise; without it they are
    the positional arguments.
    """
    def mark(ours: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(ours)
        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                found = args if arrays is None else arrays(*args, **kwargs)
            except TypeError:  # no such arguments, or one that is no sequence
                return fallback.call(function, args, kwargs, silent="inspection")
            if found is None or any([asks(x) for x in found]):
                return fallback.asked(function, *args, **kwargs)
            return ours(*args, **kwargs)

        return run

    return mark


def asks(x: Any) -> bool:
    """Does `x` handle calls of NumPy's functions, being neither Diffuse's nor plainly NumPy's?"""
    kind = type(x)
    return kind not in core.ARRAYS and kind is not numpy.ndarray and hasattr(kind, "__array_function__")


def answers_with(x: Any, method: str) -> bool:
    """Does NumPy's function call this method of `x`, an object of another library (`pandas.Series`)?"""
    return not isinstance(x, (core.Array, numpy.ndarray, numpy.generic)) and hasattr(type(x), method)


PLAIN = frozenset((int, tuple, NoneType))
"""Types of arguments that NumPy accepts unconverted."""


def _view_function(function: Callable[..., Any]) -> Callable[..., Any]:
    plain = getattr(function, "_implementation", function)  # which dispatches to no class
    parameter = next(iter(signature(function).parameters.values()))
    first = "" if parameter.kind is parameter.POSITIONAL_ONLY else parameter.name

    def run(*args: Any, **kwargs: Any) -> Any:
        x, *options = args if args else (None,)
        if type(x) is core.array_class and not kwargs and PLAIN.issuperset(map(type, options)):
            found = plain(x.meta, *options)
            if type(found) is list:
                return [core.viewing(x, part) for part in found]
            if type(found) is numpy.ndarray:
                return x if found is x.meta else core.viewing(x, found)
        if not args:  # the array was given by name, which differs from function to function
            if first in kwargs:
                return viewed(kwargs.pop(first), function, **kwargs)
            return fallback.call(function, (), kwargs, silent="inspection")  # raises
        return viewed(args[0], function, *args[1:], **kwargs)

    run.__name__ = run.__qualname__ = function.__name__
    return run


transpose = _view_function(numpy.transpose)
matrix_transpose = _view_function(numpy.matrix_transpose)
swapaxes = _view_function(numpy.swapaxes)
moveaxis = _view_function(numpy.moveaxis)
rollaxis = _view_function(numpy.rollaxis)
squeeze = _view_function(numpy.squeeze)
expand_dims = _view_function(numpy.expand_dims)
flip = _view_function(numpy.flip)
fliplr = _view_function(numpy.fliplr)
flipud = _view_function(numpy.flipud)
rot90 = _view_function(numpy.rot90)
diagonal = _view_function(numpy.diagonal)
split = _view_function(numpy.split)
array_split = _view_function(numpy.array_split)
hsplit = _view_function(numpy.hsplit)
vsplit = _view_function(numpy.vsplit)
dsplit = _view_function(numpy.dsplit)
unstack = _view_function(numpy.unstack)
sliding_window_view = _view_function(stride_tricks.sliding_window_view)
as_strided = _view_function(stride_tricks.as_strided)


def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    subok = bool(subok)
    if type(array) is core.array_class and type(shape) is tuple:
        return core.viewing(array, numpy.broadcast_to(array.meta, shape))
    if subok and foreign(array):
        return fallback.asked(numpy.broadcast_to, array, shape, subok=True)
    return viewed(array, numpy.broadcast_to, shape)


def broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    subok = bool(subok)
    if any(foreign(x) for x in args):
        return fallback.asked(numpy.broadcast_arrays, *args, subok=subok)
    arrays = [asanyarray(x) for x in args]
    shape = numpy.broadcast_shapes(*[x.shape for x in arrays])
    return tuple([x if x.shape == shape else broadcast_to(x, shape) for x in arrays])


def _at_least(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*arys: Any) -> Any:
        found = tuple([viewed(x, function) for x in arys])
        return found[0] if len(found) == 1 else found

    run.__name__ = run.__qualname__ = function.__name__
    return run


atleast_1d = _at_least(numpy.atleast_1d)
atleast_2d = _at_least(numpy.atleast_2d)
atleast_3d = _at_least(numpy.atleast_3d)


def reshape(a: Any, /, shape: Any, order: Any = "C", *, copy: bool | None = None) -> Any:
    if type(a) is core.array_class and type(order) is str and order == "C" and copy is None:
        return a.reshape(shape)
    empty = type(shape) in (tuple, list) and not shape
    if foreign(a) or isinstance(a, numpy.generic) and (empty or type(a) not in core.ARRAYS):
        return fallback.asked(numpy.reshape, a, shape, order=order, copy=copy)
    return asanyarray(a).reshape(shape, order=order, copy=copy)


def ravel(a: Any, order: Any = "C") -> Any:
    if type(a) is core.array_class and type(order) is str and order == "C":
        return a.ravel()
    if foreign(a):
        return fallback.asked(numpy.ravel, a, order)
    return asanyarray(a).ravel(order=order)


def real(val: Any) -> Any:
    return _component(val, numpy.real)


def imag(val: Any) -> Any:
    return _component(val, numpy.imag)


def _component(val: Any, function: Callable[..., Any]) -> Any:
    if type(val) is core.array_class:
        return getattr(val, function.__name__)
    if foreign(val) or numpy.isscalar(val):
        return fallback.asked(function, lowered(val))
    return getattr(asanyarray(val), function.__name__)


def shape(a: Any) -> Any:
    return a.shape if type(a) in core.ARRAYS else fallback.asked(numpy.shape, a)


def ndim(a: Any) -> Any:
    return a.ndim if type(a) in core.ARRAYS else fallback.asked(numpy.ndim, a)


def size(a: Any, axis: Any = None) -> Any:
    return numpy.size(a.meta, axis) if isinstance(a, Array) else fallback.asked(numpy.size, a, axis)


@asking(numpy.may_share_memory)
def may_share_memory(a: Any, b: Any, /, max_work: Any = 0) -> bool:
    return _shared(a, b, numpy.may_share_memory, max_work)


@asking(numpy.shares_memory)
def shares_memory(a: Any, b: Any, /, max_work: Any = -1) -> bool:
    return _shared(a, b, numpy.shares_memory, max_work)


def _shared(a: Any, b: Any, function: Callable[..., Any], max_work: Any) -> bool:
    if isinstance(a, Array) and isinstance(b, Array) and type(max_work) is int and -1 <= max_work < 1 << 63:
        one, other = access.storage_of(a), access.storage_of(b)
        if one is other and (a.meta is a.memory) is (b.meta is b.memory):
            return bool(function(a.meta, b.meta, max_work=max_work))
        # two stores may both show the memory of one object, if each shows memory that is not its own
        if one is not other and not (one.shown() and other.shown()):
            return False
    return bool(fallback.call(function, (a, b), {"max_work": max_work}, function.__name__, "test"))
