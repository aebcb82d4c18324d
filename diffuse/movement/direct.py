"""The direct exchange: every rank receives the boxes that it lacks, each from a rank that holds it.

It moves the fewest bytes possible between any two layouts, however uneven, overlapping or strided their tiles
are, in one step, but needs a message for every pair of ranks that have something to exchange.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise, product
from math import prod

from diffuse.movement.boxes import Box, Holding, Layout, intersection, remove, size, volume
from diffuse.movement.route import Exchange


def lacking(have: Layout, want: Layout) -> tuple[int, ...]:
    """Return how many elements each rank wants and does not hold: the least that it must receive."""
    return tuple(size(tuple(remove(_distinct(wanted), held)))
                 for held, wanted in zip(have, want, strict=True))


def exchange(have: Layout, want: Layout) -> Exchange:
    """Return the exchange of boxes from one layout to another.

    Of several ranks that hold a box, the one that sends the least so far sends it, and among equals the next
    after the receiver: all ranks derive the same.  Raises ValueError if no rank holds a wanted element.
    """
    holders = _Holders(have)
    sent = [0] * len(have)
    result, arrivals = [], []
    for rank, (held, wanted) in enumerate(zip(have, want, strict=True)):
        boxes = _distinct(wanted)
        pieces = [(_sender(ranks, rank, sent, volume(piece)), piece)
                  for piece, ranks in holders.missing(rank, held, boxes)]
        result.append(tuple(boxes))
        arrivals.append(tuple(pieces))
    return Exchange(have, tuple(result), tuple(arrivals))


def volumes(have: Layout, want: Layout) -> tuple[int, int]:
    """Return the elements that all ranks receive together in `exchange`, and in how many boxes.

    Ranks that hold and want the same are counted at once, and no senders are chosen.  Raises ValueError if no
    rank holds a wanted element.
    """
    holders = _Holders(have)
    known: dict[tuple[Holding, Holding], tuple[int, int]] = {}
    elements = boxes = 0
    for rank, pair in enumerate(zip(have, want, strict=True)):
        found = known.get(pair)
        if found is None:
            pieces = [piece for piece, _ in holders.missing(rank, pair[0], _distinct(pair[1]))]
            found = known[pair] = size(tuple(pieces)), len(pieces)
        elements, boxes = elements + found[0], boxes + found[1]
    return elements, boxes


def busiest(have: Layout, want: Layout) -> tuple[int, int]:
    """Return the most elements, and the most boxes, that one rank sends or receives in `exchange`."""
    elements: list[list[int]] = [[0] * len(have), [0] * len(have)]
    boxes: list[list[int]] = [[0] * len(have), [0] * len(have)]
    for receiver, arriving in enumerate(exchange(have, want).arrivals):
        for sender, box in arriving:
            for side, rank in enumerate((sender, receiver)):
                elements[side][rank] += volume(box)
                boxes[side][rank] += 1
    return max(max(side) for side in elements), max(max(side) for side in boxes)


def _sender(ranks: list[int], receiver: int, sent: list[int], elements: int) -> int:
    """Choose a sender for so many elements from several ranks, and count them."""
    found = min(ranks, key=lambda rank: (sent[rank], (rank - receiver) % len(sent)))
    sent[found] += elements
    return found


def _distinct(holding: Holding) -> list[Box]:
    """Return the elements of a holding as disjoint boxes."""
    found: list[Box] = []
    for box in holding:
        found += remove([box], found)
    return found


class _Holders:
    """An index of the boxes that ranks hold, which finds those that overlap a box dimension by dimension."""

    def __init__(self, have: Layout) -> None:
        self.ranks: dict[Box, list[int]] = {}
        for rank, holding in enumerate(have):
            for box in holding:
                if volume(box):
                    self.ranks.setdefault(box, []).append(rank)
        dimensions = zip(*self.ranks, strict=True)
        self.ranges = [sorted(set(ranges), key=lambda r: (r.start, r.stop)) for ranges in dimensions]
        self.starts = [[r.start for r in ranges] for ranges in self.ranges]
        self.longest = [max(r.stop - r.start for r in ranges) for ranges in self.ranges]
        self.disjoint = all(a.stop <= b.start for ranges in self.ranges for a, b in pairwise(ranges))
        """Are all boxes cells of one grid, so that any two are disjoint?"""

    def near(self, box: Box) -> Iterator[tuple[Box, list[int]]]:
        """Return the boxes that may overlap this one, with the ranks that hold each."""
        if not self.ranges:
            return iter(self.ranks.items())
        known = zip(box, self.ranges, self.starts, self.longest, strict=True)
        found = [ranges[bisect_left(starts, r.start - longest + 1):bisect_left(starts, r.stop)]
                 for r, ranges, starts, longest in known]
        if prod(map(len, found)) > len(self.ranks):
            return iter(self.ranks.items())
        return ((each, self.ranks[each]) for each in product(*found) if each in self.ranks)

    def missing(self, rank: int, held: Holding, wanted: list[Box]) -> Iterator[tuple[Box, list[int]]]:
        """Yield the pieces of boxes that a rank wants and does not hold, with the ranks that hold each."""
        for box in wanted if self.disjoint else remove(wanted, held):
            rest, count = [box], volume(box)
            for each, ranks in self.near(box):
                pieces = [piece for part in rest if (piece := intersection(part, each)) is not None]
                count -= sum(map(volume, pieces))
                if rank not in ranks:
                    yield from ((piece, ranks) for piece in pieces)
                if not count:
                    break
                if not self.disjoint:
                    rest = remove(rest, [each])
            if count:
                raise ValueError(f"no rank holds all of {box}, which rank {rank} wants")
