"""The direct exchange: every rank receives the boxes that it lacks, each from a rank that holds it.

It moves the fewest bytes possible between any two layouts, however uneven, overlapping or strided their tiles
are, in one step, but needs a message for every pair of ranks that have something to exchange.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from diffuse.movement.boxes import Box, Holding, Layout, intersection, remove, size, volume
from diffuse.movement.route import Exchange, Pieces


def lacking(have: Layout, want: Layout) -> tuple[int, ...]:
    """Return how many elements each rank wants and does not hold: the least that it must receive."""
    return tuple(size(tuple(remove(_distinct(wanted), held))) for held, wanted in zip(have, want, strict=True))


def exchange(have: Layout, want: Layout) -> Exchange:
    """Return the exchange of boxes from one layout to another.

    Of several ranks that hold a box the one sends it that sends least so far, and among equals the next after
    the receiver: all ranks find the same.  Raises ValueError if nobody holds what is wanted.
    """
    holders = _Holders(have)
    sent = [0] * len(have)
    arrivals = []
    for rank, (held, wanted) in enumerate(zip(have, want, strict=True)):
        arrivals.append(_arrivals(rank, remove(_distinct(wanted), held), holders, sent))
    return Exchange(have, tuple(tuple(_distinct(wanted)) for wanted in want), tuple(arrivals))


def _distinct(holding: Holding) -> list[Box]:
    """The elements of a holding as boxes that have none in common."""
    found: list[Box] = []
    for box in holding:
        found += remove([box], found)
    return found


def _arrivals(rank: int, missing: list[Box], holders: _Holders, sent: list[int]) -> Pieces:
    """The pieces that a rank receives; adds to what their senders send."""
    found = []
    for box in missing:
        near = sorted(holders.near(box), key=lambda entry: (sent[entry[0]], (entry[0] - rank) % len(sent)))
        rest = [box]
        for sender, held in near:
            if not rest:
                break
            pieces = [piece for part in rest if (piece := intersection(part, held)) is not None]
            if pieces:
                found += [(sender, piece) for piece in pieces]
                sent[sender] += sum(map(volume, pieces))
                rest = remove(rest, [held])
        if rest:
            raise ValueError(f"no rank holds the elements {rest[0]} that rank {rank} wants")
    return tuple(found)


class _Holders:
    """All boxes that ranks hold, sorted along the dimension in which they begin at the most places."""

    def __init__(self, have: Layout) -> None:
        boxes = [(rank, box) for rank, holding in enumerate(have) for box in holding]
        rank = len(boxes[0][1]) if boxes else 0
        self._dimension = max(range(rank), default=None,
                              key=lambda d: len({box[d].start for _, box in boxes}))
        d = self._dimension
        self._boxes = boxes if d is None else sorted(boxes, key=lambda entry: entry[1][d].start)
        self._starts = [] if d is None else [box[d].start for _, box in self._boxes]
        self._longest = 0 if d is None else max(box[d].stop - box[d].start for _, box in boxes)

    def near(self, box: Box) -> Iterator[tuple[int, Box]]:
        """The boxes that may have elements in common with this one, with their ranks."""
        d = self._dimension
        if d is None:
            return iter(self._boxes)
        low = bisect_left(self._starts, box[d].start - self._longest + 1)
        return iter(self._boxes[low:bisect_left(self._starts, box[d].stop)])
