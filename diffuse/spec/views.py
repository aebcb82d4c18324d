"""Maps dimensions of an array to those of its reshape.  This is a rule, not a discovery, because the new
shape is an argument of `reshape` and differs for a part of the array."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from diffuse.ir import Point


class Carried(NamedTuple):
    """A dimension that can be cut both before and after a reshape."""

    source: int
    target: int
    block: int
    """The number of pieces into which each part is cut and interleaved with those of the other parts; 1 where
    the parts follow one another."""


def reshaped(source: Point, target: Point) -> list[Carried]:
    """The dimensions of an array of shape `source` that can be cut where it is reshaped to `target`.

    Both shapes are walked together, and dimensions grouped with equal products.  The first dimension of a
    group is carried to the first one of its counterpart; a later one of a group that is merged into one
    dimension is, too, with as many blocks as the dimensions before it have indices.  ValueError for shapes of
    unequal size.
    """
    if prod(source) != prod(target):
        raise ValueError(f"an array of shape {source} has {prod(source)} elements, one of shape {target} "
                         f"{prod(target)}: reshape keeps them all")
    found: list[Carried] = []
    for before, behind in _groups(source, target):
        if not before or not behind:
            continue
        if len(behind) == 1:
            for number, d in enumerate(before):
                found.append(Carried(d, behind[0], prod(source[k] for k in before[:number])))
        else:
            found.append(Carried(before[0], behind[0], 1))
    return [c for c in found if source[c.source] > 1]


def _groups(source: Point, target: Point) -> list[tuple[list[int], list[int]]]:
    """The finest groups of neighbouring dimensions with equal products."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        before: list[int] = []
        behind: list[int] = []
        left = right = 1
        while not before or not behind or left != right:
            if (left <= right or j == len(target)) and i < len(source):
                before.append(i)
                left *= source[i]
                i += 1
            elif j < len(target):
                behind.append(j)
                right *= target[j]
                j += 1
            else:
                break
        groups.append((before, behind))
    return groups
