"""Wraps methods of array classes that NumPy calls from C, or that call NumPy's C code.

Classes that implement NumPy's protocols: NumPy passes its own functions to `__array_function__`, and its own
ufuncs to `__array_ufunc__` and `__array_wrap__`.  A class written with `import diffuse.numpy as np` compares
them with Diffuse's (`func is np.concatenate`), so its methods receive these; a library's class, whose module
imports NumPy, receives NumPy's.

Classes derived from NumPy's array stay NumPy's.  NumPy accepts only such classes as array classes, and
`diffuse.numpy.ndarray` is not one: as an argument of their `view` it is replaced by `numpy.ndarray`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from functools import cache, update_wrapper, wraps
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, TypeVar
from weakref import WeakSet

import numpy

from diffuse.numpy.arrays import base, core
from diffuse.numpy.ops.operands import PLAIN

K = TypeVar("K")

_decided: WeakSet[Callable[..., Any]] = WeakSet()
"""Methods that were examined, and wrappers."""
_handed: WeakSet[Callable[..., Any]] = WeakSet()
"""Wrappers that pass Diffuse's functions to a method, and methods of classes of Diffuse's own."""
_own: WeakSet[Any] = WeakSet()
"""Classes of Diffuse's own that answer NumPy's protocols."""
by_numpy: Any = None
"""`fallback.call`, set by that module, which imports this one."""


def meet(kind: type) -> None:
    """Wrap the methods of a class that receive functions, if it was written with Diffuse's.

    Must be called before NumPy sees an object of the class.
    """
    if getattr(kind, "__module__", None) in ("builtins", "numpy"):
        return
    for part in kind.__mro__[:-1]:
        for name, translated in _TRANSLATED.items():
            method = vars(part).get(name)
            if isinstance(method, FunctionType) and method not in _decided:
                _decided.add(method)
                if knows_ours(method):
                    changed = wraps(method)(translated(method))
                    _decided.add(changed)
                    _handed.add(changed)
                    setattr(part, name, changed)


def own(kind: type[K]) -> type[K]:
    """Declare a class of Diffuse's own, which answers NumPy's protocols with Diffuse's arrays: they
    are passed as they are, while other libraries' objects get NumPy's arrays over the same memory."""
    _own.add(kind)
    _handed.add(vars(kind)["__array_ufunc__"])
    return kind


def delegated(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of `__array_function__` of the first argument whose class was declared by `own`;
    arguments in lists and tuples count.  NotImplemented if there is no such argument."""
    if not _own:
        return NotImplemented
    left: list[Any] = [*kwargs.values(), *args[::-1]]
    while left:
        value = left.pop()
        kind = type(value)
        if kind in (list, tuple):
            left += value[::-1]
        elif kind in _own:
            return kind.__array_function__(value, function, (kind,), args, kwargs)
    return NotImplemented


def answer(values: Iterable[Any]) -> bool:
    """Does one of these objects, whose class was written with Diffuse's arrays, handle ufuncs itself?

    Classes derived from NumPy's array do not count: their methods call those of that array, which need
    NumPy's arrays.
    """
    found = False
    for value in values:
        kind = type(value)
        if kind not in core.ARRAYS and kind not in PLAIN and value is not None:
            meet(kind)
            found = found or (getattr(kind, "__array_ufunc__", None) in _handed
                              and not isinstance(value, numpy.ndarray))
    return found


def knows_ours(method: Any) -> bool:
    """Does the module of a method import Diffuse's NumPy, and not NumPy itself?"""
    values = [*getattr(method, "__globals__", {}).values()]
    if any(value is numpy for value in values):
        return False
    return any(_home(value).startswith("diffuse.numpy") for value in values)


def _home(value: Any) -> str:
    found = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return found if isinstance(found, str) else ""


def _function(method: Callable[..., Any]) -> Callable[..., Any]:
    def __array_function__(self: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, public(func), *args, **kwargs)

    return __array_function__


def _ufunc(method: Callable[..., Any]) -> Callable[..., Any]:
    def __array_ufunc__(self: Any, ufunc: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, _ours(ufunc), *args, **kwargs)

    return __array_ufunc__


def _wrap(method: Callable[..., Any]) -> Callable[..., Any]:
    def __array_wrap__(self: Any, array: Any, context: Any = None, *args: Any, **kwargs: Any) -> Any:
        if context is None and not args and not kwargs:
            return method(self, array)
        if isinstance(context, tuple) and context:
            context = (_ours(context[0]), *context[1:])
        return method(self, array, context, *args, **kwargs)

    return __array_wrap__


_TRANSLATED = {"__array_function__": _function, "__array_ufunc__": _ufunc, "__array_wrap__": _wrap}


def _ours(ufunc: Any) -> Any:
    """Replace NumPy's ufunc by Diffuse's."""
    name = ufunc.__name__ if isinstance(ufunc, numpy.ufunc) else ""
    return base.UFUNCS.get(name, ufunc) if getattr(numpy, name, None) is ufunc else ufunc


@cache
def public(function: Any) -> Any:
    """The program's object for a function of NumPy, or the function itself."""
    module, name = getattr(function, "__module__", None) or "numpy", getattr(function, "__name__", "")
    if module.partition(".")[0] != "numpy" or getattr(sys.modules.get(module), name, None) is not function:
        return function
    found = getattr(importlib.import_module(f"diffuse.{module}"), name)
    if found is not function and not hasattr(found, "_implementation"):
        found._implementation = _implementation(function)
    return found


def _implementation(function: Any) -> Callable[..., Any]:
    """The function that `numpy.ndarray.__array_function__` calls: NumPy's, without dispatch to classes."""
    inner = getattr(function, "_implementation", function)

    def run(*args: Any, **kwargs: Any) -> Any:
        return by_numpy(inner, args, kwargs, silent="foreign")

    return run


class Derived(numpy.ndarray[Any, Any]):
    """Replaces `diffuse.numpy.ndarray` among the bases of a program's class."""

    __slots__ = ()


def acquaint(kind: Any) -> None:
    """Wrap methods of a class derived from NumPy's array: `view` treats `diffuse.numpy.ndarray` as
    `numpy.ndarray`, and methods written in Python accept Diffuse arrays as `out`."""
    view = kind.view
    if kind is numpy.ndarray or view in _decided:
        return
    for name, method in [*vars(kind).items()]:
        if isinstance(method, FunctionType) and "out" in method.__code__.co_varnames:
            setattr(kind, name, _into_ours(method))

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return view(self, *map(_numpys, args), **{key: _numpys(v) for key, v in kwargs.items()})

    _decided.add(run)
    run.__name__, run.__qualname__, run.__doc__ = "view", f"{kind.__qualname__}.view", view.__doc__
    kind.view = run


def _into_ours(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        out: Any = kwargs.get("out")
        if type(out) is not core.array_class:
            return method(self, *args, **kwargs)
        memory = base.writable(out)
        found = method(self, *args, **{**kwargs, "out": memory})
        base.wrote(out)
        return out if found is memory else found

    return run


@cache
def acquaint_all(module: ModuleType) -> None:
    """Wrap all such classes of a module."""
    value: Any
    for value in [*vars(module).values()]:
        if isinstance(value, type) and issubclass(value, numpy.ndarray):
            acquaint(value)


def _numpys(kind: Any) -> Any:
    return numpy.ndarray if kind is core.array_class else kind


class _Either(type):
    """The metaclass of the class that stands for `numpy.ndarray` in the constructor of `numpy.matrix`, of
    which arrays of Diffuse's are instances, too."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, numpy.ndarray) or type(value) is core.array_class


def _matrices() -> None:
    """Let the constructor of `numpy.matrix` take Diffuse's arrays for NumPy's.  It makes views of arrays of
    any strides, while it takes memory from others, which has to be contiguous.  It stays NumPy's own code, as
    its warning names the caller's line."""
    new = numpy.matrix.__new__
    stands = SimpleNamespace(array=numpy.array, dtype=numpy.dtype,
                             ndarray=_Either("ndarray", (), {"__new__": numpy.ndarray.__new__}))
    found = FunctionType(new.__code__, {**new.__globals__, "N": stands}, new.__name__, new.__defaults__)
    setattr(numpy.matrix, "__new__", update_wrapper(found, new))


acquaint(Derived)
acquaint(numpy.matrix)
_matrices()
