"""`convolve` and `correlate` with a short operand: each thread computes a part of the result.

Each element of the result is a sum over as many elements as the shorter operand has.  NumPy's function on the
elements that a part of the result needs adds up the same products in the same order
(`bridge/ranks/pieces.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy

from diffuse.numpy.bridge import fallback
from diffuse.numpy.bridge.ranks import pieces
from diffuse.numpy.order import memory
from diffuse.numpy.order.calls import at_hand, given, own, table
from diffuse.numpy.order.team import on_parts

BLOCK = 1 << 15
"""The number of elements of the result that are computed at once: they stay in a processor's cache until they
are copied to it."""
FEWEST = 1 << 23
"""The number of products from which on they are worth sharing: NumPy takes some milliseconds for them."""
FACTORS = "biufc"


def _elsewhere(real: Callable[..., Any]) -> Callable[..., Any]:
    """The function for arrays that the host does not see."""
    usual = signature(real).parameters["mode"].default

    def call(a: Any, v: Any, mode: Any) -> Any:
        args = (a, v) if mode is usual else (a, v, mode)  # as another library's array is asked
        return fallback.silently(real, *args)

    return call


@own(numpy.convolve, 0, 1, by_lines=_elsewhere(numpy.convolve))
def convolve(a: Any, v: Any, mode: Any) -> Any:
    return _filtered(numpy.convolve, v, a, mode) if _longer(v, a) else _filtered(numpy.convolve, a, v, mode)


@own(numpy.correlate, 0, 1, by_lines=_elsewhere(numpy.correlate))
def correlate(a: Any, v: Any, mode: Any) -> Any:
    return _filtered(numpy.correlate, a, v, mode)


def _longer(v: Any, a: Any) -> bool:
    return bool(numpy.ndim(v) == 1 == numpy.ndim(a) and len(v) > len(a))


def _filtered(real: Callable[..., Any], a: Any, v: Any, mode: Any) -> Any:
    """The result for a long operand and a short one; None if NumPy has to compute it."""
    line, short = at_hand(a), table(v)
    if line is None or short is None or mode not in ("full", "same", "valid"):
        return None
    if line.ndim != 1 or short.ndim != 1 or not 0 < short.size <= min(pieces.SHORT, line.size // 2):
        return None
    if line.dtype.kind not in FACTORS or short.dtype.kind not in FACTORS or line.size * short.size < FEWEST:
        return None
    begin, count = pieces.place(mode, line.size, short.size)
    out = memory.empty(count, real(line[:1], short[:1]).dtype)

    def one(low: int, high: int) -> None:
        for start in range(low, high, BLOCK):
            end = min(high, start + BLOCK)
            first, last = pieces.window(begin + start, begin + end, line.size, short.size)
            found = real(line[first:last], short, "full")
            out[start:end] = found[begin + start - first:begin + end - first]

    on_parts(count, one)
    return given(out)
