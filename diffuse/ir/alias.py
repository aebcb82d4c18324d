"""Aliasing: how the elements of two accesses to one store meet, from their descriptions alone."""

from __future__ import annotations

from enum import Enum
from math import gcd

from diffuse.ir.partition import Partition, Replicated, disjoint
from diffuse.ir.task import Access, Point, volume


class Relation(Enum):
    """How the elements of two accesses to one store meet, over all points.  Found in constant time."""

    SAME = "same"
    """Equal maps and partitions: over one iteration space, iteration i of one touches exactly what iteration
    i of the other does; over different ones, elements still meet within one point only."""
    APART = "apart"
    """No element is touched by both."""
    ALIGNED = "aligned"
    """Different elements may meet, but only within one point."""
    ALIAS = "alias"
    """Elements may meet across points: communication."""

    __hash__ = object.__hash__


def relation(a: Access, b: Access, domain: Point) -> Relation:
    """Compare two accesses to one storage (equal store ids) on a launch domain, privileges aside."""
    if a.store == b.store:
        if _apart(a.partition, b.partition):
            return Relation.APART
        if a.map == b.map and a.partition == b.partition:
            return Relation.SAME if disjoint(a.partition, domain) else Relation.ALIAS
        if _aligned(a.partition, b.partition, domain):
            return Relation.ALIGNED
    return Relation.ALIGNED if volume(domain) <= 1 else Relation.ALIAS


def _apart(a: Partition, b: Partition) -> bool:
    """Bounding boxes that do not meet in some dimension, or combs of one pitch that never coincide."""
    if isinstance(a, Replicated) or isinstance(b, Replicated):
        return False
    # a program that walks over rows compares each with all others: the commonest answer comes first
    for (alow, ahigh), (blow, bhigh) in zip(a.bounds, b.bounds, strict=True):
        if ahigh <= blow or bhigh <= alow:
            return True
    combs = zip(a.bounds, b.bounds, a.stride, b.stride, strict=True)
    return any((low - other) % gcd(s, t) for (low, _), (other, _), s, t in combs)


def _aligned(a: Partition, b: Partition, domain: Point) -> bool:
    """Is there, for every launch dimension, a store dimension that both cut at the same places?"""
    if isinstance(a, Replicated) or isinstance(b, Replicated):
        return False
    cut = {
        ca.dim
        for ca, cb, ta, tb, oa, ob, ea, eb in zip(
            a.projection.coordinates, b.projection.coordinates, a.tile, b.tile, a.offset, b.offset,
            a.extent, b.extent, strict=True)
        if ca.weight and ca == cb and ta == tb and oa == ob and max(ea, eb) <= abs(ca.weight) * ta
    }
    return all(n <= 1 or d in cut for d, n in enumerate(domain))
