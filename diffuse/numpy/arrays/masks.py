"""The true elements of masks: their number, their positions, and reads through masks.

The size of a result must be known when the call returns, so the mask is waited for and counted: block by
block, by a task or, if the mask is at hand, by NumPy.  The rest is recorded: a task that reads the mask from
the first block of its share on computes the positions of the true elements, and fuses with the task that
reads there.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse import library
from diffuse.library import Bounded, Scalar, operations
from diffuse.numpy.arrays import access, base, core, indices
from diffuse.numpy.arrays.core import ARRAYS, Array, hosted, viewing
from diffuse.numpy.arrays.forms import row_major
from diffuse.numpy.ops import elementwise
from diffuse.numpy.ops.operands import adopt, lowered

BLOCK = operations.COUNTED
INDEX = numpy.dtype(numpy.int64)
BYTES = 16
"""A multiple of DIFFUSE_SMALL.  For masks with fewer elements NumPy finds the true elements, and reads there,
faster than tasks: an element of a mask is one byte, and what follows mostly has far fewer elements."""

_counts: dict[Any, Any] = Bounded(4)
"""The numbers of true elements of the masks counted last, as several arrays are read through one mask."""


def flat(x: Array) -> Any:
    """The contiguous elements of an array in C order: the array itself if it has one dimension, a view, or a
    copy if they are not contiguous."""
    if x.meta.ndim == 1 and x.meta.flags.c_contiguous:
        return x
    if not x.meta.flags.c_contiguous:
        x = elementwise.duplicate(x, order="C")
    return viewing(x, x.meta.reshape(-1))


def as_indices(x: Any) -> Any:
    """An array of integers as int64."""
    return x if x.form.dtype == INDEX else elementwise.duplicate(x, INDEX)


def positions(mask: Array) -> Any:
    """The flat positions (int64) of a mask's true elements, as a task finds them."""
    mask = flat(mask)
    if not library.current().host_sees:
        return _apart(mask)
    memory = access.at_hand(mask)
    if memory is not None and memory.size < BYTES * core.SMALL:
        return hosted(numpy.flatnonzero(memory))
    counts = _before(mask, memory)
    count, blocks = int(counts.memory[-1]), counts.meta.size - 1
    if not count:
        return hosted(numpy.empty(0, INDEX))
    out, shape = core.recorded(row_major((count,), INDEX)), (count,)
    inputs: Any = (*[(access.storage_of(x), base.view_of(x).picked(shape, (-1,))) for x in (mask, counts)],
              Scalar(2, "int64", mask.form.size), Scalar(3, "int64", blocks))
    library.record("nth", ("bool", "int64", "int64", "int64", "int64"), shape, inputs,
                   ((out.storage, out.part),))
    indices.know(out, 0, mask.form.size - 1)
    indices.know_ascending(out)
    return out


def _apart(mask: Any) -> Any:
    """The flat positions of a distributed mask's true elements."""
    from diffuse.numpy.arrays import far

    count = int(mask.sum())
    out = far.positions(mask, count) if count else hosted(numpy.empty(0, INDEX))
    if count:
        indices.know(out, 0, mask.form.size - 1)
    return out


def _before(mask: Array, memory: Any) -> Any:
    """The number of true elements before each block of a flat mask, and the total.  It is the same array for
    several reads through one mask, so that a task that contains them finds the elements once."""
    name = None if access.storage_of(mask).exported else indices.name(mask)
    found = _counts.get(name)
    if found is None:
        found = hosted(numpy.cumsum(_counted(mask, memory)))
        if name is not None:
            _counts[name] = found
    return found


def _counted(mask: Array, memory: Any) -> Any:
    """0, followed by the number of true elements of each block of a flat mask; the last block is shorter."""
    whole = mask.form.size // BLOCK
    counts, begun = numpy.zeros(whole + 2, INDEX), 0
    if memory is None:
        if whole:
            parts = viewing(mask, mask.meta[:whole * BLOCK].reshape(whole, BLOCK)).sum(1)
            counts[1:-1], begun = lowered(parts), whole
        memory = access.host(mask)
    for k in range(begun, whole + 1):
        counts[k + 1] = numpy.count_nonzero(memory[k * BLOCK:(k + 1) * BLOCK])
    return counts


def recordable(mask: Any, *others: Any) -> bool:
    """Can a task find the true elements of a mask, in a call with other arrays?  Where the host does not see
    the memory, only ranks together can."""
    running = library.current()
    if not running.host_sees:
        return indices.distant(mask, *others)
    return (running.runtime.addressed and mask.form.size > 0
            and not (mask.form.size < core.SMALL and access.ready(mask)))


def few(mask: Any, x: Array) -> bool:
    """Is NumPy faster than a task at reading the elements of an array at a mask?  It is if the mask is small
    and the array at hand, if need be after the wait for the mask, which counting needs in any case."""
    if mask.form.size >= BYTES * core.SMALL or not library.current().host_sees:
        return False
    access.host(mask)
    return access.at_hand(x) is not None


def covers(x: Array, index: Any) -> bool:
    """Is an index a mask of the array's own shape?"""
    return ((type(index) in ARRAYS or type(index) is numpy.ndarray) and index.dtype == bool
            and index.shape == x.form.shape and index.ndim > 0)


def overlaps(x: Array, other: Any) -> bool:
    """May an operand share memory with an array?  NumPy's own masks and values that do have been exported,
    and nothing is pending then."""
    if type(other) not in ARRAYS:
        memory = access.at_hand(x)
        return (type(other) is numpy.ndarray and memory is not None
                and bool(numpy.may_share_memory(memory, other)))
    return elementwise.meets(access.storage_of(x), access.storage_of(other))


def meeting(first: Any, second: Any) -> bool:
    """May two outputs share memory?"""
    return first is not None and second is not None and overlaps(first, second)


def copies(operands: tuple[Any, ...], targets: tuple[Any, ...], types: Any) -> bool:
    """Does NumPy compute in copies of outputs, of other types, because they share memory with an operand?  It
    writes these back as a whole, including the elements that a mask excludes."""
    return any(isinstance(target, Array) and target.form.dtype != dtype and overlaps(target, x)
               for target, dtype in zip(targets, types, strict=True) for x in operands)


def truth(x: Array) -> Any:
    """The mask of an array's nonzero elements."""
    if x.form.name == "bool":
        return x
    return adopt(base.UFUNCS["not_equal"](x, 0))
