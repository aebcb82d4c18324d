"""Patterns: from an operation that the program calls again and again to one object that stands for it.

A loop records the same operations each turn, on other stores and with other numbers.  What stays (element
types, views, partitions, launch) is a *pattern*, made at the first turn and found again by the identity of
the views; what changes is a `Recorded`: a few words an operation.  An index task is made of the two when
somebody wants to look at it, which a replay does not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from diffuse.ir import (
    Access,
    AccessMap,
    IndexTask,
    Partition,
    Point,
    Privilege,
    Scalar,
    Split,
    Store,
    covers,
)

REMEMBERED = 1 << 16
"""Patterns kept; past this many the table is emptied."""


class Use(NamedTuple):
    """An access but for its store's id."""

    frame: Point
    """Shape of the store's frame that the map gives coordinates of."""
    dtype: str
    map: AccessMap
    partition: Partition
    privilege: Privilege
    operator: str | None


class Pattern:
    """An index task but for its stores, its numbers and its line.  Compared by identity."""

    __slots__ = ("operation", "signature", "shape", "domain", "splits", "uses", "single", "by_rows", "adapts",
                 "variants", "fills")

    def __init__(self, operation: str, signature: tuple[str, ...], shape: Point, domain: Point,
                 splits: tuple[Split, ...], uses: tuple[Use, ...], single: bool, adapts: bool) -> None:
        self.operation = operation
        self.signature = signature
        self.shape = shape
        self.domain = domain
        self.splits = splits
        self.uses = uses
        """Reads in input order, then outputs."""
        self.single = single
        """Is it left to one point?"""
        self.by_rows = not single and splits[0].axis == 0
        """Do several points share it by rows?"""
        self.adapts = adapts
        """May it be cut like a larger operation before it?"""
        self.fills = (operation == "copy" and len(uses) == 1
                      and covers(Access(Store(-1, uses[0].frame, uses[0].dtype), *uses[0][2:])))
        """Does it write one value to every element of a store?"""
        self.variants: dict[Pattern, Pattern] = {}
        """What it became beside others, by those."""


class Recorded(NamedTuple):
    """One operation of the program: its pattern and what is its own."""

    pattern: Pattern
    stores: tuple[int, ...]
    """Ids, in the order of the pattern's uses."""
    scalars: tuple[Scalar, ...]
    where: Any

    def task(self) -> IndexTask:
        """The index task itself."""
        pattern, stores, scalars, where = self
        accesses = tuple([
            Access(Store(store, frame, dtype), map, partition, privilege, operator)
            for store, (frame, dtype, map, partition, privilege, operator)
            in zip(stores, pattern.uses, strict=True)
        ])
        return IndexTask(pattern.operation, pattern.signature, pattern.shape, pattern.domain, pattern.splits,
                         accesses, scalars, where)
