"""Blocks: grids of tiles by which ranks exchange less than by rows.

Where tasks read their neighbours along several dimensions, what ranks exchange is the surface of their tiles.
Of all grids that is best whose largest tile and whose surface take least time together; where the number of
ranks has no good factors, it leaves a few of them without work.  A rank's threads share its tile along the
last dimension that is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod

from diffuse.ir import Decomposition, Point, Split

IDLE, TRIED = 8, 16
"""Of so many ranks one may be left without work, for a better grid, and so many in all."""
MOVED = 4
"""The time to move an element, in that of computing one."""
PAGE, SMALL = 512, 1 << 20
"""Elements of a page of memory: rows of tiles touch whole ones.  Tiles may take twice as much as they have,
or more up to so many elements."""


@lru_cache(maxsize=1 << 10)
def blocks(shape: Point, rows: Decomposition, ranks: int, threads: int, reach: Point,
           units: tuple[tuple[int, int], ...], more: int) -> Decomposition | None:
    """Return the grid by which tasks over a shape move least; None if they move no more by `rows`.

    `reach` tells for each dimension over how many indices neighbours are read, -1 where it must not be cut;
    `units` are (dimension, unit): lengths of which tiles are multiples; `more` is the number of elements that
    move because of a grid alone.
    """
    def cost(parts: Point, tiles: Point, moved: int) -> float:
        return prod(tiles) + MOVED * moved / prod(parts)

    known, found = dict(units), []
    idle = min(ranks // IDLE, TRIED) if threads == 1 else 0
    allowed = [k >= 0 and n > 1 for k, n in zip(reach, shape, strict=True)]
    for count in range(ranks, ranks - idle - 1, -1):
        for parts in _factors(count, allowed):
            tiles = tuple([_tile(n, k, known.get(d, 1))
                           for d, (n, k) in enumerate(zip(shape, parts, strict=True))])
            if sum([k > 1 for k in parts]) > 1 and _fits(tiles, parts, shape):
                moved = surface(shape, tiles, reach) + more
                found.append((cost(parts, tiles, moved), tuple([-k for k in parts]), tiles, moved))
    axis, tile, _ = rows.splits[0]
    before = tuple([min(n, tile * max(1, rows.domain[0] // ranks)) if d == axis else n
                    for d, n in enumerate(shape)])
    least = surface(shape, before, reach)
    best, parts, tiles, moved = min(found, default=(0.0, (), (), least))
    if moved >= least or best >= cost((min(rows.domain[0], ranks),), before, least):
        return None
    cut = [d for d, k in enumerate(parts) if k < -1]
    domain, splits = [-parts[d] for d in cut], [Split(d, tiles[d]) for d in cut]
    last = cut[-1]
    domain[-1] *= threads
    splits[-1] = Split(last, _tile(shape[last], domain[-1], known.get(last, 1)))
    return Decomposition(tuple(domain), tuple(splits))


def surface(shape: Point, tiles: Point, reach: Point) -> int:
    """Return the elements that go from one tile of a shape to another."""
    return sum([(-(-n // tile) - 1) * (prod(shape) // n) * max(width, 1)
                for n, tile, width in zip(shape, tiles, reach, strict=True)])


def _fits(tiles: Point, parts: Point, shape: Point) -> bool:
    """Does the memory that a tile touches hold little else?"""
    inner = max([d for d, k in enumerate(parts) if k > 1])
    run = prod(tiles[inner:])
    return prod(tiles[:inner]) * max(run, min(PAGE, prod(shape[inner:]))) <= max(2 * prod(tiles), SMALL)


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
