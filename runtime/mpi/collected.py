"""All-gather of partial results in rounds: every rank gets those of all others in few messages.

In the round with distance d, a rank sends the partial results of the d ranks from itself on, which it has by
then, to the rank d before it, and so gets those of the d ranks after its own from the rank d after it: the
algorithm of Bruck et al. (1997).  After as many rounds as the number of ranks has binary digits, every rank
has all of them, at their places, and combines them in the one order that the reduction tree has.
"""

from __future__ import annotations

from itertools import accumulate

from diffuse.movement.boxes import Layout, size
from diffuse.runtime.mpi.shares import Partials


def given(rank: int, distance: int, ranks: int) -> list[int]:
    """The ranks whose partial results a rank sends in a round."""
    return [(rank + k) % ranks for k in range(min(distance, ranks - distance))]


def schematic(partial: Partials, distance: int, ranks: int) -> tuple[Layout, Layout]:
    """What ranks send and what they want in a round, as boxes of one dimension that stand for the bytes."""
    sizes = [size(boxes) for boxes in partial.writes]
    counts = [sum([sizes[other] for other in given(rank, distance, ranks)]) for rank in range(ranks)]
    ends = list(accumulate(counts, initial=0))
    sent = [((range(low, high),),) if low < high else () for low, high in zip(ends, ends[1:], strict=False)]
    return tuple(sent), tuple([sent[(rank + distance) % ranks] for rank in range(ranks)])
