"""Blocks: grids of tiles by which ranks exchange less than by rows.

Where tasks read their neighbours along several dimensions, what ranks exchange is the surface of their tiles.
The grid is that of least surface among those of nearly the best balance; a number of ranks that has no good
factors leaves a few of them without work.  A rank's threads share its tile along the last dimension that is
cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod

from diffuse.ir import Decomposition, Point, Split

IDLE, TRIED = 8, 16
"""Of so many ranks one may be left without work, for a better grid, and so many in all."""
LARGE, RUN = 1 << 23, 512
"""Elements of an array from which on a row of a tile is a page at least: memory is touched by pages."""
UNEVEN = 9 / 8
"""How much longer than the shortest possible the largest tile may be."""


@lru_cache(maxsize=1 << 10)
def blocks(shape: Point, rows: Decomposition, ranks: int, threads: int, reach: Point,
           units: tuple[tuple[int, int], ...], more: int) -> Decomposition | None:
    """Return the grid by which tasks over a shape move least; None if they move no more by `rows`.

    `reach` tells for each dimension over how many indices neighbours are read, -1 where it must not be cut;
    `units` are (dimension, unit): lengths of which tiles are multiples; `more` is the number of elements that
    move because of a grid alone.
    """
    each = max(1, rows.domain[0] // ranks)
    axis, tile, _ = rows.splits[0]
    before = [1] * len(shape)
    before[axis] = -(-shape[axis] // (tile * each))
    allowed = [k >= 0 and n > 1 for k, n in zip(reach, shape, strict=True)]
    known = dict(units)
    found: list[tuple[int, int, Point, Point]] = []
    idle = min(ranks // IDLE, TRIED) if threads == 1 else 0
    for count in range(ranks, ranks - idle - 1, -1):
        for parts in _factors(count, allowed):
            tiles = tuple([_tile(n, k, known.get(d, 1)) for d, (n, k) in enumerate(zip(shape, parts,
                                                                                     strict=True))])
            inner = max([d for d, k in enumerate(parts) if k > 1], default=0)
            if prod(shape) >= LARGE and prod(tiles[inner:]) < RUN:
                continue
            moved = surface(shape, [-(-n // t) for n, t in zip(shape, tiles, strict=True)], reach)
            found.append((moved + more, prod(tiles), tuple([-k for k in parts]), tiles))
    largest = UNEVEN * min([each * tile * prod(shape) // shape[axis], *[size for _, size, *_ in found]])
    moved, _, parts, tiles = min([one for one in found if one[1] <= largest],
                                 default=(-1, 0, (), ()))
    cut = [d for d, k in enumerate(parts) if k < -1]
    if len(cut) < 2 or moved >= surface(shape, before, reach):
        return None
    domain, splits = [-parts[d] for d in cut], [Split(d, tiles[d]) for d in cut]
    last = cut[-1]
    if threads > 1:
        domain[-1] *= threads
        splits[-1] = Split(last, _tile(shape[last], domain[-1], known.get(last, 1)))
        if splits[-1].tile * threads > UNEVEN * tiles[last]:
            return None
    return Decomposition(tuple(domain), tuple(splits))


def surface(shape: Point, parts: list[int], reach: Point) -> int:
    """Return the elements that go from one part of a shape to another."""
    return sum([(k - 1) * (prod(shape) // n) * max(width, 1)
                for n, k, width in zip(shape, parts, reach, strict=True)])


def _tile(extent: int, parts: int, unit: int) -> int:
    return extent if parts == 1 else -(-(-(-extent // parts)) // unit) * unit


def _factors(count: int, allowed: list[bool]) -> Iterator[Point]:
    """Yield the ways to write a number as a product of one factor for each dimension, 1 where it must be."""
    if not allowed:
        if count == 1:
            yield ()
        return
    for k in _divisors(count) if allowed[0] else (1,):
        for rest in _factors(count // k, allowed[1:]):
            yield k, *rest


@lru_cache(maxsize=1 << 12)
def _divisors(count: int) -> tuple[int, ...]:
    small = [k for k in range(1, int(count ** 0.5) + 1) if count % k == 0]
    return tuple(sorted({*small, *[count // k for k in small]}))
