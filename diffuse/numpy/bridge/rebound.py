"""Runs NumPy's functions written in Python over Diffuse's arrays, with the code of the installed NumPy.

`nanmean`, `cov`, `unwrap` and others are array programs themselves.  A function of `namespace.REBOUND` gets a
second function object with the same code, whose global names refer to Diffuse's functions instead of NumPy's:
its operations on large arrays are recorded, and fuse with the program's.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache, wraps
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy

from diffuse.library import floaterrors, provenance
from diffuse.numpy.arrays import core
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.arrays.forms import NATIVE
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops.conversion import asanyarray, elsewhere
from diffuse.numpy.ops.operands import foreign
from diffuse.numpy.ops.traits import SPREADING

MODULE = "diffuse.numpy.bridge.rebound"
"""The `__module__` of these functions; the line of a call is that of the program."""

_made: dict[Any, Any] = {}
"""The functions over Diffuse's arrays, by NumPy's functions."""


class Converter:
    """Replaces NumPy's `_array_converter`: converts some array-likes to arrays, and results back."""

    def __init__(self, *values: Any) -> None:
        self._arrays = tuple([asanyarray(value) for value in values])

    def __getitem__(self, index: int) -> Any:
        return self._arrays[index]

    def __len__(self) -> int:
        return len(self._arrays)

    def as_arrays(self, subok: bool = True, pyscalars: str | None = None) -> tuple[Any, ...]:
        """The arrays; `subok` and `pyscalars` concern values that never come here."""
        return self._arrays

    def wrap(self, result: Any, to_scalar: bool | None = None) -> Any:
        """Convert a result of the function for its caller."""
        single = getattr(result, "ndim", 1) == 0 and to_scalar is not False
        return result[()] if single else result


class Warnings:
    """Replaces the module `warnings`: warnings are attributed to the program's line."""

    def warn(self, message: Warning | str, category: type[Warning] = UserWarning, stacklevel: int = 1
             ) -> None:
        floaterrors.warn(message, category, provenance.caller("numpy"))

    def __getattr__(self, name: str) -> Any:
        return getattr(warnings, name)


STAND_INS = {"_array_converter": Converter, "warnings": Warnings()}
"""Global names of NumPy's modules that are replaced by objects of this file."""


def rebound(real: Callable[..., Any], path: str, reason: str | None) -> Callable[..., Any]:
    """Make NumPy's function `real` for Diffuse's arrays: recorded if one of them, or the result, is large,
    else run by NumPy."""
    ours: list[Callable[..., Any]] = []
    spreads = real.__name__ in SPREADING

    def run(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("like") is not None:
            elsewhere(None, kwargs["like"])  # raises for a number
        if not _large(args, kwargs, spreads):
            return fallback.call(real, args, kwargs, path, reason)
        if not ours:
            ours.append(over(getattr(real, "_implementation", real)))
        return ours[0](*args, **kwargs)

    return fallback.dressed(run, real, "diffuse.numpy")


def _large(args: tuple[Any, ...], kwargs: dict[str, Any], spreads: bool) -> bool:
    """Is one of the arguments a large array, or are all arrays `spreads` over a large result, and is none
    another library's or of a type left to NumPy?"""
    large, size = False, 1
    for value in (*args, *kwargs.values()):
        for item in value if type(value) in (list, tuple) else (value,):
            if isinstance(item, Array):
                size = item.form.size * (size if spreads else 1)
                large = large or size >= max(core.SMALL, 1)
            elif foreign(item) and hasattr(type(item), "__array_function__"):
                return False
            elif type(item) is numpy.ndarray and item.dtype not in NATIVE:
                return False
    return large


def over(function: Any) -> Any:
    """Copy `function` as one over Diffuse's arrays."""
    found = _made.get(function)
    if found is None:
        known = function.__globals__
        scope = {"__name__": MODULE, "__builtins__": known["__builtins__"]}
        found = _made[function] = FunctionType(function.__code__, scope, function.__name__,
                                               function.__defaults__, function.__closure__)
        found.__kwdefaults__ = function.__kwdefaults__
        for name in names(function.__code__):
            if name in known:
                scope[name] = standing(name, known[name])
    return found


@cache
def acquaint_masked(kind: Any) -> None:
    """Wrap the `__getitem__` of a class of masked arrays.  On an array of objects it asks an element whether
    it is an array, which Diffuse's arrays are to the same code over Diffuse's functions."""
    method = kind.__getitem__

    @wraps(method)
    def run(self: Any, index: Any) -> Any:
        return (over(method) if self.dtype.char == "O" else method)(self, index)

    kind.__getitem__ = run


def names(code: CodeType) -> Iterator[str]:
    """The global names and attributes used by code, including the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names(constant)


def standing(name: str, value: Any) -> Any:
    """The replacement for a global name of one of NumPy's modules."""
    if name in STAND_INS:
        return STAND_INS[name]
    if isinstance(value, ModuleType):
        return _module(value)
    known = getattr(value, "__name__", None)
    if callable(value) and known is not None and vars(numpy).get(known) is value:
        return getattr(sys.modules["diffuse.numpy"], known)
    if isinstance(value, FunctionType) and value.__module__.startswith("numpy."):
        return over(value)
    return value


class Inner:
    """A NumPy module for these functions, with Diffuse's objects in place of NumPy's."""

    def __init__(self, real: ModuleType) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return standing(name, getattr(self._real, name))


def _module(value: ModuleType) -> Any:
    """The replacement for a module."""
    if value is numpy:
        return sys.modules["diffuse.numpy"]
    return Inner(value) if value.__name__.startswith("numpy.") else value
