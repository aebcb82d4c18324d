"""An index of the bounding boxes of accesses to one storage, which finds those that may overlap.

A program that traverses rows, columns or windows of an array has many views of it, of which few overlap.  The
index finds these few without comparing each view with all others: for every dimension of a frame, the boxes
are sorted by their lower bounds, in one list for each bit length of their extents.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from diffuse.ir.partition import Replicated
from diffuse.ir.task import Access, Store

FEW = 8
"""The most accesses that are compared pairwise, without an index."""


class _Frame:
    """The boxes of the accesses through one frame."""

    __slots__ = ("numbers", "whole", "dimensions")

    def __init__(self, rank: int) -> None:
        self.numbers: list[int] = []
        self.whole: list[int] = []
        """The numbers of the boxes that are the whole frame."""
        self.dimensions: list[dict[int, list[tuple[int, int]]]] = [{} for _ in range(rank)]
        """For each dimension and bit length of an extent, the sorted lower bounds with the numbers of their
        boxes."""

    def add(self, number: int, access: Access) -> None:
        self.numbers.append(number)
        if isinstance(access.partition, Replicated):
            self.whole.append(number)
            return
        for found, (low, high) in zip(self.dimensions, access.partition.bounds, strict=True):
            insort(found.setdefault((high - low).bit_length(), []), (low, number))

    def near(self, access: Access) -> Sequence[int]:
        """The numbers of the boxes that overlap this one in the dimension where the fewest do."""
        if isinstance(access.partition, Replicated):
            return self.numbers
        fewest: list[tuple[list[tuple[int, int]], int, int]] = []
        least = -1
        for lists, (low, high) in zip(self.dimensions, access.partition.bounds, strict=True):
            runs = [(entries, bisect_left(entries, (low - (1 << bits) + 1,)), bisect_left(entries, (high,)))
                    for bits, entries in lists.items()]
            count = sum([max(end - begin, 0) for _, begin, end in runs])
            if least < 0 or count < least:
                fewest, least = runs, count
        if least < 0:  # a frame without dimensions
            return self.numbers
        return sorted([*self.whole, *[number for entries, begin, end in fewest
                                      for _, number in entries[begin:end]]])


class Spans:
    """The accesses of one storage, numbered in the order in which they were added."""

    __slots__ = ("accesses", "_frames")

    def __init__(self) -> None:
        self.accesses: list[Access] = []
        self._frames: dict[Store, _Frame] = {}
        """The index of each frame; empty while there are few accesses."""

    def add(self, access: Access) -> None:
        """Add an access under the next number."""
        self.accesses.append(access)
        if self._frames:
            self._index(len(self.accesses) - 1)
        elif len(self.accesses) > FEW:
            for number in range(len(self.accesses)):
                self._index(number)

    def _index(self, number: int) -> None:
        access = self.accesses[number]
        frame = self._frames.get(access.store)
        if frame is None:
            frame = self._frames[access.store] = _Frame(len(access.store.shape))
        frame.add(number, access)

    def near(self, access: Access) -> Sequence[int]:
        """The numbers of all accesses that may overlap this one, in order; these include all accesses through
        other frames."""
        frame = self._frames.get(access.store)
        if frame is None:
            return range(len(self.accesses))
        if len(self._frames) == 1:
            return frame.near(access)
        others = [number for other in self._frames.values() if other is not frame for number in other.numbers]
        return sorted([*frame.near(access), *others])
