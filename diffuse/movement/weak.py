"""Weak types: the number of parts of each dimension, whichever device holds which part.

For a fixed shape and number of devices the weak type of the paper (definition 5.2) is its tile shape, or what
says the same, the number of parts of each dimension.  A weak step takes a factor from the parts of one
dimension, gives it to another one, or both: allgather, dynslice, alltoall.  Permutations are no steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from diffuse.ir import Point


@lru_cache(4096)
def primes(number: int) -> tuple[int, ...]:
    """Return the prime factors of a positive number in ascending order, with repetition."""
    found, factor = [], 2
    while factor * factor <= number:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return tuple(found + [number] if number > 1 else found)


@dataclass(frozen=True, slots=True)
class WeakStep:
    """A collective on weak types; `source` loses the factor and `target` gains it; None is no dimension."""

    source: int | None
    target: int | None
    factor: int

    @property
    def kind(self) -> str:
        """The collective's name."""
        if self.source is None:
            return "dynslice"
        return "allgather" if self.target is None else "alltoall"

    def __call__(self, parts: Point) -> Point:
        """Return the parts of each dimension after the step."""
        found = list(parts)
        if self.source is not None:
            found[self.source] //= self.factor
        if self.target is not None:
            found[self.target] *= self.factor
        return tuple(found)

    def __str__(self) -> str:
        places = ", ".join(str(d) for d in (self.source, self.target) if d is not None)
        return f"{self.kind}({places}) by {self.factor}"


@dataclass(frozen=True, slots=True)
class WeakSpace:
    """All weak types of one array on so many devices."""

    shape: Point
    devices: int

    def localsize(self, parts: Point) -> int:
        """Return the elements of a tile."""
        return prod(self.shape) // prod(parts)

    def has(self, parts: Point) -> bool:
        """Can the devices hold the array in these parts, all tiles equal and equally often?"""
        return (all(n > 0 and size % n == 0 for size, n in zip(self.shape, parts, strict=True))
                and self.devices % prod(parts) == 0)

    def allows(self, step: WeakStep, parts: Point) -> bool:
        """Is the step a weak collective from this type?"""
        if step.source == step.target or (step.source is not None and parts[step.source] % step.factor):
            return False
        return self.has(step(parts))


def walk(steps: Iterable[WeakStep], parts: Point) -> list[Point]:
    """Return the weak types before, between and after the steps."""
    found = [parts]
    for step in steps:
        found.append(step(found[-1]))
    return found


def cost(steps: Sequence[WeakStep], parts: Point, space: WeakSpace) -> int:
    """Return the cost of figure 11 of the paper, in elements."""
    total = 0
    for step, after in zip(steps, walk(steps, parts)[1:], strict=True):
        if step.source is not None:
            total += space.localsize(after)
    return total


def received(steps: Sequence[WeakStep], parts: Point, space: WeakSpace) -> int:
    """Return how many elements each device receives from others."""
    total = 0
    for step, after in zip(steps, walk(steps, parts)[1:], strict=True):
        if step.source is not None:
            size = space.localsize(after)
            total += size - size // step.factor
    return total


def height(steps: Sequence[WeakStep], parts: Point, space: WeakSpace) -> int:
    """Return the most elements that a device holds at once (definition 4.4)."""
    return max(map(space.localsize, walk(steps, parts)))


def merged(steps: Iterable[WeakStep]) -> list[WeakStep]:
    """Merge steps of one kind that have the same dimensions.

    Slices are merged across slices, and gathers across gathers, for these commute; exchanges with neighbours.
    """
    found: list[WeakStep] = []
    for step in steps:
        place = _mergeable(found, step)
        if place is None:
            found.append(step)
        else:
            found[place] = WeakStep(step.source, step.target, found[place].factor * step.factor)
    return found


def _mergeable(steps: Sequence[WeakStep], step: WeakStep) -> int | None:
    """The position of an earlier step with which this one can be merged."""
    for place in range(len(steps) - 1, -1, -1):
        earlier = steps[place]
        if earlier.kind != step.kind:
            return None
        if (earlier.source, earlier.target) == (step.source, step.target):
            return place
        if step.kind == "alltoall":
            return None
    return None
