"""The calling convention of a compiled body: from a `Body` to the layout of its block of words.

A kernel is `void k(ptr block, i64 point)`; a body with reductions or an epilogue has `void k_finish(ptr
block)` too, run once after all points of a launch.  The block is a row of 8-byte words:

    domain          the extents of the launch domain
    per space       one tile for each launch dimension, then the extents of its iteration dimensions, then one
                    begin for each launch dimension, if the space has begins
    per argument    address, then its byte stride along each iteration dimension (0: not followed)
    per scalar      its value; two words if complex; float16 and float32 as a float in the first 4 bytes
    per split       the first of an operand's rows that lie at its address, their number, and the address of
                    all others; both addresses are those that row 0 would have; then the first of some rows
                    of the matrix that read none of these others, and the one after the last of them
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

import struct
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from diffuse.ir import ITEMSIZE
from diffuse.ir.loops import ROWS, SEGMENT
from diffuse.kernels.body.expr import Body, Loop, Space
from diffuse.kernels.body.operations import INDEXED

ACCUMULATORS = 32
"""Element j of a row leaf goes to accumulator j % 32; these are then folded by halves."""

ALL_ROWS = 0, 1 << 62, 0, 0, 1 << 62
"""The words of a split operand all of whose rows lie at one address."""

_SCALAR = {"bool": "q", "uint8": "Q", "uint16": "Q", "uint32": "Q", "uint64": "Q", "int8": "q", "int16": "q",
           "int32": "q", "int64": "q", "float16": "f4x", "float32": "f4x", "float64": "d",
           "complex64": "f4xf4x", "complex128": "dd"}


class Reduction(NamedTuple):
    """One `reduce` op of a body.  Its tree depends only on extents and on which dimensions are reduced.

    The leaves of an output element, in row-major order of the reduced dimensions, are combined by
    p[i] = op(p[i], p[i + s]) for s = 1, 2, 4, ... and i a multiple of 2 s.
    """

    loop: int
    argument: int
    operator: str
    dtype: str
    """The element type of the accumulator."""


class Words(NamedTuple):
    """The word offsets of the parts of a block."""

    spaces: tuple[int, ...]
    arguments: tuple[int, ...]
    scalars: tuple[int, ...]
    splits: tuple[int, ...]
    partials: tuple[int, ...]


def words(body: Body) -> Words:
    at = body.launch_rank
    begins: list[list[int]] = [[], [], [], [], []]
    sizes = ([_size(s) for s in body.spaces],
             [1 + body.spaces[a.space].rank for a in body.arguments],
             [2 if s.startswith("complex") else 1 for s in body.scalars],
             [len(ALL_ROWS)] * len(body.split), [1] * len(reductions(body)))
    for begin, group in zip(begins, sizes, strict=True):
        for size in group:
            begin.append(at)
            at += size
    return Words(*(tuple(b) for b in begins))


def _size(space: Space) -> int:
    """The number of words of a space."""
    return len(space.axes) * (1 + space.begins) + space.rank


def layout(body: Body) -> struct.Struct:
    """The binary layout of a block: packs the values of a launch in the order of the module's table."""
    form = [f"<{body.launch_rank}q"]
    form += [f"{_size(s)}q" for s in body.spaces]
    form += [f"Q{body.spaces[a.space].rank}q" for a in body.arguments]
    form += [_SCALAR[s] for s in body.scalars]
    form += ["2qQ2q"] * len(body.split)
    form += ["Q"] * len(reductions(body))
    return struct.Struct("".join(form))


def reductions(body: Body) -> tuple[Reduction, ...]:
    """The reductions of a body in the order of their ops, which is the order of their partials in the
    block."""
    return tuple(
        Reduction(number, op.attribute[1], op.attribute[0], op.dtype)
        for number, loop in enumerate(body.loops) for op in loop.ops if op.kind == "reduce"
    )


def order_of(body: Body, loop: Loop) -> tuple[int, ...]:
    """The dimensions of a loop from the outermost to the innermost.

    A loop with reductions takes the order of their tree, as its iterations are independent: the last
    dimension is innermost, and the kept dimensions of a column reduction are outermost, so that its leaves
    are completed one after another.
    """
    rank = body.spaces[loop.space].rank
    folds = [op.attribute[1] for op in loop.ops if op.kind == "reduce"]
    if not folds:
        return loop.order
    columns = [body.arguments[a].classes for a in folds if rank and body.arguments[a].classes[-1] != "0"]
    outer = sorted(range(rank - 1), key=lambda d: (columns[0][d] == "0") if columns else False)
    return (*outer, rank - 1) if rank else ()


def first_reduction(body: Body, loop: int) -> int:
    """The number of the first reduction in this loop or a later one."""
    return sum(r.loop < loop for r in reductions(body))


def finishes(body: Body) -> bool:
    """Must `finish` run when all points are done?"""
    return bool(body.epilogue or len(reductions(body)) > len(body.whole))


def kept(body: Body, reduction: Reduction) -> tuple[int, ...]:
    """The iteration dimensions that are dimensions of the reduction's result."""
    classes = body.arguments[reduction.argument].classes
    return tuple(d for d, letter in enumerate(classes) if letter != "0")


def leaf_runs(body: Body, number: int) -> bool:
    """Can each point fold subtrees of a reduction?  Its leaves have to be contiguous, as they are where a
    launch domain of one dimension cuts the outermost reduced dimension."""
    reduction = reductions(body)[number]
    space = body.spaces[body.loops[reduction.loop].space]
    reduced = [d for d in range(space.rank) if d not in kept(body, reduction)]
    return bool(reduced) and space.axes == (reduced[0],) and not space.begins


def by_rows(rank: int, kept: Sequence[int]) -> bool:
    """Is the last iteration dimension reduced?"""
    return rank > 0 and rank - 1 not in kept


def leaves(extents: Sequence[int], kept: Sequence[int]) -> int:
    """The number of leaves of one output element."""
    reduced = [d for d in range(len(extents)) if d not in kept]
    if not reduced:
        return 1
    *outer, last = reduced
    length = SEGMENT if by_rows(len(extents), kept) else ROWS
    return prod(extents[d] for d in outer) * -(-extents[last] // length)


def partial_bytes(body: Body, reduction: Reduction, extents: Sequence[int]) -> int:
    """Bytes of a reduction's partials, for these extents of its loop's space."""
    dims = kept(body, reduction)
    count = prod(extents[d] for d in dims) * leaves(extents, dims)
    if reduction.operator not in INDEXED:
        return count * ITEMSIZE[reduction.dtype]
    return index_plane(count * ITEMSIZE[reduction.dtype]) + count * 8


def index_plane(value_bytes: int) -> int:
    """The offset of the plane of indices, after so many bytes of values."""
    return (value_bytes + 7) & ~7


PIECES = 64
"""The approximate maximum of small points in a divided launch."""
PIECE = 1_000_000
"""Operations times elements of a small point: interpreting them takes about a millisecond, and a point's
overhead is some 50 us."""


class Division(NamedTuple):
    """A launch divided into smaller points: its values, their number, and the values of the rest from a given
    point on."""

    values: tuple[Any, ...]
    points: int
    rest: Callable[[int], tuple[Any, ...]]


def divide(body: Body, values: tuple[Any, ...]) -> Division | None:
    """Divide the points of a launch into smaller ones; None if its body does not allow it.

    The body must have one loop that neither folds nor counts.  Its iterations are then independent, and those
    from some index on, along the dimension that the first launch dimension cuts, form a launch of their own
    with later addresses and a smaller extent.  Small points are cut along that dimension only.
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


def whole(body: Body, values: tuple[Any, ...]) -> Division | None:
    """Turn a launch into one of a single point, which saves the overhead of points; None for a launch that
    folds, as partial results of points are combined after them."""
    if not body.spaces or body.epilogue or reductions(body):
        return None
    many = body.launch_rank
    found = [*[1] * many, *values[many:]]
    for space, word in zip(body.spaces, words(body).spaces, strict=True):
        for place, axis in enumerate(space.axes):
            if axis >= 0:
                found[word + place] = found[word + many + axis]
    return Division(tuple(found), 1, lambda _: values)
