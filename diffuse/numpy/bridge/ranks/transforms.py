"""`numpy.fft` of distributed arrays: each transform along an axis runs on parts of whole lines.

A transform along several axes is NumPy's own code over these: between two of its steps lines are gathered
along another axis, so that a rank holds only its part of the array and of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from diffuse.numpy.bridge import threaded
from diffuse.numpy.bridge.ranks import parts
from diffuse.numpy.ops.conversion import asarray

LINES = "fft", "ifft", "rfft", "irfft", "hfft", "ihfft"
"""The functions along one axis, in terms of which the others are written."""

_scopes: dict[str, dict[str, Any]] = {}


def in_parts(module: ModuleType, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a function of `numpy.fft` (`module` has its code); None if NumPy has to compute the
    whole."""
    if not args or not parts.wanted(args[0]) or args[0].ndim < 2 or "out" in kwargs or "a" in kwargs:
        return None
    scope = _scopes.get(module.__name__)
    if scope is None:
        lines = {name: _of_lines(getattr(module, name)) for name in LINES}
        scope = _scopes[module.__name__] = threaded.over(module, asarray=asarray, __name__=__name__)
        scope.update(lines)
    try:
        return scope[name](*args, **kwargs)
    except NeedsWhole:
        return None


class NeedsWhole(Exception):
    """Raised where a transform needs the whole array."""


def _of_lines(real: Callable[..., Any]) -> Callable[..., Any]:
    """One of the functions along one axis."""

    def run(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
        found = None
        if out is None:
            found = parts.along(f"fft.{real.__name__}",
                                lambda array, **into: real(array, n, axis, norm, **into), a, axis,
                                into=real.__name__ != "hfft")  # which accepts `out` but makes an array anyway
        if found is None:
            raise NeedsWhole
        return found

    return run
