"""NumPy's protocols: redirects calls of the real NumPy on Diffuse arrays to Diffuse.

A library that imported the real NumPy and receives Diffuse arrays stays fast where Diffuse implements the
function, and gets NumPy's result as a Diffuse array elsewhere.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy

from diffuse.numpy.arrays import core
from diffuse.numpy.bridge import fallback, namespace, outputs, overrides

_PLAIN = (numpy.ndarray, numpy.generic)
_found: dict[Callable[..., Any], tuple[Callable[..., Any] | None, str, str | None]] = {}


def array_function(func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...],
                   kwargs: dict[str, Any]) -> Any:
    """The body of `ndarray.__array_function__`."""
    if not isinstance(args, tuple):
        raise TypeError("args must be a tuple.")
    if not isinstance(kwargs, dict):
        raise TypeError("kwargs must be a dict.")
    for kind in types:
        if not issubclass(kind, (core.Array, *_PLAIN)):
            return NotImplemented
    ours, name, silent = _found.get(func) or _lookup(func)
    if ours is not None:
        return ours(*args, **kwargs)
    # NumPy's function itself, which dispatches to no class again
    return fallback.call(getattr(func, "_implementation", func), args, kwargs, name, silent)


def _lookup(func: Callable[..., Any]) -> tuple[Callable[..., Any] | None, str, str | None]:
    module, name = func.__module__ or "numpy", func.__name__
    if module == "numpy" and getattr(numpy, name, None) is func:
        ours = namespace.native(name)
    else:
        ours = _own(module, name)
    path = f"{module}.{name}"
    found = ours, path, namespace.SILENT.get(path) or namespace.SILENT_MODULES.get(module)
    _found[func] = found
    return found


def _own(module: str, name: str) -> Callable[..., Any] | None:
    """The function of this name that one of our submodules defines itself."""
    if module not in ("numpy.linalg", "numpy.fft"):
        return None
    value = getattr(importlib.import_module("diffuse." + module), name, None)
    return value if callable(value) and not hasattr(value, "fallback") else None


def array_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The body of `ndarray.__array_ufunc__`."""
    out = kwargs.get("out", ())
    out = out if isinstance(out, tuple) else (out,)
    for value in (*inputs, *out):
        if getattr(type(value), "__array_ufunc__", True) is None:
            return NotImplemented
    if overrides.answer((*inputs, *out, kwargs.get("where"))):
        return NotImplemented
    ufuncs = _ufuncs()
    if isinstance(ufunc, ufuncs.ufunc):
        ufunc = ufunc.numpy
    elif not isinstance(ufunc, numpy.ufunc) and not hasattr(ufunc, "nin"):  # Numba's have NumPy's interface
        raise TypeError(f"__array_ufunc__ expects a ufunc, found {ufunc!r}")
    ours: Any = ufuncs.UFUNCS.get(ufunc.__name__) if _is_numpys(ufunc) else None
    written = any(not isinstance(value, core.Array) and value is not None for value in out)
    if ours is None or written:
        name = ("numpy." if _is_numpys(ufunc) else "") + ufunc.__name__
        return fallback.call(getattr(ufunc, method), inputs, kwargs, name)
    if method == "__call__":
        return ours(*inputs, **kwargs)
    found = getattr(ours, method)(*inputs, **kwargs)
    if method == "reduce" and out and found is out[0]:
        return outputs.between(found, sys._getframe(2).f_code)  # this is the method's second frame
    return found


@cache
def _ufuncs() -> Any:
    """The module of ufuncs, which imports this one."""
    from diffuse.numpy.ops import ufuncs

    return ufuncs


def _is_numpys(ufunc: numpy.ufunc) -> bool:
    return getattr(numpy, ufunc.__name__, None) is ufunc
