"""Joins the boxes of a store that a launch accesses, so that its task has few region requirements.

For each requirement Legate analyses dependences and looks for an instance, a quarter of a millisecond.  A
stencil with its borders reads twelve views of a store: a task of Legate reads three boxes of rows, one for
each row in which views begin.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations
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
    """Join the boxes of a store that is written.  None if points might write what others access."""
    joined = _aligned(parts)
    return joined if _disjoint(joined) else parts if _disjoint(parts) else None


def read(parts: Parts[Argument], distinguished: Callable[[Tiles], bool]) -> Parts[Argument]:
    """Join the boxes of a store that is only read."""
    found = replicated(parts, distinguished)
    joined = _aligned(found)
    alone = all(apart(a, b) for a, b in permutations(joined, 2) if not distinguished(a[2]))
    return joined if alone else found


def _disjoint(parts: Parts[Argument]) -> bool:
    return all(apart(a, b) for a, b in combinations(parts, 2))


def _aligned(parts: Parts[Argument]) -> Parts[Argument]:
    """Join boxes whose tiles begin at the same places in the dimensions that are tiled.  What a point gets
    besides is of its own tiles, and nothing moves for it."""
    groups: dict[object, list[Box]] = {}
    for box in parts:
        low, _, tiles = box
        groups.setdefault((tiles, tuple([low[d] for d, _, _ in tiles])) if tiles else box, []).append(box)
    return {(*around(*boxes), boxes[0][2]): [a for box in boxes for a in parts[box]]
            for boxes in groups.values()}


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


def apart(a: Box, b: Box) -> bool:
    """Have two boxes no element in common?"""
    return any(ahigh <= blow or bhigh <= alow
               for alow, ahigh, blow, bhigh in zip(a[0], a[1], b[0], b[1], strict=True))
