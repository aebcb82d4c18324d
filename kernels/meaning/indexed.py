"""The meaning of the ops with data-dependent elements: `pick`, `nth` and `scatter`, with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

import numpy as np

from diffuse.kernels.body.expr import Loop
from diffuse.kernels.meaning import functions
from diffuse.kernels.meaning.launched import LaunchValues, cut, memory
from diffuse.kernels.meaning.reduce import Array, Ranges


class Picked:
    """Reads elements at given distances from those of an argument; `ranges` are the iterations of the current
    block."""

    def __init__(self, address: int, dtype: str, strides: Sequence[int], box: Ranges) -> None:
        self.address, self.dtype = address, dtype
        size = np.dtype(dtype).itemsize
        self.unit = gcd(size, *strides)
        """Bytes of which all strides are multiples."""
        self.size = size // self.unit
        self.strides = [stride // self.unit for stride in strides]
        self.ranges = box

    def __call__(self, distance: Array, out: Array) -> None:
        places: Array = distance if self.size == 1 else distance * self.size
        for d, ((low, high), stride) in enumerate(zip(self.ranges, self.strides, strict=True)):
            if stride:
                steps = np.arange(low, high).reshape([-1 if k == d else 1 for k in range(len(self.ranges))])
                places = places + stride * steps
        first, last = int(places.min()), int(places.max())
        raw = "uint8" if self.dtype == "bool" else self.dtype
        found = memory(self.address + first * self.unit, raw, [last - first + 1], [self.unit])
        if first:
            places = places - first
        if self.dtype == "bool":
            np.not_equal(found[places], 0, out=out)
        elif self.size == 1 and places.shape == out.shape:
            found.take(places, out=out, mode="clip")  # none is clipped, but to raise errors takes a buffer
        else:
            np.copyto(out, found[places])


class Counted:
    """Positions of a mask's true elements; `ranges` are the iterations of the current block."""

    def __init__(self, address: int, box: Ranges) -> None:
        self.address = address
        self.ranges = box
        self.found: Array | None = None

    def __call__(self, length: Array, blocks: Array, out: Array) -> None:
        if self.found is None:
            # bytes other than 0 and 1 also mean true; the comparison makes booleans of them, which NumPy
            # searches ten times as fast as bytes
            self.found = np.flatnonzero(memory(self.address, "uint8", [int(length)]) != 0)
        out[...] = self.found[slice(*self.ranges[0])]


def scattered(launch: LaunchValues, loop: Loop, p: int) -> None:
    """Run the op `scatter` at one point: NumPy, too, goes through the indices in order."""
    operator, target, index, values, axis, letter = loop.ops[-1].attribute
    count, pitch = (int(launch.scalars[loop.ops[a].attribute]) for a in loop.ops[-1].args[:2])
    box, dtype = launch.box(loop.space, p), np.dtype(launch.body.arguments[values].dtype)
    others, extents = [d for d in range(len(box)) if d != axis], launch.spaces[loop.space][1]
    places = memory(launch.arguments[index][0], "int64", [count])
    chosen = np.flatnonzero((places >= box[axis][0]) & (places < box[axis][1]))
    address, strides = launch.arguments[values]
    found = memory(address, dtype.name, [count, *[extents[d] for d in others]],
                   [pitch * dtype.itemsize, *[strides[d] for d in others]])
    inner = (slice(None), *cut([box[d] for d in others], [0] * len(others)))
    mine = np.moveaxis(launch.view(target, range(len(box))), axis, 0)[inner]
    taken = found[inner][chosen].astype(mine.dtype)
    if operator:
        folding: Any = functions.function(operator)
        if letter == "a" and mine.ndim == 1:  # which NumPy processes element by element where there are rows
            mine, taken = mine[:, None], taken[:, None]
        folding.at(mine, places[chosen], taken)
    else:
        mine[places[chosen]] = taken
