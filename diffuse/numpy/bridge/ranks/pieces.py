"""NumPy's functions that need only pieces of a distributed array at a time.

Each element of a convolution is a sum over as many elements as the shorter operand has.  Each rank gets the
elements that its part of the result needs, and calls NumPy's function on them, which adds up the same
products in the same order.  `apply_along_axis` calls the program's function with one line after another,
which every rank does, because the function may have effects; it gets the lines in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from inspect import signature
from typing import Any

import numpy

from diffuse.numpy.arrays import core, far
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.forms import NATIVE, row_major
from diffuse.numpy.bridge import fallback
from diffuse.numpy.bridge.ranks import parts
from diffuse.settings import config

Array = numpy.ndarray[Any, Any]
SHORT = 1 << 13
"""The most elements of the shorter operand of a convolution: BLAS may add up more than that by several
threads, whose number is another on ranks."""
BLOCK = 1 << 18
"""Bytes of the lines that ranks get at once."""
STRIDE = 1 << 20
"""Bytes between the elements of a line from which on NumPy's functions may take another path."""


def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    if type(v) is core.array_class and (type(a) is not core.array_class or v.form.size > a.form.size):
        a, v = v, a
    return _filtered(numpy.convolve, a, v, mode)


def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    return _filtered(numpy.correlate, a, v, mode)


def _filtered(real: Callable[..., Any], a: Any, v: Any, mode: Any) -> Any:
    """Record the convolution of a distributed array with a short one, and return its result; None if NumPy
    has to compute it."""
    if type(a) is not core.array_class or a.form.ndim != 1 or mode not in ("full", "same", "valid"):
        return None
    if type(v) is core.array_class and v.form.size > SHORT:
        return None
    short = numpy.array(host(v) if type(v) is core.array_class else v)
    if (short.ndim != 1 or not 0 < len(short) <= min(SHORT, a.form.size) or short.dtype.kind not in far.KINDS
            or not far.wanted(a) or not far.located(a)):
        return None
    dtype = real(numpy.ones(1, a.form.dtype), numpy.ones(1, short.dtype)).dtype
    if dtype not in NATIVE:
        return None
    count, length = a.form.size, len(short)
    begin, total = place(mode, count, length)
    out = core.recorded(row_major((total,), dtype))

    def run(peers: Any, given: Array, target: Array) -> None:
        own = peers.ends[0][peers.rank:peers.rank + 2]
        wants = [window(begin + low, begin + high, count, length)
                 for low, high in zip(peers.ends[1], peers.ends[1][1:], strict=False)]
        found, _ = peers.swap([given[slice(*[min(max(end, own[0]), own[1]) - own[0] for end in want])]
                               for want in wants])
        if len(target):
            first = begin + peers.ends[1][peers.rank] - wants[peers.rank][0]
            target[...] = real(found, short, "full")[first:first + len(target)]

    far.together(real.__name__, run, (a,), (out,))
    return out


def place(mode: str, count: int, length: int) -> tuple[int, int]:
    """Return where a mode's result begins within the full convolution of `count` elements with `length`
    others, and its number of elements."""
    begin = {"full": 0, "same": length - 1 - length // 2, "valid": length - 1}[mode]
    return begin, {"full": count + length - 1, "same": count, "valid": count - length + 1}[mode]


def window(low: int, high: int, count: int, length: int) -> tuple[int, int]:
    """Return the range of the `count` elements that elements `low` to `high` of their full convolution with
    `length` others depend on; at least `length` of them, so that NumPy does not exchange the operands."""
    if low >= high:
        return 0, 0
    first, last = max(low - length + 1, 0), min(high, count)
    last = max(last, min(first + length, count))
    return min(first, last - length), last


def apply_along_axis(func1d: Any, axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Call NumPy's `apply_along_axis` on a distributed array, and return its result, which every rank has as
    a whole; None if NumPy has to compute it from the whole array."""
    if not parts.wanted(arr) or arr.ndim < 2 or (along := parts.axis_of(axis, arr.ndim)) is None:
        return None
    stride, item = arr.strides[along], arr.dtype.itemsize
    if not callable(func1d) or not 0 < stride < STRIDE or stride % item:
        return None
    lines = _lines(arr.transpose(*[d for d in range(arr.ndim) if d != along], along), stride == item)

    def on_line(_: Any, *more: Any, **named: Any) -> Any:
        return func1d(next(lines), *more, **named)

    if arr.form.size > config.small:
        fallback.report("numpy.apply_along_axis")
    like = numpy.broadcast_to(arr.dtype.type(), arr.shape)
    try:
        return fallback.call(numpy.apply_along_axis, (on_line, along, like, *args), kwargs, silent="foreign")
    finally:
        lines.close()


def _lines(x: Any, packed: bool) -> Generator[Array, None, None]:
    """Yield the lines of an array along its last axis, in the order of the others; what is written to a line
    is written to the array.  Lines that are not `packed` are strided, as in the array."""
    nbytes = x.form.size * x.form.itemsize // len(x)
    if x.ndim > 2 and nbytes > BLOCK:
        for part in x:
            yield from _lines(part, packed)
        return
    step, length = max(1, BLOCK // nbytes), x.form.shape[-1]
    for low in range(0, len(x), step):
        high = min(low + step, len(x))
        before = numpy.array(host(x.take(numpy.arange(low, high), 0)))  # of which no rank keeps a copy
        lines = before.reshape(-1, length).copy()
        if not packed:
            wide = numpy.empty((length, len(lines) + 1), lines.dtype)[:, :-1]
            wide[...] = lines.T
            lines = wide.T
        lines.flags.writeable = x.flags.writeable
        try:
            yield from lines
        finally:
            after = lines.reshape(before.shape)
            if after.tobytes() != before.tobytes():
                x[low:high] = after


def _offered(function: Callable[..., Any]) -> Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any] | None]:
    """Wrap a function as `fallback.in_pieces` requires it."""
    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
        try:
            bound = signature(function).bind(*args, **kwargs)
        except TypeError:  # NumPy says what is wrong
            return None
        found = function(*bound.args, **bound.kwargs) if far.here(*bound.args) else None
        return None if found is None else (found,)

    return run


for _name in fallback.in_pieces:
    fallback.in_pieces[_name] = _offered(globals()[_name.removeprefix("numpy.")])
