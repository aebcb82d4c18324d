"""Joins the boxes of a store that a launch accesses, so that its task has few region requirements.

For each requirement Legate analyses dependences and looks for an instance, a quarter of a millisecond.  A
stencil with its borders reads twelve views of a store: a task of Legate reads three boxes of rows, one for
each row in which views begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, combinations, permutations
from math import prod
from typing import TypeVar

from diffuse.ir import Point

Tiles = tuple[tuple[int, int, int], ...]
"""(dimension of the store, launch dimension, extent of a tile) for each dimension that is tiled."""
WHOLE: Tiles = ()

Box = tuple[Point, Point, Tiles]
Argument = TypeVar("Argument")
Parts = dict[Box, list[Argument]]
"""Boxes of one store, each with the arguments that access it."""


def written(parts: Parts[Argument]) -> Parts[Argument] | None:
    """Join the boxes of a store that is written.  None if points might write what others access.

    Where the box around all boxes with the same tiles meets boxes with others (around the first and the last
    row of an array, for instance), only boxes that overlap are joined.
    """
    return next((found for found in (_aligned(parts), _aligned(parts, overlapping=True), parts)
                 if _disjoint(found)), None)


def read(parts: Parts[Argument], distinguished: Callable[[Tiles], bool]) -> Parts[Argument]:
    """Join the boxes of a store that is only read."""
    found = replicated(parts, distinguished)
    joined = _aligned(found)
    alone = all(apart(a, b) for a, b in permutations(joined, 2) if not distinguished(a[2]))
    return joined if alone else found


def _disjoint(parts: Parts[Argument]) -> bool:
    return all(apart(a, b) for a, b in combinations(parts, 2))


def _aligned(parts: Parts[Argument], overlapping: bool = False) -> Parts[Argument]:
    """Join boxes whose tiles begin at the same places in the dimensions that are tiled; if `overlapping`,
    only those with common elements.  A joined box adds only elements of the same tiles to what a point gets,
    so that nothing moves for it."""
    groups: dict[object, list[list[Box]]] = {}
    for box in parts:
        low, _, tiles = box
        same = groups.setdefault((tiles, tuple([low[d] for d, _, _ in tiles])) if tiles else box, [])
        met = [boxes for boxes in same if not overlapping or not all(apart(box, other) for other in boxes)]
        same[:] = [boxes for boxes in same if boxes not in met] + [[box, *chain(*met)]]
    return {(*around(*boxes), boxes[0][2]): [a for box in boxes for a in parts[box]]
            for same in groups.values() for boxes in same}


def replicated(parts: Parts[Argument], distinguished: Callable[[Tiles], bool]) -> Parts[Argument]:
    """Join boxes of a store that is only read: a replicated box absorbs the boxes it overlaps.

    Legate 26.1 sometimes runs a point before its copy of a replicated box is complete, if the point also
    requires some of the elements as a tile: `p[::-1] - p` then sees an older `p`.
    """
    for a, b in permutations(parts, 2):
        if not distinguished(a[2]) and not apart(a, b):
            joined: Parts[Argument] = {}
            for box, same in parts.items():
                joined.setdefault((*around(a, b), WHOLE) if box in (a, b) else box, []).extend(same)
            return replicated(joined, distinguished)
    return parts


def around(*boxes: Box) -> tuple[Point, Point]:
    """The bounding box of these boxes."""
    return (tuple(map(min, zip(*(low for low, _, _ in boxes), strict=True))),
            tuple(map(max, zip(*(high for _, high, _ in boxes), strict=True))))


def volume(*boxes: Box) -> int:
    """Return the sum of the volumes of these boxes."""
    return sum(prod(high - low for low, high in zip(box[0], box[1], strict=True)) for box in boxes)


def pieces(boxes: Iterable[Box]) -> list[Box]:
    """Return disjoint boxes that cover these boxes and little more: boxes that lie close together are joined,
    and of boxes that overlap, such as the borders of a plate, all but one lose the common elements."""
    rest = list(boxes)
    while near := next((pair for pair in combinations(rest, 2) if _close(*pair)), None):
        rest = [box for box in rest if box not in near] + [(*around(*near), WHOLE)]
    found: list[Box] = []
    for box in sorted(rest, key=volume, reverse=True):
        parts = [box]
        for other in found:
            parts = [left for part in parts for left in without(part, other)]
        found += parts
    return found


def _close(a: Box, b: Box) -> bool:
    return volume((*around(a, b), WHOLE)) <= 2 * volume(a, b)


def without(box: Box, other: Box) -> list[Box]:
    """Return the rest of a box without another box, as disjoint boxes."""
    if apart(box, other):
        return [box]
    found = []
    low, high = list(box[0]), list(box[1])
    for d, (begin, end) in enumerate(zip(other[0], other[1], strict=True)):
        if low[d] < begin:
            found.append((tuple(low), (*high[:d], begin, *high[d + 1:]), WHOLE))
            low[d] = begin
        if end < high[d]:
            found.append(((*low[:d], end, *low[d + 1:]), tuple(high), WHOLE))
            high[d] = end
    return found


def apart(a: Box, b: Box) -> bool:
    """Are two boxes disjoint?"""
    return any(ahigh <= blow or bhigh <= alow
               for alow, ahigh, blow, bhigh in zip(a[0], a[1], b[0], b[1], strict=True))
