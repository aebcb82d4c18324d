"""Matrix products of distributed arrays: each rank multiplies the rows that it holds.

Integer products have the same bits in any blocks.  Of floating-point numbers BLAS adds up products in an
order that depends on the shapes, on its threads and on the processor, so a block of rows may have other bits
than these rows have in the whole product.  Therefore a product is computed whole the first time; when one of
the same shapes recurs, blocks are tried: random numbers of these shapes are multiplied whole and in blocks,
on all ranks.  The order does not depend on the numbers, so if all bits agree here they agree for any
numbers.  Each matrix of a stack is multiplied apart from the others, so that parts of the stack have the bits
of the whole.

A product that no rank has room for cannot be computed whole, and is tried at once.  The first matrix of the
trial has its true shape, but repeats a few megabytes of numbers, which alone are in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from itertools import product as product_of
from math import prod
from typing import Any, NamedTuple

import numpy

from diffuse import library
from diffuse.numpy.arrays.access import storage_of
from diffuse.numpy.ops.periodic import PERIOD, periodic
from diffuse.settings import config

Array = numpy.ndarray[Any, Any]
Cut = tuple[int | None, ...]
UNITS = 1, 48
"""Block lengths are multiples of these: first as other tasks cut arrays, then as BLAS kernels process
rows."""
MOST = 1 << 28
"""The most bytes of the arrays of a trial, which may also take at most half of a rank's memory, except for a
matrix that repeats its numbers.  Larger products are computed whole."""


class Shapes(NamedTuple):
    """The parameters on which the order of BLAS' additions depends."""

    x: tuple[int, ...]
    y: tuple[int, ...]
    x_turned: bool
    y_turned: bool
    dtypes: tuple[str, str]
    points: int
    ranks: int
    cut: Cut
    parts: tuple[int, ...] = ()
    """The numbers of rows and columns of blocks, where a region of the program has it cut into such."""


_known: dict[Shapes, int | None] = library.Bounded()
"""The unit of blocks with the bits of the whole, 0 if there is none, None for shapes seen only once."""


def in_blocks(x: Any, y: Any, product: Callable[..., None]) -> Callable[..., None]:
    """The product of two arrays as a call on blocks, if these have the bits of the whole; else `product`."""
    runtime: Any = library.current().runtime
    cuts = _cuts(x, y)
    if not cuts:
        return product
    if library.current().window.region is not None:
        return _on_grids(x, y, product, cuts)
    stack = max(x.ndim, y.ndim) > 2
    if (runtime.ranks == 1 or not hasattr(runtime, "call_parts")
            or storage_of(x) is storage_of(y) and not stack):
        return product  # of a matrix and its transpose BLAS computes one half
    cut = cuts[0]
    if stack or x.dtype.kind in "biu" and y.dtype.kind in "biu":
        return library.Independent(product, cuts if stack else (cut,))
    shapes = Shapes(x.shape, y.shape, _turned(x), _turned(y), (x.dtype.name, y.dtype.name), runtime.points,
                    runtime.ranks, cut)
    if shapes not in _known and not _crowded(shapes, runtime.room):
        _known[shapes] = None
        return product
    unit = _known.get(shapes)
    if unit is None:
        unit = _known[shapes] = _unit(shapes, runtime.over_ranks)
    return library.Independent(product, (cut,), unit) if unit else product


def _on_grids(x: Any, y: Any, product: Callable[..., None], cuts: tuple[Cut, ...]) -> Callable[..., None]:
    """The product as a call that a region of the program may cut into a grid of blocks."""
    alike = storage_of(x) is storage_of(y)  # of a matrix and itself, turned, BLAS computes one half
    exact = max(x.ndim, y.ndim) > 2 or x.dtype.kind in "biu" and y.dtype.kind in "biu"
    cut = cuts[0]
    if x.ndim == y.ndim == 2:
        cuts = cut, (None, 1, 1)
    runtime: Any = library.current().runtime
    one = Shapes(x.shape, y.shape, _turned(x), _turned(y), (x.dtype.name, y.dtype.name), runtime.points,
                 runtime.ranks, cut)

    def unit(parts: tuple[int, ...]) -> int:
        shapes = one._replace(parts=parts)
        found = 1 if exact else 0 if alike else _known.get(shapes)
        if found is None:
            found = _known[shapes] = _unit(shapes, runtime.over_ranks)
        return found

    return library.Independent(product, cuts, blocks=unit, folded=1)


def _unit(shapes: Shapes, over_ranks: Callable[[int], int]) -> int:
    """The first unit under which blocks have the bits of the whole on all ranks; 0 if there is none."""
    for unit in UNITS:
        if over_ranks(int(not _alike(shapes, unit))) == 0:
            return unit
    return 0


def _alike(shapes: Shapes, unit: int) -> bool:
    """Do blocks of random numbers, as ranks compute them, have the bits of the whole product?"""
    length = shapes.x[0] if shapes.cut[0] == 0 else shapes.y[1]
    columns = shapes.y[1:] if shapes.cut[0] == 0 else ()
    dtype = numpy.result_type(*shapes.dtypes)
    sizes = [prod(shapes.x), prod(shapes.y), 2 * prod((length, *columns))]
    most = min(MOST, (config.mpi_memory or 2 * MOST) // 2)
    random = numpy.random.default_rng(0)
    if sum(sizes) * dtype.itemsize <= most:
        x = _numbers(random, shapes.x, shapes.dtypes[0], shapes.x_turned)
        return _equal(shapes, unit, x, _numbers(random, shapes.y, shapes.dtypes[1], shapes.y_turned))
    kind = numpy.dtype(shapes.dtypes[0])
    if sum(sizes[1:]) * dtype.itemsize > most or PERIOD % kind.itemsize or kind != dtype:
        return False
    y = _numbers(random, shapes.y, shapes.dtypes[1], shapes.y_turned)
    some = _numbers(random, (PERIOD // kind.itemsize,), shapes.dtypes[0], False)
    try:
        with periodic(sizes[0], some) as line:
            x = line.reshape(shapes.x[::-1]).T if shapes.x_turned else line.reshape(shapes.x)
            return _equal(shapes, unit, x, y)
    except OSError:
        return False


def _crowded(shapes: Shapes, room: int) -> bool:
    """Is the whole product too much for a rank that has its part of a large first matrix, too?"""
    sizes = [prod(shapes.x), prod(shapes.y), prod((*shapes.x[:-1], *shapes.y[1:]))]
    return shapes.cut[0] == 0 and sum(sizes) * numpy.dtype(shapes.dtypes[0]).itemsize > room


def _equal(shapes: Shapes, unit: int, x: Array, y: Array) -> bool:
    """Do blocks of the product have the bits of the whole?"""
    whole = numpy.matmul(x, y)
    if shapes.parts:
        return _alike_blocks(x, y, whole, shapes, unit)
    length = shapes.x[0] if shapes.cut[0] == 0 else shapes.y[1]
    tile = library.part_length(length, max(x.size, y.size, whole.size), shapes.points, unit)
    points = -(-length // tile)
    ends = [-(-rank * points // shapes.ranks) * tile for rank in range(shapes.ranks + 1)]
    for low, high in pairwise(ends):
        if low < high:
            block = (x[low:high], y) if shapes.cut[0] == 0 else (x, y[:, low:high])
            if numpy.matmul(*block).tobytes() != whole[low:high].tobytes():
                return False
    return True


def _alike_blocks(x: Array, y: Array, whole: Array, shapes: Shapes, unit: int) -> bool:
    """Do the blocks of a grid have the bits of the whole product?"""
    found = numpy.empty_like(whole)
    axes = [cut for cut in (shapes.cut[-1], 1) if cut is not None][:len(shapes.parts)]
    boxes = []
    for axis, parts in zip(axes, shapes.parts, strict=True):
        tile = -(-(-(-whole.shape[axis] // parts)) // unit) * unit
        boxes.append([slice(low, low + tile) for low in range(0, whole.shape[axis], tile)])
    for place in product_of(*boxes):
        if shapes.cut[0] == 0:
            numpy.matmul(x[place[0]], y[:, place[1]] if len(place) > 1 else y, out=found[place])
        else:
            numpy.matmul(x, y[:, place[0]], out=found[place])
    return found.tobytes() == whole.tobytes()


def _numbers(random: Any, shape: tuple[int, ...], dtype: str, turned: bool) -> Array:
    """Random numbers in a matrix or vector with the operand's layout."""
    found: Array = random.standard_normal(shape[::-1] if turned else shape)
    if numpy.dtype(dtype).kind == "c":
        found = found + 1j * found[::-1]
    elif numpy.dtype(dtype).kind != "f":
        found = found * 100.0
    found = found.astype(dtype)
    return found.T if turned else found


def _cuts(x: Any, y: Any) -> tuple[Cut, ...]:
    """For each way to cut a product the axes of both operands and of the product: the dimensions of stacks,
    of which an operand may lack some; rows of the first matrix; or, for a vector and a matrix, columns."""
    if max(x.ndim, y.ndim) <= 2:
        if x.ndim == 2:
            return ((0, None, 0),)
        return ((None, 1, 0),) if x.ndim == 1 and y.ndim == 2 else ()
    one, other = x.shape[:-2], y.shape[:-2]
    stack = numpy.broadcast_shapes(one, other)
    found = []
    for d, n in enumerate(stack):
        axes = [d - len(stack) + len(shape) for shape in (one, other)]
        cut = [axis if axis >= 0 and shape[axis] == n else None
               for axis, shape in zip(axes, (one, other), strict=True)]
        if n > 1:
            found.append((*cut, d))
    return tuple(found)


def _turned(x: Any) -> bool:
    """Are the columns of this matrix contiguous?"""
    return bool(x.ndim == 2 and x.strides[0] < x.strides[1])
