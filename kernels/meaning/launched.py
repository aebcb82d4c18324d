"""The values of one launch, decoded from a kernel's argument block, and arrays over the memory they refer
to."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from diffuse.ir import Split
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.kernels.meaning.reduce import Array, PointFold, Ranges
from diffuse.memory import Span

Values = Sequence[int | float]


def memory(address: int, dtype: str, shape: Sequence[int], strides: Sequence[int] | None = None) -> Array:
    """An array over memory at an address."""
    return np.asarray(Span(address, tuple(shape), np.dtype(dtype).str,
                           strides=None if strides is None else tuple(strides)))


def cut(ranges: Sequence[tuple[int, int]], origin: Sequence[int]) -> tuple[Any, ...]:
    """The index of these ranges in an array that begins at `origin`; it yields a view even without
    dimensions."""
    return (*(slice(a - low, b - low) for (a, b), low in zip(ranges, origin, strict=True)), ...)


class LaunchValues:
    """The values of one launch, decoded from the order of the kernel's argument block."""

    def __init__(self, body: Body, values: Values) -> None:
        word = iter(values)
        self.body = body
        self.domain = [int(next(word)) for _ in range(body.launch_rank)]
        self.spaces = [([int(next(word)) for _ in s.axes], [int(next(word)) for _ in range(s.rank)],
                        [int(next(word)) if s.begins else None for _ in s.axes])
                       for s in body.spaces]
        self.arguments = [(int(next(word)), [int(next(word)) for _ in range(body.spaces[a.space].rank)])
                          for a in body.arguments]
        self.scalars = [
            np.array(complex(next(word), next(word)) if d.startswith("complex") else next(word), d)
            for d in body.scalars]
        self.partials = [int(a) for a in word]

    @property
    def points(self) -> int:
        return prod(self.domain)

    def coordinates(self, p: int) -> list[int]:
        """The coordinates of point `p`, which counts the points of the launch domain in row-major order."""
        found = []
        for n in reversed(self.domain):
            p, coordinate = divmod(p, n)
            found.append(coordinate)
        return found[::-1]

    def runs(self, space: int, p: int) -> bool:
        """Does point `p` iterate over a space?  Along a launch dimension that cuts nothing, only the first
        point does."""
        return not any(c and axis < 0 for c, axis in
                       zip(self.coordinates(p), self.body.spaces[space].axes, strict=True))

    def box(self, space: int, p: int) -> Ranges:
        """The iterations of point `p`."""
        tiles, extents, begins = self.spaces[space]
        box = [(0, n) for n in extents]
        splits = map(Split, self.body.spaces[space].axes, tiles, begins)
        for c, n, split in zip(self.coordinates(p), self.domain, splits, strict=True):
            if split.axis >= 0:
                box[split.axis] = split.range(c, n, extents[split.axis])
        return box

    def view(self, argument: int, dims: Sequence[int]) -> Array:
        """All elements that the argument accesses, over these iteration dimensions."""
        address, strides = self.arguments[argument]
        extents = self.spaces[self.body.arguments[argument].space][1]
        return memory(address, self.body.arguments[argument].dtype, [extents[d] for d in dims],
                      [strides[d] for d in dims])

    def leaf_run(self, number: int) -> int:
        """The number of leaves of a reduction that each of several points writes, if they are contiguous;
        else 0."""
        if self.points == 1 or number not in self.body.parts:
            return 0
        reduction = abi.reductions(self.body)[number]
        (tile,), extents, _ = self.spaces[self.body.loops[reduction.loop].space]
        dims = abi.kept(self.body, reduction)
        axis = min(d for d in range(len(extents)) if d not in dims)
        return abi.leaves([tile if d == axis else n for d, n in enumerate(extents)], dims)

    def fold(self, loop: int, op: int, p: int) -> PointFold:
        """The reduction of op `op` in loop `loop`, over the box of point `p`."""
        space, step = self.body.loops[loop].space, self.body.loops[loop].ops[op]
        operator, argument = step.attribute
        reduced = [d for d, c in enumerate(self.body.arguments[argument].classes) if c == "0"]
        return PointFold(operator, step.dtype, reduced, self.spaces[space][1], self.box(space, p))
