"""Adapts functions of libraries whose C code requires `numpy.ndarray`, so that they also accept Diffuse
arrays.

`sharing.py` imports this module after the first of these libraries was imported, or for those imported before
Diffuse.  Functions that cannot be replaced from Python (functions and methods of Cython modules) are not
adapted: they need `diffuse.to_numpy(x)`, or `diffuse run --real MODULE`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from diffuse.numpy.arrays import core
from diffuse.numpy.bridge.plain import plain
from diffuse.numpy.bridge.sharing import ADAPTED


def adapt(module: ModuleType) -> None:
    """Replace the functions of a library that `ADAPTED` names, if this version of it has them."""
    paths = ADAPTED[module.__name__]
    for path in functions(module) if paths == ("*",) else paths:
        if path == "@njit":
            importlib.import_module("diffuse.numpy.bridge.jitted").register()
            continue
        mark, _, called = path.rpartition(" ")
        adapted = {"->": giving_plain, "=>": giving_receivers}.get(mark, given_plain)
        owner: Any = module
        *holders, name = called.split(".")
        for holder in holders:
            owner = getattr(owner, holder, None)
        found = vars(owner).get(name) if owner is not None else None
        if isinstance(found, (classmethod, staticmethod)):
            setattr(owner, name, type(found)(adapted(found.__func__)))
        elif found is not None:
            new = adapted(found)
            if owner is module:
                new.__module__ = module.__name__  # where pickle finds it; SciPy names a private module
            setattr(owner, name, new)


def functions(module: ModuleType) -> list[str]:
    """The names of a module's public functions."""
    return [name for name in vars(module)["__all__"] if inspect.isroutine(vars(module).get(name))]


def given_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to receive NumPy's array for each argument, or item of a tuple, that is a Diffuse
    array.  An argument that it returns is the program's."""
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if type(value) in core.ARRAYS or type(value) is tuple:
                named = {key: taken(value) for key, value in kwargs.items()}
                given = *map(taken, args), *named.values()
                found = function(*given[:len(args)], **named)
                back = {id(new): old for new, old in zip(given, (*args, *kwargs.values()), strict=True)}
                return back.get(id(found), found)
        return function(*args, **kwargs)

    return run


class Receiver:
    """Stands for an object of a class in C, whose methods receive NumPy's arrays for Diffuse's."""

    __slots__ = ("_real",)

    def __init__(self, real: Any) -> None:
        self._real = real

    @property
    def __class__(self) -> Any:
        return type(self._real)

    @__class__.setter
    def __class__(self, kind: Any) -> None:
        self._real.__class__ = kind  # raises

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        return given_plain(value) if callable(value) else value

    def __dir__(self) -> list[str]:
        return dir(self._real)

    def __repr__(self) -> str:
        return repr(self._real)


def giving_receivers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to receive NumPy's arrays, and to return an object whose methods do so."""
    function = given_plain(function)

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        return found if type(found) is Receiver else Receiver(found)

    return run


def giving_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to return NumPy's array instead of a Diffuse array."""
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return taken(function(*args, **kwargs))

    return run


def taken(value: Any) -> Any:
    """Convert an argument for a function that supports NumPy's arrays only."""
    return tuple(map(plain, value)) if type(value) is tuple else plain(value)
