"""What each rank touches of an array, as one box a rank: arrays of (ranks, dimensions, low and high).

Counting what ranks lack is then arithmetic on whole arrays, for thousands of ranks at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import Point, Replicated
from diffuse.ir.partition import Partition

Boxes = NDArray[np.int64]


def everything(shape: Point, ranks: int, some: int | None = None) -> Boxes:
    """All of an array, on every rank, or on the first `some`."""
    found = np.zeros((ranks, len(shape), 2), np.int64)
    found[:ranks if some is None else some, :, 1] = shape
    return found


def touched(partition: Partition, domain: Point, shape: Point, ranks: int) -> Boxes:
    """The least box around what the points of each rank touch of a store; empty for ranks without points."""
    points = prod(domain)
    firsts = -(-np.arange(ranks + 1) * points // ranks)
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
    """What ranks hold, as the runtime says it (a tuple of boxes for each rank), in as many arrays of boxes as
    the rank has that holds most."""
    layers = max(map(len, have), default=0)
    found = [np.zeros((len(have), dims, 2), np.int64) for _ in range(layers)]
    for rank, boxes in enumerate(have):
        for layer, box in zip(found, boxes, strict=False):
            layer[rank] = np.array([(r.start, r.stop) for r in box], np.int64).reshape(dims, 2)
            if any(len(r) == 0 for r in box):
                layer[rank] = 0
    return found


def volumes(boxes: Boxes) -> NDArray[np.float64]:
    """The elements of boxes."""
    lengths = np.maximum(boxes[..., 1] - boxes[..., 0], 0)
    found: NDArray[np.float64] = lengths.prod(-1, dtype=np.float64) * (boxes[..., 1] > 0).all(-1)
    return found


def common(one: Boxes, other: Boxes) -> NDArray[np.float64]:
    """The elements that boxes share."""
    low = np.maximum(one[..., 0], other[..., 0])
    high = np.minimum(one[..., 1], other[..., 1])
    found: NDArray[np.float64] = np.maximum(high - low, 0).prod(-1, dtype=np.float64)
    return found


def lacked(wanted: Boxes, here: Boxes) -> NDArray[np.float64]:
    """By alternatives of what is wanted and of what is there, the elements that each rank lacks: from arrays
    of (alternatives, ranks, dimensions, 2) to one of (wanted, there, ranks)."""
    return volumes(wanted)[:, None] - common(wanted[:, None], here[None])


def crossed(wanted: Boxes, here: Boxes) -> NDArray[np.float64]:
    """By alternatives of what is wanted and of what is there, from how many others the rank receives that
    receives from most, where tiles form a grid: those whose tiles its box crosses, copies counted once."""
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
    """Boxes of which the outermost ones reach the ends of the array, as where tasks go through all of it but
    its border."""
    some = volumes(boxes) > 0
    if not some.any():
        return boxes
    found = boxes.copy()
    low, high = boxes[some][..., 0].min(0), boxes[some][..., 1].max(0)
    found[..., 0][some[:, None] & (boxes[..., 0] == low)] = 0
    found[..., 1] = np.where(some[:, None] & (boxes[..., 1] == high), shape, found[..., 1])
    return found


def hull(boxes: Boxes) -> Boxes:
    """The least box around those of all ranks, for each rank."""
    some = volumes(boxes) > 0
    if not some.any():
        return np.zeros_like(boxes)
    found = np.stack([boxes[some][..., 0].min(0), boxes[some][..., 1].max(0)], -1)
    return np.broadcast_to(found, boxes.shape)


def around(several: Sequence[Boxes]) -> Boxes:
    """For each rank the least box around all of its own in these arrays."""
    found = np.stack(several)
    empty = volumes(found) == 0
    found[empty] = np.array([np.iinfo(np.int64).max, 0])
    made = np.stack([found[..., 0].min(0), found[..., 1].max(0)], -1)
    made[empty.all(0)] = 0
    return made
