"""Adapts functions of libraries whose C code requires `numpy.ndarray`, so that they also accept Diffuse
arrays.

`sharing.py` imports this module after the first of these libraries was imported, or for those imported before
Diffuse.  Functions that cannot be replaced from Python (functions and methods of Cython modules) are not
adapted: they need `diffuse.to_numpy(x)`, or `diffuse run --real MODULE`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from diffuse.numpy.arrays import core
from diffuse.numpy.bridge.plain import plain
from diffuse.numpy.bridge.sharing import ADAPTED


def adapt(module: ModuleType) -> None:
    """Replace the functions of a library that `ADAPTED` names, if this version of it has them."""
    for path in ADAPTED[module.__name__]:
        if path == "@njit":
            importlib.import_module("diffuse.numpy.bridge.jitted").register()
            continue
        adapted = giving_plain if path.startswith("-> ") else given_plain
        owner: Any = module
        *holders, name = path.removeprefix("-> ").split(".")
        for holder in holders:
            owner = getattr(owner, holder, None)
        found = vars(owner).get(name) if owner is not None else None
        if isinstance(found, (classmethod, staticmethod)):
            setattr(owner, name, type(found)(adapted(found.__func__)))
        elif found is not None:
            setattr(owner, name, adapted(found))


def given_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to receive NumPy's array for each argument, or item of a tuple, that is a Diffuse
    array."""
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if type(value) in core.ARRAYS or type(value) is tuple:
                named = {key: taken(value) for key, value in kwargs.items()}
                return function(*map(taken, args), **named)
        return function(*args, **kwargs)

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
