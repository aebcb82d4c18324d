"""Aliasing: the relation between the elements of two accesses to one store, from their descriptions alone."""

from __future__ import annotations

from enum import Enum
from math import gcd

from diffuse.bounded import Recurring
from diffuse.ir.partition import Partition, Replicated, disjoint
from diffuse.ir.task import Access, Point, volume


class Relation(Enum):
    """The relation between the elements of two accesses to one store, over all points, found in constant
    time."""

    SAME = "same"
    """Equal maps and partitions: over one iteration space, equal iterations access exactly the same elements;
    over different spaces, common elements are still accessed by one point only."""
    APART = "apart"
    """No element is accessed by both."""
    ALIGNED = "aligned"
    """Different iterations may access common elements, but only within one point."""
    ALIAS = "alias"
    """Different points may access common elements: communication."""

    __hash__ = object.__hash__


_known: dict[tuple[int, int, int, int, Point], tuple[Relation, Access, Access]] = Recurring()
"""Relations of accesses through one frame, by the identity of their maps and partitions, which are interned;
the accesses keep these alive."""


def relation(a: Access, b: Access, domain: Point) -> Relation:
    """Compare two accesses to one storage (equal store ids) on a launch domain, privileges aside."""
    if a.store != b.store:
        return Relation.ALIGNED if volume(domain) <= 1 else Relation.ALIAS
    name = (id(a.map), id(a.partition), id(b.map), id(b.partition), domain)
    found = _known.get(name)
    if found is None:
        found = _known[name] = (_relation(a, b, domain), a, b)
    return found[0]


def _relation(a: Access, b: Access, domain: Point) -> Relation:
    if _apart(a.partition, b.partition):
        return Relation.APART
    if a.map == b.map and a.partition == b.partition:
        return Relation.SAME if disjoint(a.partition, domain) else Relation.ALIAS
    if _aligned(a.partition, b.partition, domain) or volume(domain) <= 1:
        return Relation.ALIGNED
    return Relation.ALIAS


def _apart(a: Partition, b: Partition) -> bool:
    """Are the bounding boxes disjoint in some dimension, or the strided elements of one pitch disjoint?"""
    if isinstance(a, Replicated) or isinstance(b, Replicated):
        return False
    # a program that traverses rows compares each with all others: the most frequent answer comes first
    for (alow, ahigh), (blow, bhigh) in zip(a.bounds, b.bounds, strict=True):
        if ahigh <= blow or bhigh <= alow:
            return True
    combs = zip(a.bounds, b.bounds, a.stride, b.stride, strict=True)
    return any((low - other) % gcd(s, t) for (low, _), (other, _), s, t in combs)


def _aligned(a: Partition, b: Partition, domain: Point) -> bool:
    """Is there, for every launch dimension, a store dimension that both accesses cut at the same places?"""
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
