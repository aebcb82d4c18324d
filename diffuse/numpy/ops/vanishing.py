"""Products of many floats that vanish or overflow after a few factors, as those of large arrays mostly do.

NumPy multiplies one element after another.  Once a product is zero, finite factors change nothing but its
sign, and once it is infinite factors other than zero and NaN do not.  Threads look at these factors in less
time than it takes to multiply them one by one.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse.numpy.order import team

FIRST = 1 << 14
"""The number of factors after which the product has to be zero or infinite."""
FEWEST = 1 << 18
"""The fewest factors that are worth looking at."""
SPAN = 1 << 17
"""The number of factors whose signs are counted at once: their mask stays in cache."""


def settles(first: Any) -> bool:
    """Is the product of the first factors zero or infinite?"""
    with numpy.errstate(all="ignore"):
        product = numpy.multiply.reduce(first)
        return bool(product == 0 or numpy.isinf(product))


def negative(line: Any, low: Any, high: Any) -> int | None:
    """How many factors, all of them between two numbers, change the sign of a product that was settled by the
    first of them; None if one of them may make it NaN."""
    if not (low <= high and numpy.isfinite(low) and numpy.isfinite(high)):
        return None
    if low > 0:
        return 0
    if high < 0:
        return int(line.size)
    counts = team.on_parts(line.size, lambda start, end: _signs(line[start:end]))
    return None if None in counts else sum(counts)


def _signs(line: Any) -> int | None:
    """How many numbers have a sign; None if one of them is zero."""
    count, mask = 0, numpy.empty(SPAN, numpy.bool)
    for start in range(0, line.size, SPAN):
        part = line[start:start + SPAN]
        if not part.all():
            return None
        count += int(numpy.count_nonzero(numpy.signbit(part, out=mask[:part.size])))
    return count
