"""`numpy.random`: NumPy's generators, the same numbers for the same seed, their arrays given to Diffuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.random as _real

from diffuse.numpy import fallback as _fallback
from diffuse.numpy.namespace import fill as _fill

_KEPT = ("spawn", "get_state", "set_state")
"""Methods that give generators or states, not arrays for the program to compute with."""


def _method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = function.__get__(self)
        return _fallback.call(bound, args, kwargs, f"numpy.random.{name}", "source")

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
    return Generator(_real.default_rng(seed).bit_generator)


_fill(globals(), _real)
