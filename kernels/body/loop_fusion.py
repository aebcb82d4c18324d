"""Decides which loops of a kernel body become one, and in which order the fused loops run.

Two loops over one space may become one if each pair of conflicting accesses is to the same element at the
same iteration, or never to the same element, and if no third loop has to run between them.  Sets of fused
loops are the bits of numbers here, as a kernel has few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from diffuse.ir import Relation

Touched = dict[int, set[tuple[int, str]]]
"""For each slot, the views that are accessed, each with "load", "look", "store" or "reduce"."""

READS = frozenset(("load", "look"))

FEW = 4
"""The most views of a slot that are compared pairwise, without an index."""


class LoopFusion:
    """The fused loops of a sequence of loops, which are added one after another.

    A reduction's result is complete only when its loop has ended, so no access to it is at the same
    iteration. Likewise an op that looks must not read what its own loop stores.
    """

    def __init__(self, relation: Callable[[int, int, int], Relation],
                 near: Callable[[int, int], Iterable[int]]) -> None:
        self._relation, self._near = relation, near
        """As in `passes.Facts`."""
        self._before: list[int] = []
        """For each fused loop all those that have to run before it."""
        self._apart: list[int] = []
        """For each fused loop those before it with which it can never become one."""
        self._over: dict[Any, list[int]] = {}
        """The fused loops over each space that others may join."""
        self._users: dict[int, dict[str, dict[int, int]]] = {}
        """For each slot and kind of access, the fused loops that access each view in that way."""
        self._into: dict[int, int] = {}
        """For each fused loop that became part of another one, that one."""
        self._gone = 0
        """The keys of `_into`."""

    @property
    def count(self) -> int:
        """The number of fused loops."""
        return len(self._before) - len(self._into)

    def home(self, number: int) -> int:
        """The fused loop that the one of this number is, or has become part of."""
        while number in self._into:
            number = self._into[number]
        return number

    def order(self) -> list[int]:
        """The fused loops in an order in which they may run: that of their numbers, but each behind those
        that have to run before it."""
        found, done = [], self._gone
        for n, before in enumerate(self._before):
            missing = (before | 1 << n) & ~done
            found += sorted(_members(missing), key=lambda k: (self._before[k].bit_count(), k))
            done |= missing
        return found

    def add(self, space: Any, touched: Touched, alone: bool = False, fed: bool = False) -> int:
        """Add a loop over this space; returns the number of the fused loop that it joins or begins.

        It joins the last one over its space that it may join.  If it is to be `fed`, it joins one that it
        depends on, and the others that it depends on become part of that one, where they may.  Nothing fuses
        with a loop that is `alone`.
        """
        near, apart = self._needed(touched)
        passed = self._all_before(near)
        before = near | apart | passed
        allowed = (near if fed else -1) & ~(apart | passed)
        over = [] if alone else self._over.setdefault(space, [])
        home = next((n for n in reversed(over) if allowed >> n & 1), -1)
        if home < 0:
            home = len(self._before)
            self._before.append(before)
            self._apart.append(apart)
            over.append(home)
        else:
            self._apart[home] |= apart
            self._precede(home, before & ~(1 << home))
        if fed:
            for other in reversed([n for n in over if near >> n & 1 and n != home]):
                if self._mergeable(other, home):
                    self._merge(other, home)
                    over.remove(other)
        for slot, accesses in touched.items():
            users = self._users.setdefault(slot, {})
            for view, kind in accesses:
                found = users.setdefault(kind, {})
                found[view] = found.get(view, 0) | 1 << home
        return home

    def _needed(self, touched: Touched) -> tuple[int, int]:
        """Return the fused loops that a loop depends on within an iteration, and those that have to end
        before it begins."""
        near, apart = 0, 0
        for slot, accesses in touched.items():
            users = self._users.get(slot)
            if users is None:
                continue
            for earlier, found in users.items():
                for view, kind in accesses:
                    if kind in READS and earlier in READS:
                        continue
                    for other in self._near(slot, view) if len(found) > FEW else found:
                        loops = self._present(found.get(other, 0)) & ~apart
                        if not loops:
                            continue
                        relation = Relation.SAME if view == other else self._relation(slot, other, view)
                        if relation is Relation.SAME and {earlier, kind}.isdisjoint(("reduce", "look")):
                            near |= loops
                        elif relation is not Relation.APART:
                            apart |= loops | self._all_before(loops)
        return near & ~apart, apart

    def _present(self, loops: int) -> int:
        """The fused loops that these have become part of."""
        for n in _members(loops & self._gone):
            loops |= 1 << self.home(n)
        return loops & ~self._gone

    def _all_before(self, loops: int) -> int:
        """The fused loops that have to run before any of these."""
        found = 0
        for n in _members(loops):
            found |= self._before[n]
        return found

    def _precede(self, home: int, before: int) -> None:
        """Let a fused loop, and those behind it, run after all of these."""
        if before & ~self._before[home]:
            for n, others in enumerate(self._before):
                if n == home or others >> home & 1:
                    self._before[n] = others | before

    def _mergeable(self, one: int, other: int) -> bool:
        """May two fused loops over one space become one?"""
        if self._apart[one] >> other & 1 or self._apart[other] >> one & 1:
            return False
        return not (self._all_before(self._before[one] & ~(1 << other)) >> other & 1
                    or self._all_before(self._before[other] & ~(1 << one)) >> one & 1)

    def _merge(self, one: int, other: int) -> None:
        """Let a fused loop become part of another one."""
        gone, kept = 1 << one, 1 << other
        self._into[one], self._gone = other, self._gone | gone
        self._apart[other] |= self._apart[one]
        self._precede(other, self._before[one] & ~kept)
        for table in (self._before, self._apart):
            for n, others in enumerate(table):
                if others & gone:
                    table[n] = (others | kept) & ~gone
        self._before[other] &= ~kept
        behind = self._before[other]
        for n, others in enumerate(self._before):
            if others & kept:
                self._before[n] = others | behind


def _members(loops: int) -> Iterator[int]:
    """The numbers of some fused loops."""
    while loops:
        yield (loops & -loops).bit_length() - 1
        loops &= loops - 1
