"""Products of many floats that vanish: once such a product is zero, the elements left decide only its sign.

NumPy multiplies one element after another, each of which waits for the one before. Of a product that
underflows on the way, or that meets a zero, it goes on so to the end."""

from __future__ import annotations

from typing import Any

import numpy

from diffuse.numpy.order import team

FIRST, MOST = 1 << 12, 1 << 16
"""The number of elements after which the product is first looked at, and of those that may be multiplied
until it is zero."""
BLOCK = 1 << 15
"""The number of elements that are looked at together: what is found stays in cache."""
MANY = 8 * MOST
"""The least number of elements of a product that is looked at on the way."""


def product(vector: Any) -> Any:
    """The product of a large contiguous vector of floats, with NumPy's bits and warnings; None unless it is
    zero after a few of them and all others are finite."""
    if vector.size < MANY or vector.dtype.char not in "fd" or not vector.flags.c_contiguous:
        return None
    count = FIRST
    with numpy.errstate(all="ignore"):
        found = numpy.multiply.reduce(vector[:count])
        while found != 0 and count < MOST:
            found, count = numpy.multiply.reduce(vector[count:2 * count], initial=found), 2 * count
    if found != 0:
        return None
    turns = _turns(vector[count:])
    if turns is None:
        return None
    found = numpy.multiply.reduce(vector[:count])  # with the warnings that there are
    return -found if turns % 2 else found


def _turns(vector: Any) -> int | None:
    """How often the elements change the sign of a product; None if one of them is infinite or NaN."""
    def one(low: int, high: int) -> int:
        count = 0
        for start in range(low, high, BLOCK):
            part = vector[start:min(high, start + BLOCK)]
            least, most = numpy.minimum.reduce(part), numpy.maximum.reduce(part)
            if not -numpy.inf < least <= most < numpy.inf:
                return -1
            if least <= 0:
                count += int(numpy.count_nonzero(numpy.signbit(part)))
        return count

    counts = team.on_parts(vector.size, one)
    return None if -1 in counts else sum(counts)
