"""Libraries whose C code asks for `numpy.ndarray`: these functions of theirs take Diffuse arrays, too.

`sharing.py` imports this module after the first of these libraries was imported, or with the first of them
that was there before.  What cannot be reached from Python (functions and methods of Cython modules) is not
here: it takes `diffuse.to_numpy(x)`, or `diffuse run --real MODULE`.
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
    """Change the functions of a library that `ADAPTED` names, where this version of it has them."""
    for path in ADAPTED[module.__name__]:
        if path == "@njit":
            importlib.import_module("diffuse.numpy.bridge.jitted").register()
            continue
        owner: Any = module
        *holders, name = path.split(".")
        for holder in holders:
            owner = getattr(owner, holder, None)
        found = vars(owner).get(name) if owner is not None else None
        if isinstance(found, (classmethod, staticmethod)):
            setattr(owner, name, type(found)(given_plain(found.__func__)))
        elif found is not None:
            setattr(owner, name, given_plain(found))


def given_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with NumPy's array for each argument that is one of Diffuse's, or item of a tuple."""
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if type(value) in core.ARRAYS or type(value) is tuple:
                named = {key: taken(value) for key, value in kwargs.items()}
                return function(*map(taken, args), **named)
        return function(*args, **kwargs)

    return run


def taken(value: Any) -> Any:
    """An argument for a function that knows NumPy's arrays only."""
    return tuple(map(plain, value)) if type(value) is tuple else plain(value)
