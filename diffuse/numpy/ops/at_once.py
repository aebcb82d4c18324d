"""Reductions that the calling thread does at once, on arrays at hand."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import Any

import numpy

from diffuse import library
from diffuse.library import FOLDS, ROWS, Point, floaterrors, quiet, small_folds
from diffuse.numpy.arrays import access, core, soon
from diffuse.numpy.arrays.core import Array, hosted
from diffuse.numpy.ops import elementwise
from diffuse.numpy.small import native

FLAT = 16
"""In full reductions, rows shorter than this are reduced as part of one flat array: as measured, they cost
four times as much as rows.  Longer ones do not, and stay in the space of operations with which they may
fuse."""

AT_ONCE = 13
"""A multiple of DIFFUSE_SMALL.  The calling thread reduces arrays of fewer elements that no pending task
writes: as measured, it takes no longer than recording, launching and awaiting a task."""
FLOATS = 5
"""How many times as many elements these may be if they are real floats: as measured, the compiled sums, and
NumPy's extremes, of a million of them in one thread take half as long as a task.  Products are NumPy's."""
SHARED = 32
"""How many times as many elements a vector of real floats may have if its sum, or its product with another,
is computed by the threads without a task (numpy/small/team.c): as measured, a task on some millions takes 0.1
ms longer.  On more elements that is little beside what fused reductions save, which read an array once."""
GLANCE = 4096
"""`any` and `all` search this many elements first, and then all of them: most searches that end early end
there.  NumPy searches all bools, a vector at a time."""


def immediate(x: Array, fast: bool = True) -> Any:
    """The memory of an array that the calling thread should reduce at once; None if a task has to be
    recorded.  The result of more real floats takes no longer if it is `fast`."""
    size, most = x.meta.size, AT_ONCE * core.SMALL
    if size >= most and (size >= FLOATS * most or x.meta.dtype.char not in "fd" or not fast):
        return None
    if not library.current().host_sees:
        return None
    if not core.SEES:
        core.see(True)
    soon.looked()
    return access.at_hand(x)


def total(operator: str, memory: Any) -> Any:
    """Reduce all elements of a NumPy array; None if NumPy may have to warn."""
    char = memory.dtype.char
    if elementwise.eager_errors or char in "FDe":
        return None
    if memory.ndim > 1:  # in the order of memory, as `_arranged`
        order = memory_order(memory.strides)
        memory = memory if order is None else memory.transpose(order)
        if memory.shape[-1] < FLAT and memory.flags.c_contiguous:
            memory = memory.reshape(-1)
    if operator == "sum":
        if char in "fd" and memory.ndim:
            found = small_folds.fold(operator, ALL[memory.ndim], memory)
            if found is None:
                found = small_folds.reduce(operator, memory, ALL[memory.ndim], memory.dtype.name)
            found = found[()]
            return found if isfinite(found) else None
        if char == "?":
            return numpy.intp(numpy.count_nonzero(memory))
    return NUMPYS[operator](memory, None)


def along(operator: str, memory: Any, axis: int) -> Any:
    """Reduce one axis of a C-contiguous NumPy array; None if NumPy may have to warn."""
    rank, char = memory.ndim, memory.dtype.char
    if not -rank <= axis < rank or char in "FDe" or not memory.flags.c_contiguous:
        return None
    if rank == 1:
        return total(operator, memory)
    if elementwise.eager_errors:
        return None
    if operator == "sum" and char in "fd":
        axes = (axis % rank,)
        few = short(operator, axes, memory, memory.dtype.name)
        found = short_rows(memory) if few else small_folds.fold(operator, axes, memory)
        if found is None or not numpy.isfinite(found).all():
            return None
    else:
        found = NUMPYS[operator](memory, axis)
    return hosted(found)


def dot(x: Any, y: Any) -> Any:
    """The product of two float vectors at hand; None for other arrays, or if NumPy may have to warn."""
    one = immediate(x)
    other = one if x is y else immediate(y)
    if one is None or other is None or one.dtype is not other.dtype or one.shape != other.shape:
        return None
    if elementwise.eager_errors:
        return None
    found = (small_folds.fold("squares", (0,), one) if one is other else
             small_folds.fold("dot", (0,), one, other))
    return found[()] if found is not None and isfinite(found) else None


def weighted(x: Any, y: Any) -> Any:
    """The sum of the products of two large float vectors at hand, with the bits that the sum of their product
    has; None for other operands, or if NumPy may have to warn."""
    if (type(x) is not core.array_class or type(y) is not core.array_class or x.form is not y.form
            or x.form.ndim != 1 or x.form.dtype.char not in "fd" or x.form.size < core.SMALL
            or floaterrors.geterr()["under"] != "ignore"):
        return None
    found = None if native is None else native.dot(x, y)
    return dot(x, y) if found is None else found


ALL = [tuple(range(rank)) for rank in range(65)]
"""All axes of an array, by its number of dimensions."""

NUMPYS: dict[str, Any] = {operator: getattr(numpy, name).reduce for operator, name in FOLDS.items()}
"""NumPy's reduction for each operator."""


def glance(operator: str, x: Array) -> Any:
    """Compute `any` or `all` if the first elements in memory decide it and nothing is pending; else None."""
    if not core.SMALL or not library.current().host_sees or elementwise.eager_errors:
        return None
    if not core.SEES:  # otherwise the extension does this by itself
        core.see(True)
    memory = access.at_hand(x)
    if memory is None:
        return None
    memory = memory.transpose(memory_order(memory.strides) or range(memory.ndim))
    most = memory.size if x.form.name == "bool" else GLANCE
    while memory.size > most:
        rows = max(1, most * memory.shape[0] // memory.size)
        memory = memory[:rows] if rows < memory.shape[0] and memory.shape[0] > 1 else memory[0]
    found = getattr(memory, operator)()
    return found if found == (operator == "any") or memory.size == x.form.size else None


@lru_cache(maxsize=1 << 11)
def memory_order(strides: Point) -> Point | None:
    """The dimensions in the order of memory; None if they are."""
    order = sorted(range(len(strides)), key=lambda d: (strides[d] != 0, -abs(strides[d])))
    return None if order == sorted(order) else tuple(order)


def few_rows(operator: str, memory: Any, axes: tuple[int, ...], computing: str) -> Any:
    """Reduce columns of at most one leaf of the tree, for which NumPy's order in a matrix is that of the
    tree."""
    if (axes == (0,) and memory.ndim == 2 and memory.shape[0] <= ROWS and memory.shape[1] > 1
            and computing == memory.dtype.name and computing[0] == "f" and memory.flags.c_contiguous):
        with quiet():
            return NUMPYS[operator](memory, axis=0, initial=0.0 if operator == "sum" else 1.0)
    return None


COLUMNS = 8
"""The most elements of rows of which `short_rows` adds up the columns: a kernel, or NumPy, takes some 8 ns
for each row, and NumPy a tenth of that for each element of a column."""


def short(operator: str, axes: tuple[int, ...], memory: Any, computing: str) -> bool:
    """Does a sum of a large array go along rows of few floats, which are fast to add up column by column?"""
    last = memory.ndim - 1
    return (operator == "sum" and axes == (last,) and last > 0 and 1 < memory.shape[last] <= COLUMNS
            and memory.size >= core.SMALL and computing[0] == "f" and memory.dtype.name == computing)


def short_rows(memory: Any) -> Any:
    """Sum rows of at most `COLUMNS` floats by adding whole columns, in the order in which the reduction tree
    of kernels adds the elements of a leaf: the second half to the first half, until one column is left, and
    that to 0.0."""
    count = memory.shape[-1]
    columns = [memory[..., k] for k in range(count)]
    half = COLUMNS // 2
    with quiet():
        while half:
            for k in range(count - half):
                columns[k] = columns[k] + columns[k + half]
            count, half = min(count, half), half // 2
        return numpy.add(columns[0], 0.0, out=columns[0])


if native is not None:
    native.connect_folds(globals(), small_folds.laid_out)
