"""All-gather in rounds: every rank gets the parts of an array that all others have, in few messages.

In the round with distance d, a rank sends the parts of the d ranks from itself on, which it has by then, to
the rank d before it, and so gets those of the d ranks after its own from the rank d after it: the algorithm
of Bruck et al. (1997).  After as many rounds as the number of ranks has binary digits, every rank has all
parts at their places.  These are partial results, which each rank then combines in the one order that the
reduction tree has, or the elements of a small array that all ranks are going to read.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from diffuse.ir import Point
from diffuse.movement.boxes import Layout, intersection, remove, size
from diffuse.movement.folded import DIRECT
from diffuse.runtime.mpi.validity import Validity

SMALL = 1 << 12
"""The most bytes of an array that a rank has on average, if these are sent in rounds: a message of so many
bytes takes about as long to start as to send.  Larger parts are sent directly, without being packed."""
SPARE = 1.25
"""The most bytes that an all-gather in rounds may move, over those of direct messages, which leave out the
elements that the receiver has already."""


class Collected(NamedTuple):
    """An array of which each rank sends its part to all others."""

    place: int
    """The index of its instance, or of the scratch memory that it is in."""
    shape: Point
    itemsize: int
    parts: Layout


def replicated(place: int, state: Validity, want: Layout) -> Collected | None:
    """Return the parts of a small store that an all-gather in rounds exchanges, if all ranks want the same
    elements and lack nearly all of these; None if they exchange what they lack directly."""
    ranks, every = len(want), want[0]
    if ranks <= DIRECT or state.whole or not every or any(other != every for other in want):
        return None
    total = size(every)
    lacking = sum([size(tuple(remove(every, held))) for held in state.have])
    if total * state.itemsize > ranks * SMALL or (ranks - 1) * total > SPARE * lacking:
        return None
    rest, parts = list(every), []
    for held in state.have:
        parts.append(tuple([both for box in rest for other in held
                            if (both := intersection(box, other)) is not None]))
        rest = remove(rest, held)
    return None if rest else Collected(place, state.shape, state.itemsize, tuple(parts))


def given(rank: int, distance: int, ranks: int) -> list[int]:
    """Return the ranks whose parts a rank sends in the round with this distance."""
    return [(rank + k) % ranks for k in range(min(distance, ranks - distance))]


def schematic(parts: Layout, distance: int, ranks: int) -> tuple[Layout, Layout]:
    """Describe what ranks send and want in a round by boxes of one dimension that stand for the elements."""
    sizes = [size(boxes) for boxes in parts]
    counts = [sum([sizes[other] for other in given(rank, distance, ranks)]) for rank in range(ranks)]
    ends = list(accumulate(counts, initial=0))
    sent = [((range(low, high),),) if low < high else () for low, high in zip(ends, ends[1:], strict=False)]
    return tuple(sent), tuple([sent[(rank + distance) % ranks] for rank in range(ranks)])
