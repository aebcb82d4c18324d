"""The calling convention of a compiled body: from a `Body` to the layout of its block of words.

A kernel is `void k(ptr block, i64 point)`; a body with reductions or an epilogue has `void k_finish(ptr
block)` too, run once after all points of a launch.  The block is a row of 8-byte words:

    domain          the extents of the launch domain
    per space       one tile for each launch dimension, then the extents of its iteration dimensions, then one
                    begin for each launch dimension, if the space has begins
    per argument    address, then its byte stride along each iteration dimension (0: not followed)
    per scalar      its value; two words if complex; float16 and float32 as a float in the first 4 bytes
    per reduction   address of its partials

`point` is the row-major number of a point of the launch domain.  The point with coordinates p runs, in each
loop, the indices [p[d] * tile[d], (p[d] + 1) * tile[d]) of the axis that launch dimension d cuts, for each d,
and all of the other dimensions.  A begin is subtracted from both ends, but the first point begins with the
axis and the last one ends with it.  Where a launch dimension cuts nothing, points with p[d] = 0 alone run the
loop.  With one point a reduction is combined right after its loop, so that later loops may load its result;
with more, by `k_finish`, or by the point that has all of its elements (`Body.whole`).  Of some (`Body.parts`)
a point folds each subtree whose leaves are all its own, and `k_finish` the rest of the tree: of a point's
leaves it then reads the roots of those subtrees alone (`ir.loops.roots`).

Partials hold one accumulator per leaf of the reduction tree (see `Reduction`):

    rows (the last iteration dimension is reduced)      [output element][leaf]
    columns (it is kept)                                [leaf][output element]

with output elements in row-major order of the kept dimensions and leaves in row-major order of the reduced
ones.  argmin and argmax have two such planes: the values, then, from the next multiple of 8 bytes, their
int64 indices.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from diffuse.ir import ITEMSIZE
from diffuse.ir.loops import ROWS, SEGMENT
from diffuse.kernels.body.expr import Body, Loop, Space
from diffuse.kernels.body.operations import INDEXED

if TYPE_CHECKING:
    from diffuse.kernels.build.jit import Native

ACCUMULATORS = 32
"""Element j of a row leaf goes to accumulator j % 32; these are then folded by halves."""

_SCALAR = {"bool": "q", "uint8": "Q", "uint16": "Q", "uint32": "Q", "uint64": "Q", "int8": "q", "int16": "q",
           "int32": "q", "int64": "q", "float16": "f4x", "float32": "f4x", "float64": "d",
           "complex64": "f4xf4x", "complex128": "dd"}


class Reduction(NamedTuple):
    """One `reduce` op of a body.  Its tree is a function of extents and reduced dimensions, nothing else.

    The leaves of an output element, in row-major order of the reduced dimensions, are combined by
    p[i] = op(p[i], p[i + s]) for s = 1, 2, 4, ... and i a multiple of 2 s.
    """

    loop: int
    argument: int
    operator: str
    dtype: str
    """The accumulator's."""


class Words(NamedTuple):
    """Where in the block, in words, each thing begins."""

    spaces: tuple[int, ...]
    arguments: tuple[int, ...]
    scalars: tuple[int, ...]
    partials: tuple[int, ...]


def words(body: Body) -> Words:
    at = body.launch_rank
    begins: list[list[int]] = [[], [], [], []]
    sizes = ([_size(s) for s in body.spaces],
             [1 + body.spaces[a.space].rank for a in body.arguments],
             [2 if s.startswith("complex") else 1 for s in body.scalars], [1] * len(reductions(body)))
    for begin, group in zip(begins, sizes, strict=True):
        for size in group:
            begin.append(at)
            at += size
    return Words(*(tuple(b) for b in begins))


def _size(space: Space) -> int:
    """The words of a space."""
    return len(space.axes) * (1 + space.begins) + space.rank


def layout(body: Body) -> struct.Struct:
    """Packs the values of a launch, in the order above, into its block."""
    form = [f"<{body.launch_rank}q"]
    form += [f"{_size(s)}q" for s in body.spaces]
    form += [f"Q{body.spaces[a.space].rank}q" for a in body.arguments]
    form += [_SCALAR[s] for s in body.scalars]
    form += ["Q"] * len(reductions(body))
    return struct.Struct("".join(form))


def reductions(body: Body) -> tuple[Reduction, ...]:
    """In the order of their ops, which is the order of their partials in the block."""
    return tuple(
        Reduction(number, op.attribute[1], op.attribute[0], op.dtype)
        for number, loop in enumerate(body.loops) for op in loop.ops if op.kind == "reduce"
    )


def order_of(body: Body, loop: Loop) -> tuple[int, ...]:
    """Dimensions from the outermost loop to the innermost.

    A loop's iterations are independent, so one with reductions may take the order of their tree: the last
    dimension innermost, and outermost what a column reduction keeps, so that its leaves are finished one
    after another.
    """
    rank = body.spaces[loop.space].rank
    folds = [op.attribute[1] for op in loop.ops if op.kind == "reduce"]
    if not folds:
        return loop.order
    columns = [body.arguments[a].classes for a in folds if rank and body.arguments[a].classes[-1] != "0"]
    outer = sorted(range(rank - 1), key=lambda d: (columns[0][d] == "0") if columns else False)
    return (*outer, rank - 1) if rank else ()


def first_reduction(body: Body, loop: int) -> int:
    """The number of the first reduction in this loop or behind it."""
    return sum(r.loop < loop for r in reductions(body))


def finishes(body: Body) -> bool:
    """Is there something to do when all points are done?"""
    return bool(body.epilogue or len(reductions(body)) > len(body.whole))


def kept(body: Body, reduction: Reduction) -> tuple[int, ...]:
    """The iteration dimensions that the reduction's result follows."""
    classes = body.arguments[reduction.argument].classes
    return tuple(d for d, letter in enumerate(classes) if letter != "0")


def leaf_runs(body: Body, number: int) -> bool:
    """May each point fold subtrees of a reduction?  Its leaves have to be a run.  They are where a launch
    domain of one dimension cuts the outermost reduced dimension."""
    reduction = reductions(body)[number]
    space = body.spaces[body.loops[reduction.loop].space]
    reduced = [d for d in range(space.rank) if d not in kept(body, reduction)]
    return bool(reduced) and space.axes == (reduced[0],) and not space.begins


def by_rows(rank: int, kept: Sequence[int]) -> bool:
    """Is the last iteration dimension reduced?"""
    return rank > 0 and rank - 1 not in kept


def leaves(extents: Sequence[int], kept: Sequence[int]) -> int:
    """Leaves of one output element."""
    reduced = [d for d in range(len(extents)) if d not in kept]
    if not reduced:
        return 1
    *outer, last = reduced
    length = SEGMENT if by_rows(len(extents), kept) else ROWS
    return prod(extents[d] for d in outer) * -(-extents[last] // length)


def partial_bytes(body: Body, reduction: Reduction, extents: Sequence[int]) -> int:
    """Size of a reduction's partials, for these extents of its loop's space."""
    dims = kept(body, reduction)
    count = prod(extents[d] for d in dims) * leaves(extents, dims)
    if reduction.operator not in INDEXED:
        return count * ITEMSIZE[reduction.dtype]
    return index_plane(count * ITEMSIZE[reduction.dtype]) + count * 8


def index_plane(value_bytes: int) -> int:
    """Where the plane of indices begins, after so many bytes of values."""
    return (value_bytes + 7) & ~7


PIECES = 64
"""Small points that a divided launch has at most, about."""
PIECE = 1_000_000
"""Operations times elements that a small point is worth: interpreting them takes about a millisecond, what a
point costs beside them some 50 us."""


class Division(NamedTuple):
    """A launch in smaller points: its values, their number, and what is left from one of them on."""

    values: tuple[Any, ...]
    points: int
    rest: Callable[[int], tuple[Any, ...]]


def divide(body: Body, values: tuple[Any, ...]) -> Division | None:
    """Cut the points of a launch into smaller ones, or None.

    That needs a body of one loop that neither folds nor counts: then iterations are independent, and those
    from some index on, of the dimension that the first launch dimension cuts, are a launch of their own, with
    later addresses and a smaller extent.  Small points are cut along that dimension alone.
    """
    if len(body.loops) != 1 or len(body.spaces) != 1 or not body.spaces[0].rank or body.spaces[0].begins:
        return None
    if any(op.kind in ("reduce", "scan", "index", "turn", "nth", "scatter") for op in body.loops[0].ops):
        return None
    (rank, axes, *_), many = body.spaces[0], body.launch_rank
    if -1 in axes:
        return None
    axis, begin, end = axes[0], 2 * many, 2 * many + rank
    domain, extents = values[:many], values[begin:end]
    extent, unit = extents[axis], SEGMENT if axis == rank - 1 else 1
    work = prod(extents) * len(body.loops[0].ops)
    pieces = max(1, min(PIECES, work // PIECE))  # the interpreter has one thread
    tile = max(unit, extent // pieces // unit * unit) if pieces > 1 else extent
    points = -(-extent // tile)
    small = (points, *[1] * (many - 1), tile, *[extents[d] for d in axes[1:]], *values[begin:])

    def rest(piece: int) -> tuple[Any, ...]:
        start, left = piece * tile, list(values)
        left[begin + axis] = extent - start
        left[many] = -(-left[begin + axis] // domain[0] // unit) * unit
        for word in words(body).arguments:
            left[word] += start * values[word + 1 + axis]
        return tuple(left)

    return Division(small, points, rest)


def run(native: Native, body: Body, values: Sequence[int | float], points: int) -> None:
    """All points of a launch, one after another, and the finish: for tests and for routines."""
    block = ctypes.create_string_buffer(layout(body).pack(*values))
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(native.address)
    for point in range(points):
        kernel(ctypes.addressof(block), point)
    if points > 1 and native.finish:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(native.finish)(ctypes.addressof(block))
