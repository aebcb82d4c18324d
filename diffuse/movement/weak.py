"""Weak types: the number of parts of each dimension, whichever device holds which part.

For a fixed shape and number of devices the weak type of the paper (definition 5.2) is its tile shape, or what
says the same, the number of parts of each dimension.  A weak step takes a factor from the parts of one
dimension, gives it to another one, or both: allgather, dynslice, alltoall.  Permutations are no steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from diffuse.ir import Point
from diffuse.movement.mesh import primes


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
class Space:
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


def cost(steps: Sequence[WeakStep], parts: Point, space: Space) -> int:
    """Return the cost of figure 11 of the paper, in elements."""
    total = 0
    for step, after in zip(steps, walk(steps, parts)[1:], strict=True):
        if step.source is not None:
            total += space.localsize(after)
    return total


def received(steps: Sequence[WeakStep], parts: Point, space: Space) -> int:
    """Return how many elements each device receives from others."""
    total = 0
    for step, after in zip(steps, walk(steps, parts)[1:], strict=True):
        if step.source is not None:
            size = space.localsize(after)
            total += size - size // step.factor
    return total


def height(steps: Sequence[WeakStep], parts: Point, space: Space) -> int:
    """Return the most elements that a device holds at once (definition 4.4)."""
    return max(map(space.localsize, walk(steps, parts)))


_NORMAL = re.compile("d*a*g*")


def is_normal(steps: Iterable[WeakStep]) -> bool:
    """Are the steps in normal form, dynslice* alltoall* allgather* (definition 4.5)?"""
    return bool(_NORMAL.fullmatch("".join(step.kind[0] if step.kind != "allgather" else "g"
                                          for step in steps)))


def normal(steps: Iterable[WeakStep]) -> list[WeakStep]:
    """Rewrite a sequence into normal form with the same ends, by the lemmas 4.6 and 4.7 (theorem 4.8).

    Steps are split into prime ones, as the lemmas hold for these, and neighbours of one kind are merged
    again.
    """
    found = [WeakStep(step.source, step.target, p) for step in steps for p in primes(step.factor)]
    at = 0
    while at + 1 < len(found):
        swapped = _exchanged(found[at], found[at + 1])
        if swapped is None:
            at += 1
        else:
            found[at:at + 2] = swapped
            at = max(at - 1, 0)
    return merged(found)


_RANK = {"dynslice": 0, "alltoall": 1, "allgather": 2}


def _exchanged(first: WeakStep, second: WeakStep) -> list[WeakStep] | None:
    """Exchange two prime steps, or replace them by one step or none; None if they are in normal order.

    They commute unless one gives a dimension the very factor that the other takes from it.
    """
    if _RANK[first.kind] <= _RANK[second.kind]:
        return None
    if first.factor == second.factor and first.source == second.target:
        source, target = second.source, first.target
        return [] if source == target else [WeakStep(source, target, first.factor)]
    if first.factor == second.factor and first.target is None and second.source is None:
        return [WeakStep(first.source, second.target, first.factor)]
    return [second, first]


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
