"""How many points run a task, and where they cut its iteration space.

One rule, a function of extents only, so that operations over equal spaces are cut alike and can fuse: small
spaces stay whole; others are cut along the first dimension long enough to give every processor a share.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from diffuse.ir import Point, Split

SEGMENT = 512
"""A row leaf of the reduction tree: so many indices of the last iteration dimension, at multiples of it.
Tiles of that dimension are multiples of it too: a leaf never straddles points."""

ROWS = 32
"""A column leaf: so many indices of the innermost reduced dimension, with tiles to match."""

ONE: tuple[Point, tuple[Split, ...]] = ((1,), (Split(-1, 0),))


@lru_cache(maxsize=1 << 14)
def launch(shape: Point, processors: int, chunk: int, whole: frozenset[int] = frozenset(),
           leaves: int = -1) -> tuple[Point, tuple[Split, ...]]:
    """The launch domain and splits of a task over `shape`.

    `whole` are dimensions that must not be cut (a scan's); `leaves` is the dimension whose cuts must lie
    between leaves of the reduction tree (the innermost reduced one, when the last dimension is kept).
    """
    points = min(processors, prod(shape) // chunk)
    if points <= 1:
        return ONE
    last = len(shape) - 1
    candidates = [d for d, n in enumerate(shape) if d not in whole and n >= (2 * SEGMENT if d == last else 2)]
    if not candidates:
        return ONE
    axis = next((d for d in candidates if shape[d] >= 4 * points), max(candidates, key=lambda d: shape[d]))
    tile = -(-shape[axis] // points)
    if axis == last:
        tile = -(-tile // SEGMENT) * SEGMENT
    elif axis == leaves:
        tile = -(-tile // ROWS) * ROWS
    if tile >= shape[axis]:
        return ONE
    return (points,), (Split(axis, tile),)
