"""`bincount`: how often each integer occurs, or the sum of the weights of each.

Each thread counts a part of the elements.  Counts do not depend on the order of the elements, nor do sums of
integers that are exact in float64; other weights are added one after another, in one thread.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse.numpy.order import radix
from diffuse.numpy.order.calls import Array, at_hand, given, in_parts, own
from diffuse.numpy.order.histograms import EXACT
from diffuse.numpy.order.team import on_parts, threads

POSITIONS = "int8 int16 int32 int64 uint8 uint16 uint32".split()
"""Element types that NumPy accepts as positions."""
SPAN = 1 << 18
"""The number of elements that are counted by one call.  Fewer stay in a smaller cache, but threads lose more
by taking Python's lock from each other."""
TOGETHER = 1 << 20
"""The number of weights that are added by one call."""
ALONE = 1 << 20
"""The number of weights up to which NumPy is faster where they have to be added in one thread."""
APART = 4
"""The least number of elements for each count of each thread."""


class Unfit(Exception):
    """Raised if NumPy has to count."""


@own(numpy.bincount, 0, times=8, by_lines=in_parts("bincount"))
def bincount(x: Any, weights: Any, minlength: Any) -> Any:
    elements = at_hand(x)
    if (elements is None or elements.ndim != 1 or elements.dtype.name not in POSITIONS
            or not elements.dtype.isnative or type(minlength) is not int or minlength < 0):
        return None
    values = None if weights is None else at_hand(weights)
    if weights is not None and (values is None or not _real(values) or values.shape != elements.shape):
        return None
    if values is not None and values.dtype.kind == "f" and values.size <= ALONE:
        return None
    routine = "tally" if values is None else "weigh"
    found = radix.routines(elements.size, (routine, elements.dtype.name))
    if found is None:
        return None
    try:
        if values is None or _exact(values):
            pieces = on_parts(elements.size,
                              lambda low, high: _counted(elements, values, low, high, found[0]))
        else:
            pieces = [_weighed(elements, values, found[0])]
    except Unfit:
        return None
    out = numpy.zeros(max(minlength, *[piece.size for piece in pieces]), pieces[0].dtype)
    for piece in pieces:
        out[:piece.size] += piece
    return given(out)


def _real(weights: Array) -> bool:
    """Does NumPy convert these weights to float64?"""
    return weights.dtype.kind in "iuf" and weights.dtype.itemsize <= 8 and weights.dtype.isnative


def _exact(weights: Array) -> bool:
    """Are all sums of these weights integers that are exact in float64?"""
    if weights.dtype.kind not in "iu":
        return False

    def largest(low: int, high: int) -> int:
        part = weights[low:high]
        return max(abs(int(part.min())), abs(int(part.max())))

    return bool(max(on_parts(weights.size, largest)) * weights.size <= EXACT)


def _counted(elements: Array, weights: Array | None, low: int, high: int, routine: Any) -> Array:
    """The counts, or sums of weights, of a part of the elements, up to that of the largest of them.  Each
    span is checked before it is counted: its elements must be nonnegative positions, not so large that few
    share a count."""
    counts = numpy.zeros(0, numpy.intp if weights is None else numpy.float64)
    length = 0
    for start in range(low, high, SPAN):
        end = min(high, start + SPAN)
        part = numpy.ascontiguousarray(elements[start:end])
        length = max(length, _length(part, elements.size))
        if length > counts.size:
            counts = numpy.concatenate([counts, numpy.zeros(2 * length - counts.size, counts.dtype)])
        if weights is None:
            routine(part, part.size, counts)
            continue
        routine(part, part.size, counts, numpy.ascontiguousarray(weights[start:end], numpy.float64))
    return counts[:length]


def _weighed(elements: Array, weights: Array, routine: Any) -> Array:
    """Add up the weights of each integer one after another, in this thread; the largest integer is found by
    all threads before."""
    lengths = on_parts(elements.size, lambda low, high: _length(elements[low:high], elements.size))
    sums = numpy.zeros(max(lengths))
    for start in range(0, elements.size, TOGETHER):
        part = numpy.ascontiguousarray(elements[start:start + TOGETHER])
        addends = numpy.ascontiguousarray(weights[start:start + TOGETHER], numpy.float64)
        routine(part, part.size, sums, addends)
    return sums


def _length(part: Array, size: int) -> int:
    """The number of counts for some of `size` elements; negative ones are the largest as unsigned numbers."""
    last = int(part.view(f"u{part.itemsize}").max())
    if last > numpy.iinfo(part.dtype).max or last >= size // (APART * threads()):
        raise Unfit
    return last + 1
