"""Makes random operands with which it is tried whether parts of a product have the bits of the whole.

The order of BLAS' additions does not depend on the numbers.  Operands for which there is no room have their
true shape, but repeat a few megabytes of numbers, which alone are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any, NamedTuple

import numpy

from diffuse.library import of_handler
from diffuse.numpy.ops.periodic import PERIOD, periodic
from diffuse.settings import config

Array = numpy.ndarray[Any, Any]
MOST = 1 << 28
"""The most bytes of the arrays of a trial, which may also take at most half of a rank's memory, except for
operands that repeat their numbers."""

ROUNDS, WORK = 64, 1 << 24
"""The most operands of one shape that are tried, and the most elements that these have together, where they
are several."""


class Operand(NamedTuple):
    """The shape, the element type and the memory order of an operand."""

    shape: tuple[int, ...]
    dtype: str
    turned: bool
    """Are its columns contiguous?"""

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * numpy.dtype(self.dtype).itemsize

    def laid_out(self, line: Array) -> Array:
        """View a line of elements as an array of this form."""
        return line.reshape(self.shape[::-1]).T if self.turned else line.reshape(self.shape)


def described(x: Any) -> Operand:
    """Return the description of a Diffuse array as an operand."""
    return Operand(x.shape, x.dtype.name, bool(x.ndim == 2 and x.strides[0] < x.strides[1]))


@contextmanager
def numbers(x: Operand, y: Operand, result: int, alike: bool = False) -> Iterator[tuple[Array, Array] | None]:
    """Make two operands for a trial whose other arrays take `result` bytes; None if there is no room.  If
    they are `alike`, the first one is the transpose of the second one."""
    left = min(MOST, (config.mpi_memory or 2 * MOST) // 2) - result
    random = numpy.random.default_rng(0)
    found: dict[Operand, Array] = {}
    with ExitStack() as stack:
        for each in sorted({y} if alike else {x, y}, key=lambda each: each.nbytes):
            if each.nbytes <= left:
                left -= each.nbytes
                found[each] = each.laid_out(_random(random, prod(each.shape), each.dtype))
                continue
            itemsize = numpy.dtype(each.dtype).itemsize
            if left < 0 or x.dtype != y.dtype or PERIOD % itemsize:
                break
            some = _random(random, PERIOD // itemsize, each.dtype)
            try:
                found[each] = each.laid_out(stack.enter_context(periodic(prod(each.shape), some)))
            except OSError as error:
                if of_handler(error):
                    raise
                break
        if alike and y in found:
            found[x] = found[y].T
        yield (found[x], found[y]) if x in found and y in found else None
        found.clear()


def varied(x: Array, y: Array, alike: bool = False) -> Iterator[tuple[Array, Array]]:
    """Yield these operands, and others of the same shapes if they are small: two orders of a short sum agree
    in their bits for most numbers, and a product of a vector and a matrix has few results."""
    yield x, y
    for step in range(1, min(ROUNDS, WORK // max(x.size + y.size, 1))):
        if alike:
            y = _moved(y, step)
            x = y.T
        elif x.size < y.size:
            x = _moved(x, step)
        else:
            y = _moved(y, step)
        yield x, y


def _moved(x: Array, step: int) -> Array:
    """Copy an array with its numbers in other places."""
    found = numpy.empty_like(x)
    found[...] = numpy.roll(x, step)
    return found


def _random(random: Any, count: int, dtype: str) -> Array:
    found: Array = random.standard_normal(count)
    if numpy.dtype(dtype).kind == "c":
        found = found + 1j * found[::-1]
    elif numpy.dtype(dtype).kind != "f":
        found = found * 100.0
    return found.astype(dtype)
