"""The true elements of masks: how many there are, where they are, and reads through masks.

How many elements a result has is known when the call returns, so the mask is waited for and counted: block
by block, by a task or, where the mask is at hand, by NumPy.  What follows is recorded: a task that reads the
mask from the first block of its share on gives the positions of the true elements, and fuses with what reads
there.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse import library
from diffuse.library import Scalar, operations
from diffuse.numpy.arrays import access, base, core, indices
from diffuse.numpy.arrays.core import ARRAYS, Array, hosted, viewing
from diffuse.numpy.arrays.forms import row_major
from diffuse.numpy.ops import elementwise
from diffuse.numpy.ops.operands import adopt, lowered

BLOCK = operations.COUNTED
INDEX = numpy.dtype(numpy.int64)


def flat(x: Array) -> Any:
    """The elements of an array in C order, side by side: a view, or a copy where they lie otherwise."""
    if not x.meta.flags.c_contiguous:
        x = elementwise.duplicate(x, order="C")
    return viewing(x, x.meta.reshape(-1))


def as_indices(x: Any) -> Any:
    """An array of integers as int64."""
    return x if x.form.dtype == INDEX else elementwise.duplicate(x, INDEX)


def positions(mask: Array) -> Any:
    """The flat positions (int64) of a mask's true elements, as a task finds them."""
    mask = flat(mask)
    memory = access.at_hand(mask)
    if memory is not None and indices.sooner(memory.size):
        return hosted(numpy.flatnonzero(memory))
    before = _before(mask, memory)
    count, blocks = int(before[-1]), len(before) - 1
    if not count:
        return hosted(numpy.empty(0, INDEX))
    out, counts, shape = core.recorded(row_major((count,), INDEX)), hosted(before), (count,)
    inputs: Any = (*[(access.storage_of(x), base.view_of(x).picked(shape, (-1,))) for x in (mask, counts)],
              Scalar(2, "int64", mask.form.size), Scalar(3, "int64", blocks))
    library.record("nth", ("bool", "int64", "int64", "int64", "int64"), shape, inputs,
                   ((out.storage, out.part),))
    indices.know(out, 0, mask.form.size - 1)
    return out


def _before(mask: Array, memory: Any) -> Any:
    """The number of true elements before each block of a flat mask, and that of all."""
    size = mask.form.size
    whole = size // BLOCK
    counts = numpy.zeros(whole + 2, INDEX)
    if memory is None and whole:
        parts = viewing(mask, mask.meta[:whole * BLOCK].reshape(whole, BLOCK)).sum(1)
        rest = viewing(mask, mask.meta[whole * BLOCK:]).sum() if size % BLOCK else 0
        counts[1:-1], counts[-1] = lowered(parts), int(rest)
    else:
        memory = access.host(mask) if memory is None else memory
        counts[1:] = [numpy.count_nonzero(memory[k * BLOCK:(k + 1) * BLOCK]) for k in range(whole + 1)]
    return numpy.cumsum(counts)


def recordable(mask: Any) -> bool:
    """May the true elements of a mask be found by a task?  Not where the host does not see the memory."""
    running = library.current()
    return (running.runtime.addressed and running.host_sees and mask.form.size > 0
            and not (mask.form.size < core.SMALL and access.ready(mask)))


def covers(x: Array, index: Any) -> bool:
    """Is an index a mask of the array's own shape?"""
    return ((type(index) in ARRAYS or type(index) is numpy.ndarray) and index.dtype == bool
            and index.shape == x.form.shape and index.ndim > 0)


def overlaps(x: Array, other: Any) -> bool:
    """May an operand lie in the memory of an array?  NumPy's own masks and values that do are seen from
    outside, and nothing is pending then."""
    if type(other) not in ARRAYS:
        memory = access.at_hand(x)
        return (type(other) is numpy.ndarray and memory is not None
                and bool(numpy.may_share_memory(memory, other)))
    return elementwise.meets(access.storage_of(x), access.storage_of(other))


def truth(x: Array) -> Any:
    """The mask of an array's elements that are not zero."""
    if x.form.name == "bool":
        return x
    return adopt(base.UFUNCS["not_equal"](x, 0))
