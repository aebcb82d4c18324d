"""Boxes of indices, and how one launch of a kernel covers two that lie at opposite borders of an array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from diffuse.ir import Point


class Box(NamedTuple):
    """A box of elements of a store."""

    begin: Point
    end: Point

    @property
    def extents(self) -> Point:
        return tuple([b - a for a, b in zip(self.begin, self.end, strict=True)])

    def contains(self, other: Box) -> bool:
        return (all(a <= b for a, b in zip(self.begin, other.begin, strict=True))
                and all(a >= b for a, b in zip(self.end, other.end, strict=True)))


def row_major(shape: Point, itemsize: int) -> list[int]:
    """The strides of a contiguous array of this shape in row-major order, in bytes."""
    return [itemsize * prod(shape[d + 1:]) for d in range(len(shape))]


def around(whole: Box, box: Box) -> list[Box]:
    """The boxes that make a whole together with this one."""
    found = []
    for d in range(len(whole.begin)):
        for low, high in ((whole.begin[d], box.begin[d]), (box.end[d], whole.end[d])):
            if low < high:
                found.append(Box((*box.begin[:d], low, *whole.begin[d + 1:]),
                                 (*box.end[:d], high, *whole.end[d + 1:])))
    return found


def joined(boxes: Sequence[Box], shape: Point, steps: Sequence[int]
            ) -> Iterator[tuple[Box, tuple[int, ...]]]:
    """Boxes with their strides.  The first and the last row along a dimension become one box of two rows that
    lie that far apart, except along the innermost dimension, whose stride is part of the kernel."""
    left = list(boxes)
    while left:
        box = left.pop(0)
        strides = list(steps)
        for d in range(len(shape) - 1):
            far = shape[d] - 1
            last = Box((*box.begin[:d], far, *box.begin[d + 1:]), (*box.end[:d], far + 1, *box.end[d + 1:]))
            if box.begin[d] == 0 and box.end[d] == 1 and far > 0 and last in left:
                left.remove(last)
                box = Box(box.begin, (*box.end[:d], 2, *box.end[d + 1:]))
                strides[d] = far * steps[d]
                break
        yield box, tuple(strides)
