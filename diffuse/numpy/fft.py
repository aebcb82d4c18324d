"""`numpy.fft` on Diffuse arrays: NumPy's functions, whose transforms along an axis run on all threads.

The code of the functions is NumPy's; only its transforms (`_pocketfft_umath`) are replaced by the same ones
on slabs of whole lines, so that results have NumPy's bits.
"""

from __future__ import annotations

from types import FunctionType as _FunctionType
from types import SimpleNamespace as _SimpleNamespace
from typing import Any

import numpy as _numpy
import numpy.fft as _real

from diffuse.numpy.bridge import fallback as _fallback
from diffuse.numpy.bridge.namespace import fill as _fill

_FEWEST = 1 << 15
"""Elements of an array whose transform is worth threads."""


class _Threaded:
    """One of NumPy's transforms, which shares out the lines that it transforms among all threads."""

    def __init__(self, transform: Any) -> None:
        self._transform = transform

    def __call__(self, a: Any, factor: Any, axes: list[tuple[int, ...]], out: Any) -> Any:
        if not (type(a) is type(out) is _numpy.ndarray and a.ndim > 1 and out.size >= _FEWEST):
            return self._transform(a, factor, axes=axes, out=out)
        from diffuse.numpy.order import team

        flags: list[int] = []

        def part(lines: tuple[Any, ...]) -> None:
            with _numpy.errstate(all="call", call=lambda what, flag: flags.append(flag)):
                self._transform(a[lines], factor, axes=axes, out=out[lines])

        team.slabs(part, out.shape, axes[0][0] % a.ndim)
        if flags:  # NumPy warns or raises once more, in the thread whose error modes count
            line, found = [_numpy.full(x.shape[axes[0][0]], _numpy.inf, x.dtype) for x in (a, out)]
            self._transform(line, factor, axes=[(0,), (), (0,)], out=found)
        return out


def _over_threads() -> dict[str, Any]:
    """The functions of NumPy's module with the transforms on all threads."""
    module: Any = _real._pocketfft
    scope = dict(vars(module))
    scope["pfu"] = _SimpleNamespace(**{name: _Threaded(value) for name, value in vars(module.pfu).items()
                                       if isinstance(value, _numpy.ufunc)})
    for name, value in vars(module).items():
        plain = getattr(value, "_implementation", value)
        if isinstance(plain, _FunctionType) and plain.__globals__ is vars(module):
            ours = _FunctionType(plain.__code__, scope, name, plain.__defaults__, plain.__closure__)
            ours.__module__, vars(ours)["stands_for"] = value.__module__, value
            scope[name] = ours
    return scope


def _transform(name: str) -> Any:
    threaded = _scope[name]

    def run(*args: Any, **kwargs: Any) -> Any:
        return _fallback.call(threaded, args, kwargs, f"numpy.fft.{name}", "library")

    return _fallback.dressed(run, getattr(_real, name), "diffuse.numpy.fft")


_scope = _over_threads()
for _name in _real._pocketfft.__all__:
    globals()[_name] = _transform(_name)
_fill(globals(), _real)
