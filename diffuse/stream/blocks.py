"""Blocks: grids of tiles with which ranks exchange less data than with rows.

Where tasks read their neighbours along several dimensions, the data exchanged is the surface of the tiles.
The best grid minimises the time of a task over its largest tile and of the exchange of its surface, by the
model of the machine that planned regions use, too; if the number of ranks has no good factors, it leaves a
few of them without work.  A rank's threads divide its tile along the last dimension that is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod

from diffuse.ir import Decomposition, Point, Split, tile_length
from diffuse.movement.machine import Machine

IDLE, TRIED = 8, 16
"""At most one rank in `IDLE`, and at most `TRIED` ranks, are left without work for a better grid."""
ITEM = 8
"""The bytes of an element, for arrays of all types."""
MACHINE = Machine()
"""The machine where none was measured, with the documented numbers; messages cost nothing then, so that the
fewest bytes decide."""
PAGE, SMALL = 512, 1 << 20
"""Elements of a page of memory, of which rows of tiles touch whole ones.  The memory that a tile touches may
be at most twice the tile, or this many elements."""


@lru_cache(maxsize=1 << 10)
def blocks(shape: Point, rows: Decomposition, ranks: int, threads: int, reach: Point,
           units: tuple[tuple[int, int], ...], faces: int = 0, partials: int = 0,
           machine: Machine = MACHINE) -> Decomposition | None:
    """Return the grid with which tasks over a shape take the least time; None if it moves no fewer elements
    than `rows` do, or takes no less time.

    `reach` is the number of indices over which neighbours are read along each dimension, -1 where it must not
    be cut; `units` are (dimension, unit): tile lengths are multiples; `faces` and `partials` are the elements
    of borders and of partial results that move only because of the grid.
    """
    machine = machine.over(ranks)
    latency = 0.0 if machine == MACHINE else machine.latency

    def cost(parts: Point, tiles: Point, moved: int, added: int = 0) -> float:
        neighbours = sum([min(k - 1, 2) for k in parts])
        share = ITEM / prod(parts)
        return (ITEM * prod(tiles) / machine.compute + neighbours * latency
                + share * moved / machine.bandwidth + share * added / machine.reduction)

    known, found = dict(units), []
    idle = min(ranks // IDLE, TRIED) if threads == 1 else 0
    allowed = [k >= 0 and n > 1 for k, n in zip(reach, shape, strict=True)]
    for count in range(ranks, ranks - idle - 1, -1):
        for parts in factors(count, allowed):
            tiles = tuple([_tile(n, k, known.get(d, 1))
                           for d, (n, k) in enumerate(zip(shape, parts, strict=True))])
            if sum([k > 1 for k in parts]) > 1 and _fits(tiles, parts, shape):
                moved = surface(shape, tiles, reach) + faces + partials
                found.append((cost(parts, tiles, moved, partials), tuple([-k for k in parts]), tiles, moved))
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
    """The number of elements that move between the tiles of a shape."""
    return sum([(-(-n // tile) - 1) * (prod(shape) // n) * max(width, 1)
                for n, tile, width in zip(shape, tiles, reach, strict=True)])


def _fits(tiles: Point, parts: Point, shape: Point) -> bool:
    """Is the memory that a tile touches not much larger than the tile?"""
    inner = max([d for d, k in enumerate(parts) if k > 1])
    run = prod(tiles[inner:])
    return prod(tiles[:inner]) * max(run, min(PAGE, prod(shape[inner:]))) <= max(2 * prod(tiles), SMALL)


def _tile(extent: int, parts: int, unit: int) -> int:
    return extent if parts == 1 else tile_length(extent, parts, unit)


def factors(count: int, allowed: list[bool]) -> Iterator[Point]:
    """Yield the factorisations of a number with one factor per dimension, which is 1 where it must be."""
    if not allowed:
        if count == 1:
            yield ()
        return
    for k in _divisors(count) if allowed[0] else (1,):
        for rest in factors(count // k, allowed[1:]):
            yield k, *rest


@lru_cache(maxsize=1 << 12)
def _divisors(count: int) -> tuple[int, ...]:
    small = [k for k in range(1, int(count ** 0.5) + 1) if count % k == 0]
    return tuple(sorted({*small, *[count // k for k in small]}))
