"""References for the search of routes: the least cost by exhaustive search, and the normal form of any
sequence.

Dijkstra's algorithm over all weak types and steps that keep to a memory bound, and over all well-formed types
and typed collectives with permutations, which is the paper's optimal-cost problem itself.  For small meshes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from math import prod
from typing import TypeVar

from diffuse.ir import Point
from diffuse.movement.definition import collectives, meaning
from diffuse.movement.definition.mesh import Dimension, DistributedType, Mesh
from diffuse.movement.weak import WeakSpace, WeakStep, merged, primes

Node = TypeVar("Node", bound=Hashable)


def shortest(start: Node, goal: Node, edges: Callable[[Node], Iterable[tuple[Node, int]]]) -> int | None:
    """Return the least sum of weights from start to goal; None if no edges lead there."""
    order, best = count(), {start: 0}
    heap = [(0, next(order), start)]
    while heap:
        cost, _, node = heappop(heap)
        if node == goal:
            return cost
        if cost > best[node]:
            continue
        for following, weight in edges(node):
            if cost + weight < best.get(following, cost + weight + 1):
                best[following] = cost + weight
                heappush(heap, (cost + weight, next(order), following))
    return None


def weak(space: WeakSpace, have: Point, want: Point, bound: int) -> int | None:
    """Return the least cost of a sequence of weak steps during which no tile exceeds `bound` elements."""
    def edges(parts: Point) -> Iterator[tuple[Point, int]]:
        dimensions = [None, *range(len(parts))]
        for source in dimensions:
            for target in dimensions:
                for factor in range(2, max(space.devices, *parts) + 1):
                    step = WeakStep(source, target, factor)
                    if space.allows(step, parts) and space.localsize(step(parts)) <= bound:
                        yield step(parts), 0 if source is None else space.localsize(step(parts))

    return shortest(have, want, edges)


def typed(have: DistributedType, want: DistributedType, mesh: Mesh, bound: int) -> int | None:
    """Return the least cost of a typed sequence of collectives, permutations included, during which no device
    holds more than `bound` elements."""
    every = list(types(want.shape, mesh))

    def edges(before: DistributedType) -> Iterator[tuple[DistributedType, int]]:
        for collective in meaning.steps(before, mesh):
            after = collectives.typed(collective, before, mesh)
            if after.localsize <= bound:
                yield after, collectives.cost([collective], [before, after])
        for other in every:
            if other.tile == before.tile and other != before:
                yield other, before.localsize

    return shortest(have, want, edges)


def types(shape: Point, mesh: Mesh) -> Iterator[DistributedType]:
    """Enumerate the well-formed types of an array of this shape."""
    if not shape:
        yield DistributedType(())
        return
    for rest in types(shape[1:], mesh):
        free = [axis for axis, _ in mesh.axes if axis not in rest.axes]
        for axes in [(), *meaning.arrangements(free)]:
            parts = prod(mesh.sizes[axis] for axis in axes)
            if shape[0] % parts == 0:
                yield DistributedType((Dimension(shape[0] // parts, axes, shape[0]), *rest.dimensions))


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
