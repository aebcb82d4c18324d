"""`numpy.fft` of arrays that ranks have in parts: each transform along an axis in parts of whole lines.

A transform along several axes is NumPy's own code over these: between two of its turns lines are gathered
along another axis, so that a rank holds no more than its part of the array and what it computes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from diffuse.numpy.bridge import parts, threaded
from diffuse.numpy.ops.conversion import asarray

LINES = "fft", "ifft", "rfft", "irfft", "hfft", "ihfft"
"""The functions of one axis, over which the others are written."""

_scopes: dict[str, dict[str, Any]] = {}


def in_parts(module: ModuleType, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function of `numpy.fft` (`module` has its code) gives; None where NumPy computes the whole."""
    if not args or not parts.wanted(args[0]) or args[0].ndim < 2 or "out" in kwargs or "a" in kwargs:
        return None
    scope = _scopes.get(module.__name__)
    if scope is None:
        lines = {name: _of_lines(getattr(module, name)) for name in LINES}
        scope = _scopes[module.__name__] = threaded.over(module, asarray=asarray, __name__=__name__)
        scope.update(lines)
    try:
        return scope[name](*args, **kwargs)
    except Whole:
        return None


class Whole(Exception):
    """Raised where a transform needs the whole array."""


def _of_lines(real: Callable[..., Any]) -> Callable[..., Any]:
    """One of the functions of one axis."""

    def run(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
        found = None
        if out is None:
            found = parts.along(f"fft.{real.__name__}",
                                lambda array, **into: real(array, n, axis, norm, **into), a, axis,
                                into=real.__name__ != "hfft")  # which takes `out` and makes an array anyway
        if found is None:
            raise Whole
        return found

    return run
