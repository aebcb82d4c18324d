"""Back-ends of `scipy.fft` that a program sets: they may know its functions by Diffuse's objects for them.

SciPy asks a back-end with its own function objects; a program that looks them up in a table
(`{scipy.fft.fft: mine}`) has Diffuse's in it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from typing import Any

SETTERS = frozenset(f"scipy.fft.{name}" for name in
                    "set_backend set_global_backend skip_backend register_backend".split())
"""The functions whose first argument is a back-end."""

_known: dict[int, tuple[Any, Any]] = {}
"""Every back-end that the program has set, by its `id`, and the `Backend` that SciPy gets in its place, which
is the same object at each call."""


class Backend:
    """Stands for a back-end, and asks it a second time, with Diffuse's function, where it does not know
    SciPy's."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.__ua_domain__ = real.__ua_domain__
        if hasattr(real, "__ua_convert__"):
            self.__ua_convert__ = real.__ua_convert__

    def __ua_function__(self, method: Any, args: Any, kwargs: Any) -> Any:
        found = self._real.__ua_function__(method, args, kwargs)
        if found is NotImplemented:
            stands = vars(importlib.import_module("diffuse.scipy.fft")).get(method.__name__)
            if getattr(stands, "__wrapped__", None) is method:
                return self._real.__ua_function__(stands, args, kwargs)
        return found


def told(setter: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that takes a back-end."""
    @wraps(setter)
    def run(backend: Any, *args: Any, **kwargs: Any) -> Any:
        if hasattr(backend, "__ua_function__") and hasattr(backend, "__ua_domain__"):
            if id(backend) not in _known:
                _known[id(backend)] = backend, Backend(backend)
            backend = _known[id(backend)][1]
        return setter(backend, *args, **kwargs)

    return run
