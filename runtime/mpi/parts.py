"""Host functions in parts: chooses the way to divide a call that moves the least data."""

from __future__ import annotations

from collections.abc import Sequence

from diffuse.bounded import Bounded
from diffuse.movement.boxes import size
from diffuse.movement.direct import volumes
from diffuse.runtime.base import Layout
from diffuse.runtime.mpi.shares import Share, share
from diffuse.runtime.mpi.validity import Validity

MOST_CHOICES = 64
"""The most choices kept for one call, each for one combination of states."""


def cheapest(layouts: Sequence[Layout], states: Sequence[Validity], ranks: int) -> int:
    """The index of the layout that needs the fewest bytes from other ranks, given the states of the stores of
    its arguments; the first of several equal ones.

    The choice depends on the states of the stores alone, so all ranks make the same one.
    """
    if len(layouts) == 1:
        return 0
    kept = layouts[0].derived.setdefault(("cheapest", ranks, len(layouts)), Bounded(MOST_CHOICES))
    key = (tuple(states), *layouts[1:])
    found: int | None = kept.get(key)
    if found is None:
        costs = [_lacking(shared_out(layout, ranks), states) for layout in layouts]
        found = kept[key] = costs.index(min(costs))
    return found


def shared_out(layout: Layout, ranks: int) -> Share:
    """The share of a layout, made once."""
    key = "shared", ranks
    found: Share | None = layout.derived.get(key)
    if found is None:
        found = layout.derived[key] = share(layout, ranks)
    return found


def _lacking(shared: Share, states: Sequence[Validity]) -> int:
    """Bytes that ranks receive before their parts run."""
    total = 0
    for use in shared.uses:
        state = states[use.place]
        if shared.divided and not state.whole and any(use.reads):
            total += volumes(state.have, use.reads)[0] * state.itemsize
        elif not shared.divided:  # one rank gets what others have
            total += size(use.every_read) * state.itemsize
    return total
