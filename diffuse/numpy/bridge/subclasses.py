"""Classes derived from NumPy's array, which stay NumPy's: `view(diffuse.numpy.ndarray)` of their arrays.

NumPy, in C, takes only classes derived from its own for array classes, and `ndarray` is not: as an argument
it has to become `numpy.ndarray` before NumPy sees it.  The result is NumPy's array, as the hooks of derived
classes need it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from types import FunctionType, ModuleType
from typing import Any

import numpy

from diffuse.numpy.arrays import base


class Derived(numpy.ndarray[Any, Any]):
    """What stands in for `ndarray` among the bases of a program's class."""

    __slots__ = ()


def acquaint(kind: Any) -> None:
    """Let `view` of a class derived from NumPy's array take `diffuse.numpy.ndarray` for `numpy.ndarray`, and
    methods that NumPy wrote for the class our arrays as `out`."""
    view = kind.view
    if kind is numpy.ndarray or hasattr(view, "knows_ours"):
        return
    for name, method in [*vars(kind).items()]:
        if isinstance(method, FunctionType) and "out" in method.__code__.co_varnames:
            setattr(kind, name, _into_ours(method))

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return view(self, *map(_numpys, args), **{key: _numpys(v) for key, v in kwargs.items()})

    run.knows_ours = True  # type: ignore[attr-defined]
    run.__name__, run.__qualname__, run.__doc__ = "view", f"{kind.__qualname__}.view", view.__doc__
    kind.view = run


def _into_ours(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        out: Any = kwargs.get("out")
        if type(out) is not base.array_class:
            return method(self, *args, **kwargs)
        memory = base.writable(out)
        found = method(self, *args, **{**kwargs, "out": memory})
        base.wrote(out)
        return out if found is memory else found

    return run


@cache
def acquaint_all(module: ModuleType) -> None:
    """The same for all such classes of a module."""
    value: Any
    for value in [*vars(module).values()]:
        if isinstance(value, type) and issubclass(value, numpy.ndarray):
            acquaint(value)


def _numpys(kind: Any) -> Any:
    return numpy.ndarray if kind is base.array_class else kind


acquaint(Derived)
acquaint(numpy.matrix)
