"""Sorts of one-dimensional arrays by NumPy's vectorized sort in pieces that threads have divided by value.

The threads copy the elements below the median of a sample to one end of the result, and all others to the
other end; each end is then sorted by half of the threads in the same way, and nothing has to be merged.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy

from diffuse.numpy.order import memory, radix, selection
from diffuse.numpy.order.team import Job, together

Array = numpy.ndarray[Any, Any]

SAMPLE = 1 << 14
"""The size of the sample whose median divides an array: its rank is off by less than one percent."""
ROUTINES = "divide", "between", "encode"
"""The compiled routines that divide an array of the element type."""
UNEVEN = 0.6
"""The largest share of the elements that one side may have; if many are equal to the median, it has more."""


def ordered(array: Array, count: int) -> Array | None:
    """A copy of an array sorted by `count` threads, a power of two above 1.  The order of elements with equal
    keys is arbitrary.  None if too many of them are equal, or a routine has not arrived."""
    found = radix.routines(array.size, *[(name, array.dtype.name) for name in ROUTINES])
    if found is None:
        return None
    out = memory.empty(array.size, array.dtype)
    spare = memory.empty(array.size if count > 2 else 0, array.dtype)
    return out if _sorted(numpy.ascontiguousarray(array), out, spare, count, found) else None


def _sorted(source: Array, out: Array, spare: Array, count: int, routines: Any) -> bool:
    """Sort the elements of an array into an array; returns whether that was possible.  With one thread they
    are there already."""
    if count == 1:
        out.sort()
        return True
    target = out if count.bit_length() % 2 == 0 else spare
    middle = _divided(source, target, count, routines)
    sides = slice(middle), slice(middle, None)
    return middle > 0 and all(together([
        partial(_sorted, target[side], out[side], spare[side], count // 2, routines) for side in sides]))


def _divided(source: Array, target: Array, count: int, routines: Any) -> int:
    """Copy elements to both ends of a target, and return the number of the lower ones; 0, without a copy, if
    one end would have too many."""
    divide, between, encode = routines
    sample = selection.sample(source, SAMPLE)
    key = int(radix.encoded(sample[sample.size // 2:][:1], encode)[0])
    ends = [source.size * k // count for k in range(count + 1)]
    pieces = [source[low:high] for low, high in zip(ends, ends[1:], strict=False)]
    nowhere = numpy.empty(1, source.dtype)

    def below(piece: Array) -> int:
        return int(between(piece, piece.size, key, max(key - 1, 0), nowhere, 0, 0, 0)[6])

    counts = together([partial(below, piece) for piece in pieces])
    middle: int = sum(counts)
    low = 0
    if not (1 - UNEVEN) * source.size <= middle <= UNEVEN * source.size:
        return 0
    jobs: list[Job] = []
    for piece, start, lower in zip(pieces, ends, counts, strict=False):
        jobs.append(partial(divide, piece, piece.size, key, target[low:], target[middle + start - low:]))
        low += lower
    together(jobs)
    return middle
