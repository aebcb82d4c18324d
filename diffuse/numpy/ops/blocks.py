"""Matrix products of distributed arrays: each rank multiplies the rows that it holds.

Integer products have the same bits in any blocks.  Of floating-point numbers BLAS adds up products in an
order that depends on the shapes, on its threads and on the processor, so a block of rows may have other bits
than these rows have in the whole product.  Therefore a product is computed whole the first time; when one of
the same shapes recurs, blocks are tried: random numbers of these shapes are multiplied whole and in blocks,
on all ranks.  The order does not depend on the numbers, so if all bits agree here they agree for any
numbers.  Each matrix of a stack is multiplied apart from the others, so that parts of the stack have the bits
of the whole.

A product that no rank has room for cannot be computed whole, and is tried at once.  Products of operands that
ranks have in parts along the dimension that is summed are added up where they lie (inner.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import pairwise
from itertools import product as product_of
from math import prod
from typing import Any, NamedTuple

import numpy

from diffuse import library
from diffuse.numpy.arrays.access import storage_of
from diffuse.numpy.arrays.base import view_of
from diffuse.numpy.arrays.forms import Form
from diffuse.numpy.ops import inner, trials

Array = numpy.ndarray[Any, Any]
Cut = tuple[int | None, ...]
UNITS = 1, 48
"""Block lengths are multiples of these: first as other tasks cut arrays, then as BLAS kernels process
rows."""


class ProductShapes(NamedTuple):
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


_known: dict[ProductShapes, int | None] = library.Recurring()
"""The unit of blocks with the bits of the whole, 0 if there is none, None for shapes seen only once."""


def in_blocks(x: Any, y: Any, product: Callable[..., None]) -> Callable[..., None]:
    """The product of two arrays as a call on blocks, if these have the bits of the whole; else `product`."""
    runtime = library.current().runtime
    cuts = _cuts(x, y)
    if not cuts:
        return product
    if library.current().window.region is not None:
        return _on_grids(x, y, product, cuts)
    if not runtime.in_parts(max(x.nbytes, y.nbytes)):
        return product
    if max(x.ndim, y.ndim) > 2:
        return library.Independent(product, cuts)
    same = _same(x, y)
    if x.ndim == y.ndim and _adds_up(x, y, runtime):
        found = inner.summed(x, y, same, runtime)
        if found is not None:
            return found
    return product if same else _in_rows(x, y, product, cuts[0], runtime) or product


def _same(x: Any, y: Any) -> bool:
    """Is `x` the transpose of `y`, in the same memory?  BLAS then computes only one half of the product."""
    return bool(storage_of(x) is storage_of(y) and view_of(x).offset == view_of(y).offset
                and x.shape == y.shape[::-1] and x.strides == y.strides[::-1])


def _in_rows(x: Any, y: Any, product: Callable[..., None], cut: Cut, runtime: Any
             ) -> library.Independent | None:
    """Return the product of two operands of at most two dimensions as a call on blocks of rows (of a vector
    and a matrix: of columns); None if it has to be computed whole."""
    if x.dtype.kind in "biu" and y.dtype.kind in "biu":
        return library.Independent(product, (cut,))
    shapes = ProductShapes(x.shape, y.shape, _turned(x), _turned(y), (x.dtype.name, y.dtype.name),
                           runtime.points, runtime.ranks, cut)
    crowded = _crowded((x.shape, y.shape), x.dtype, runtime.room)
    if shapes not in _known and not crowded:
        _known[shapes] = None
        return None
    unit = _known.get(shapes)
    along = inner.lie_along(x, y)
    if unit is None and not (along and crowded):
        unit = _known[shapes] = _unit(shapes, runtime.over_ranks)
    if unit:
        return library.Independent(product, (cut,), unit)
    return inner.summed(x, y, False, runtime) if along else None


def _on_grids(x: Any, y: Any, product: Callable[..., None], cuts: tuple[Cut, ...]) -> Callable[..., None]:
    """Return the product as a call that a region of the program may cut into a grid of blocks."""
    runtime = library.current().runtime
    return _grids(x.form, y.form, storage_of(x) is storage_of(y), _same(x, y), product, cuts, runtime.points,
                  runtime.ranks if runtime.in_parts(max(x.nbytes, y.nbytes)) else 1)


@lru_cache(1 << 10)
def _grids(x: Form, y: Form, shared: bool, same: bool, product: Callable[..., None], cuts: tuple[Cut, ...],
           points: int, ranks: int) -> library.Independent:
    """Make such a call for operands of these forms; it is cached, as recording has no time to make another
    one.  `shared`: the operands share memory, so that blocks of them may be a matrix and its transpose;
    `same`: the operands themselves are."""
    exact = max(x.ndim, y.ndim) > 2 or x.dtype.kind in "biu" and y.dtype.kind in "biu"
    one = ProductShapes(x.shape, y.shape, _turned(x), _turned(y), (x.name, y.name), points, ranks, cuts[0])
    if x.ndim == y.ndim == 2:
        cuts = cuts[0], (None, 1, 1)

    def unit(parts: tuple[int, ...]) -> int:
        shapes = one._replace(parts=parts)
        found = 1 if exact else 0 if shared else _known.get(shapes)
        if found is None:
            runtime: Any = library.current().runtime
            found = _known[shapes] = _unit(shapes, runtime.over_ranks)
        return found

    def sums() -> library.Sums | None:
        runtime: Any = library.current().runtime
        usual = x.ndim == y.ndim and _adds_up(x, y, runtime)
        return inner.sums(trials.described(x), trials.described(y), same, usual, runtime)

    sums_up = ranks > 1 and max(x.ndim, y.ndim) <= 2 and inner.lie_along(x, y)
    plain = max(x.ndim, y.ndim) <= 2 and _plain(x) and _plain(y)
    folds = partial(_added_up, x, y, shared, same) if plain else None
    return library.Independent(product, cuts, blocks=unit, folded=1, sums=sums if sums_up else None,
                               folds=folds)


def _plain(x: Form) -> bool:
    """Can BLAS read this operand where it lies, without a copy?"""
    return bool(min(x.strides) == x.itemsize)


def _added_up(x: Form, y: Form, shared: bool, same: bool, parts: tuple[int, ...]) -> library.Sums | None:
    """Return the product as a call on blocks over which the program also cuts the summed loop, so that ranks
    add up their parts."""
    if x.name != y.name or shared and prod(parts[:-1]) > 1:
        return None
    return inner.on_blocks(trials.described(x), trials.described(y), same, parts, library.current().runtime)


def _adds_up(x: Any, y: Any, runtime: Any) -> bool:
    """Do ranks multiply the parts that they have of both matrices and add up the products, rather than move
    rows?"""
    return inner.lie_along(x, y) and (
        inner.fewer(x, y, runtime.ranks) or _crowded((x.shape, y.shape), x.dtype, runtime.room))


def _unit(shapes: ProductShapes, over_ranks: Callable[[int], int]) -> int:
    """The first unit under which blocks have the bits of the whole on all ranks; 0 if there is none."""
    for unit in UNITS:
        if over_ranks(int(not _alike(shapes, unit))) == 0:
            return unit
    return 0


def _alike(shapes: ProductShapes, unit: int) -> bool:
    """Do products of random operands, computed in the blocks that ranks would compute, have the bits of the
    whole products?"""
    result = prod((*shapes.x[:-1], *shapes.y[1:])) * numpy.result_type(*shapes.dtypes).itemsize
    x = trials.Operand(shapes.x, shapes.dtypes[0], shapes.x_turned)
    y = trials.Operand(shapes.y, shapes.dtypes[1], shapes.y_turned)
    with trials.numbers(x, y, 2 * result) as operands:
        return operands is not None and all(_equal(shapes, unit, *each) for each in trials.varied(*operands))


def _crowded(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: Any, room: int) -> bool:
    """Do the whole product and its operands exceed a rank's memory?"""
    x, y = shapes
    return (prod(x) + prod(y) + prod((*x[:-1], *y[1:]))) * int(dtype.itemsize) > room


def _equal(shapes: ProductShapes, unit: int, x: Array, y: Array) -> bool:
    """Do the blocks of these operands have the bits of the whole product?"""
    whole = numpy.matmul(x, y)
    if shapes.parts:
        return _alike_blocks(x, y, whole, shapes, unit)
    length = shapes.x[0] if shapes.cut[0] == 0 else shapes.y[1]
    tile = library.part_length(length, max(x.size, y.size, whole.size), shapes.points, unit)
    firsts = library.first_points(-(-length // tile), shapes.ranks)
    for low, high in pairwise([first * tile for first in firsts]):
        if low < high:
            block = (x[low:high], y) if shapes.cut[0] == 0 else (x, y[:, low:high])
            if numpy.matmul(*block).tobytes() != whole[low:high].tobytes():
                return False
    return True


def _alike_blocks(x: Array, y: Array, whole: Array, shapes: ProductShapes, unit: int) -> bool:
    """Do the blocks of a grid have the bits of the whole product?"""
    found = numpy.empty_like(whole)
    axes = [cut for cut in (shapes.cut[-1], 1) if cut is not None][:len(shapes.parts)]
    boxes = []
    for axis, parts in zip(axes, shapes.parts, strict=True):
        tile = library.tile_length(whole.shape[axis], parts, unit)
        boxes.append([slice(low, low + tile) for low in range(0, whole.shape[axis], tile)])
    for place in product_of(*boxes):
        if shapes.cut[0] == 0:
            numpy.matmul(x[place[0]], y[:, place[1]] if len(place) > 1 else y, out=found[place])
        else:
            numpy.matmul(x, y[:, place[0]], out=found[place])
    return found.tobytes() == whole.tobytes()


def _cuts(x: Any, y: Any) -> tuple[Cut, ...]:
    """Return the ways to cut a product, each as the axes of both operands and of the product that it cuts:
    dimensions of stacks, of which an operand may lack some; rows of the first matrix; or columns, for a
    vector and a matrix."""
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
