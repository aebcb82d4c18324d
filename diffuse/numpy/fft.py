"""`numpy.fft` on Diffuse arrays: NumPy's functions, whose transforms along an axis run on all threads.

The code of the functions is NumPy's; only its transforms (`_pocketfft_umath`) are replaced by the same ones
on slabs of whole lines, so that results have NumPy's bits.
"""

from __future__ import annotations

from types import SimpleNamespace as _SimpleNamespace
from typing import Any

import numpy as _numpy
import numpy.fft as _real

from diffuse.numpy.bridge import threaded as _threaded
from diffuse.numpy.bridge.namespace import fill as _fill

_FEWEST = 1 << 17
"""The fewest elements of an array whose transform is worth threads."""


class _Threaded:
    """One of NumPy's transforms, with its lines divided among all threads."""

    def __init__(self, transform: Any) -> None:
        self._transform = transform

    def __call__(self, a: Any, factor: Any, axes: list[tuple[int, ...]], out: Any) -> Any:
        if not (type(a) is type(out) is _numpy.ndarray and a.ndim > 1 and out.size >= _FEWEST):
            return self._transform(a, factor, axes=axes, out=out)
        from diffuse.numpy.order import team

        dimension, share = team.rows(out.shape, axes[0][0] % a.ndim)
        if out.shape[dimension] < 2 * share:
            return self._transform(a, factor, axes=axes, out=out)
        flags: list[int] = []

        def part(lines: tuple[Any, ...]) -> None:
            with _numpy.errstate(all="call", call=lambda what, flag: flags.append(flag)):
                self._transform(a[lines], factor, axes=axes, out=out[lines])

        team.slabs(part, out.shape, axes[0][0] % a.ndim)
        if flags:  # NumPy warns or raises once more, in the thread whose error modes apply
            line, found = [_numpy.full(x.shape[axes[0][0]], _numpy.inf, x.dtype) for x in (a, out)]
            self._transform(line, factor, axes=[(0,), (), (0,)], out=found)
        return out


_module: Any = _real._pocketfft
_transforms = {name: _Threaded(value) for name, value in vars(_module.pfu).items()
               if isinstance(value, _numpy.ufunc)}


def _in_parts(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from diffuse.numpy.bridge.ranks import transforms

    return transforms.in_parts(_module, name, args, kwargs)


_scope = _threaded.over(_module, pfu=_SimpleNamespace(**_transforms))
for _name in _module.__all__:
    globals()[_name] = _threaded.offered(_scope[_name], getattr(_real, _name), "fft", _in_parts)
_fill(globals(), _real)
