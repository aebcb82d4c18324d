"""`numpy.random`: NumPy's generators, the same numbers for the same seed, their arrays given to Diffuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.random as _real

from diffuse.numpy import fallback as _fallback
from diffuse.numpy.base import Array as _Array
from diffuse.numpy.namespace import fill as _fill
from diffuse.numpy.operands import lowered as _lowered

_KEPT = ("spawn", "get_state", "set_state")
"""Methods that give generators or states, not arrays for the program to compute with."""


def _call(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """NumPy's function on Diffuse arrays; a list that it shuffles is the program's own, whatever is in it."""
    if name == "shuffle" and not isinstance(args[0] if args else kwargs.get("x"), _Array):
        return function(*args, **kwargs)
    return _fallback.call(function, args, kwargs, f"numpy.random.{name}", "source")


def _method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _call(function.__get__(self), name, args, kwargs)

    run.__name__, run.__doc__ = name, function.__doc__
    return run


def _generator(real: type) -> type:
    """A subclass of one of NumPy's generators whose methods take and give Diffuse arrays."""
    methods = {name: _method(name, getattr(real, name)) for name in dir(real)
               if not name.startswith("_") and name not in _KEPT and callable(getattr(real, name))}
    return type(real.__name__, (real,), {"__module__": __name__, "__doc__": real.__doc__, **methods})


Generator: Any = _generator(_real.Generator)
RandomState: Any = _generator(_real.RandomState)


def default_rng(seed: Any = None) -> Any:
    """NumPy's `default_rng`; the arrays that the generator makes are Diffuse's."""
    if isinstance(seed, Generator):
        return seed
    return Generator(_real.default_rng(_lowered(seed)).bit_generator)


def shuffle(*args: Any, **kwargs: Any) -> None:
    _call(_real.shuffle, "shuffle", args, kwargs)


_fallback.dressed(shuffle, _real.shuffle, __name__)


_fill(globals(), _real)
