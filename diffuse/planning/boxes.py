"""Boxes of an array's elements, one for each rank, which NumPy operations compare for all ranks at once.

An array of boxes has the shape (ranks, dimensions, 2) and the dtype int64: for each rank and dimension the
first index and the one after the last.  The box of a rank without elements is all zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import Point, Replicated, first_points
from diffuse.ir.partition import Partition

Boxes = NDArray[np.int64]


def everything(shape: Point, ranks: int, some: int | None = None) -> Boxes:
    """Return boxes of which each is the whole array, for every rank or for the first `some` ranks."""
    found = np.zeros((ranks, len(shape), 2), np.int64)
    found[:ranks if some is None else some, :, 1] = shape
    return found


def touched(partition: Partition, domain: Point, shape: Point, ranks: int) -> Boxes:
    """Return for each rank the bounding box of what its points access of a store; it is empty for a rank
    without points."""
    points = prod(domain)
    firsts = np.array(first_points(points, ranks))
    if isinstance(partition, Replicated):
        found = everything(shape, ranks)
    else:
        each = np.indices(domain).reshape(len(domain), -1)
        low, high = np.empty((2, points, len(shape)), np.int64)
        for d, c in enumerate(partition.projection.coordinates):
            begin, end = partition.bounds[d]
            start = (c.offset + c.weight * each[c.dim]) * partition.tile[d] + partition.offset[d]
            low[:, d] = np.clip(start, begin, end)
            high[:, d] = np.clip(start + partition.extent[d], begin, end)
        at = np.minimum(firsts[:-1], points - 1)
        found = np.stack([np.minimum.reduceat(low, at), np.maximum.reduceat(high, at)], -1)
    found[firsts[1:] == firsts[:-1]] = 0
    return found


def held(have: Any, dims: int) -> list[Boxes]:
    """Convert what ranks hold, which a runtime tells as a tuple of boxes for each rank, to arrays of boxes.

    There are as many arrays as the rank with the most boxes has boxes; a rank with fewer has empty ones.
    """
    layers = max(map(len, have), default=0)
    found = [np.zeros((len(have), dims, 2), np.int64) for _ in range(layers)]
    for rank, boxes in enumerate(have):
        for layer, box in zip(found, boxes, strict=False):
            layer[rank] = np.array([(r.start, r.stop) for r in box], np.int64).reshape(dims, 2)
            if any(len(r) == 0 for r in box):
                layer[rank] = 0
    return found


def volumes(boxes: Boxes) -> NDArray[np.float64]:
    """Return the number of elements of each box."""
    lengths = np.maximum(boxes[..., 1] - boxes[..., 0], 0)
    found: NDArray[np.float64] = lengths.prod(-1, dtype=np.float64) * (boxes[..., 1] > 0).all(-1)
    return found


def common(one: Boxes, other: Boxes) -> NDArray[np.float64]:
    """Return the number of elements that each box shares with its counterpart."""
    low = np.maximum(one[..., 0], other[..., 0])
    high = np.minimum(one[..., 1], other[..., 1])
    found: NDArray[np.float64] = np.maximum(high - low, 0).prod(-1, dtype=np.float64)
    return found


def lacked(wanted: Boxes, here: Boxes) -> NDArray[np.float64]:
    """Return the number of elements that each rank needs and does not hold.

    Both operands have alternatives as a first dimension: (alternatives, ranks, dimensions, 2).  The result
    has the shape (alternatives of `wanted`, alternatives of `here`, ranks).
    """
    return volumes(wanted)[:, None] - common(wanted[:, None], here[None])


def crossed(wanted: Boxes, here: Boxes) -> NDArray[np.float64]:
    """Return the number of ranks from which a rank receives, for the rank where this is largest.

    Operands are those of `lacked`; the result has the shape (alternatives of `wanted`, of `here`).  The boxes
    of `here` are taken to be the tiles of a grid, and a rank receives from the owner of each tile that its
    box crosses, once where several hold a copy.
    """
    found = np.empty((len(wanted), len(here)))
    some = (volumes(wanted) > 0).astype(np.float64)
    for k, tiles in enumerate(here):
        there = tiles[volumes(tiles) > 0]
        count = some.copy()
        for d in range(tiles.shape[1]):
            low, high = np.unique(there[:, d, 0]), np.unique(there[:, d, 1])
            if len(low) > 1:
                count *= np.maximum(np.searchsorted(low, wanted[..., d, 1])
                                    - np.searchsorted(high, wanted[..., d, 0], "right"), 0)
        found[:, k] = np.maximum(count - (common(wanted, tiles[None]) > 0), 0.0).max(-1)
    return found


def extended(boxes: Boxes, shape: Point) -> Boxes:
    """Return boxes whose outermost ones reach the ends of the array.

    Tasks over the interior of an array determine so where its border lies, too.
    """
    some = volumes(boxes) > 0
    if not some.any():
        return boxes
    found = boxes.copy()
    low, high = boxes[some][..., 0].min(0), boxes[some][..., 1].max(0)
    found[..., 0][some[:, None] & (boxes[..., 0] == low)] = 0
    found[..., 1] = np.where(some[:, None] & (boxes[..., 1] == high), shape, found[..., 1])
    return found


def hull(boxes: Boxes) -> Boxes:
    """Return the bounding box of the boxes of all ranks, repeated for each rank."""
    some = volumes(boxes) > 0
    if not some.any():
        return np.zeros_like(boxes)
    found = np.stack([boxes[some][..., 0].min(0), boxes[some][..., 1].max(0)], -1)
    return np.broadcast_to(found, boxes.shape)


def around(several: Sequence[Boxes]) -> Boxes:
    """Return for each rank the bounding box of its boxes in several arrays."""
    found = np.stack(several)
    empty = volumes(found) == 0
    found[empty] = np.array([np.iinfo(np.int64).max, 0])
    made = np.stack([found[..., 0].min(0), found[..., 1].max(0)], -1)
    made[empty.all(0)] = 0
    return made
