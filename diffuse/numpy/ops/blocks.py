"""Matrix products of arrays that ranks have in parts: each rank multiplies rows that it has.

Integers have the same bits in any blocks.  Of floating-point numbers BLAS adds up products in an order that
depends on the shapes, on its threads and on the processor, so a block of rows may have other bits than these
rows have in the whole product.  Therefore a product is computed whole the first time; when one of the same
shapes comes again, blocks are tried: random numbers of these shapes are multiplied whole and in blocks, on
all ranks.  The order does not depend on the numbers, so where all bits agree they do for any numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy

from diffuse import library
from diffuse.numpy.arrays.access import storage_of
from diffuse.settings import config

Array = numpy.ndarray[Any, Any]
Cut = tuple[int | None, ...]
UNITS = 1, 48
"""Blocks begin at multiples of these: first where other tasks cut arrays, then of what BLAS' kernels take."""
MOST = 1 << 28
"""Bytes of the arrays of a trial, at most, and half of what a rank may have at most.  Larger products are
computed whole."""


class Shapes(NamedTuple):
    """What the order of BLAS' additions depends on."""

    x: tuple[int, ...]
    y: tuple[int, ...]
    x_turned: bool
    y_turned: bool
    dtypes: tuple[str, str]
    points: int
    ranks: int
    cut: Cut


_known: dict[Shapes, int | None] = library.Bounded()
"""The unit of blocks with the bits of the whole, 0 if there is none, None for shapes that were seen once."""


def in_blocks(x: Any, y: Any, product: Callable[..., None]) -> Callable[..., None]:
    """The product of two arrays as a call on blocks, if these have the bits of the whole; else `product`."""
    runtime: Any = library.current().runtime
    if runtime.ranks == 1 or not hasattr(runtime, "call_parts") or storage_of(x) is storage_of(y):
        return product  # of a matrix and itself, turned, BLAS computes one half
    cut = _cut(x, y)
    if cut is None:
        return product
    if x.ndim > 2 or x.dtype.kind in "biu" and y.dtype.kind in "biu":
        return library.Independent(product, (cut,))
    shapes = Shapes(x.shape, y.shape, _turned(x), _turned(y), (x.dtype.name, y.dtype.name), runtime.points,
                    runtime.ranks, cut)
    if shapes not in _known:
        _known[shapes] = None
        return product
    unit = _known[shapes]
    if unit is None:
        unit = _known[shapes] = _unit(shapes, runtime.over_ranks)
    return library.Independent(product, (cut,), unit) if unit else product


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
    if sum(sizes) * dtype.itemsize > min(MOST, (config.mpi_memory or 2 * MOST) // 2):
        return False
    random = numpy.random.default_rng(0)
    x = _numbers(random, shapes.x, shapes.dtypes[0], shapes.x_turned)
    y = _numbers(random, shapes.y, shapes.dtypes[1], shapes.y_turned)
    whole = numpy.matmul(x, y)
    elements = max(sizes[0], sizes[1], whole.size)
    tile = library.part_length(length, elements, shapes.points, unit)
    points = -(-length // tile)
    ends = [-(-rank * points // shapes.ranks) * tile for rank in range(shapes.ranks + 1)]
    for low, high in pairwise(ends):
        if low < high:
            block = (x[low:high], y) if shapes.cut[0] == 0 else (x, y[:, low:high])
            if numpy.matmul(*block).tobytes() != whole[low:high].tobytes():
                return False
    return True


def _numbers(random: Any, shape: tuple[int, ...], dtype: str, turned: bool) -> Array:
    """Random numbers in a matrix or vector that lies as the operand does."""
    found: Array = random.standard_normal(shape[::-1] if turned else shape)
    if numpy.dtype(dtype).kind == "c":
        found = found + 1j * found[::-1]
    elif numpy.dtype(dtype).kind != "f":
        found = found * 100.0
    found = found.astype(dtype)
    return found.T if turned else found


def _cut(x: Any, y: Any) -> Cut | None:
    """The axes of both and of the product along which it is independent: matrices of stacks, rows of the
    first matrix, or columns of the second one of a vector and a matrix."""
    if x.ndim > 2 and y.ndim == x.ndim and x.shape[:-2] == y.shape[:-2]:
        return 0, 0, 0
    if x.ndim == 2 and y.ndim <= 2:
        return 0, None, 0
    return (None, 1, 0) if x.ndim == 1 and y.ndim == 2 else None


def _turned(x: Any) -> bool:
    """Is this a matrix whose columns lie one after another?"""
    return bool(x.ndim == 2 and x.strides[0] < x.strides[1])
