"""Steps: the data movement of a launch, which ranks run it, and where valid elements are afterwards.

A step depends on a share and on the states of the stores alone, so all ranks derive the same one.  In
temporal order: what the points read arrives; they run; the partial results and what `finish` reads arrive;
`finish` runs.  These are pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from diffuse.movement.boxes import Box, Holding, Layout, intersection, remove, size
from diffuse.movement.direct import exchange
from diffuse.movement.folded import FEW, LARGE, at_one, distances, rounds
from diffuse.runtime.mpi.collected import Collected, replicated, schematic
from diffuse.runtime.mpi.shares import Partials, Share, parted, runs, spread
from diffuse.runtime.mpi.validity import Validity, made, tidy

Arrivals = tuple[tuple[tuple[int, Box], ...], ...]
"""For each rank, the boxes that it receives, each with its sender."""
Exchanged = Callable[[Layout, Layout], Any]
"""Maps what ranks hold and want to what arrives: `arrivals`, or `volumes` where nothing is sent."""


class LaunchStep(NamedTuple):
    """The step of one launch."""

    before: tuple[tuple[int, Arrivals], ...]
    """What arrives before the points run: the index of the instance, and its boxes."""
    early: tuple[tuple[Collected, tuple[Arrivals, ...]], ...]
    """What arrives before the points run, too, in all-gathers (collected.py): small arrays that all ranks
    read, each with the schematics of its rounds."""
    runs: tuple[tuple[int, int], ...]
    """For each rank, its first point and its number of points."""
    partials: tuple[tuple[Partials, Arrivals], ...]
    """What arrives directly from the ranks that have it."""
    rounds: tuple[tuple[tuple[Partials, Arrivals], ...], ...]
    """For each round of an all-gather, which replaces the direct exchange on many ranks: the partial results,
    and how many of their elements arrive from whom."""
    late: tuple[tuple[int, Arrivals], ...]
    """What arrives before `finish` runs."""
    finishing: tuple[int, ...]
    """The ranks that run `finish` as a launch of its own; empty if the launch was not divided.  If each
    rank's results follow from its own partial results, it sees zeros in place of the others'."""
    after: tuple[Validity, ...]
    """The resulting states of the stores, in the order of the share's uses."""
    growth: tuple[int, ...]
    """For each rank, the bytes of memory that it touches for the first time."""


def arrivals(have: Layout, want: Layout) -> Arrivals:
    """The boxes that each rank receives."""
    return exchange(have, want).arrivals


def step(shared: Share, states: Sequence[Validity], ranks: int,
         exchanged: Exchanged = arrivals) -> LaunchStep:
    """The step of a launch on stores in these states."""
    divide = _divided if shared.divided else _undivided
    found = divide(shared, states, ranks, exchanged)
    growth = tuple([sum(after.bytes[rank] - before.bytes[rank]
                        for before, after in zip(states, found.after, strict=True)) for rank in range(ranks)])
    return found._replace(growth=growth)


def _divided(shared: Share, states: Sequence[Validity], ranks: int, exchanged: Exchanged) -> LaunchStep:
    """The step in which each rank runs its own points."""
    now = list(states)
    before, early = _early(shared, now, [use.reads for use in shared.uses], exchanged)
    now = [state.written(use.writes) for use, state in zip(shared.uses, now, strict=True)]
    if not shared.folds:
        return LaunchStep(before, early, shared.points, (), (), (), (), tuple(now), ())
    if shared.folds_apart:
        now = [state.written(use.late_each) for use, state in zip(shared.uses, now, strict=True)]
        return LaunchStep(before, early, shared.points, (), (), (), tuple(range(ranks)), tuple(now), ())
    every = sum([size(partial.every) for partial in shared.partials])
    heavy = at_one(every, ranks)
    finishing = (0,) if heavy else tuple(range(ranks))
    gathered = () if heavy else rounds(ranks)
    partials = () if gathered else tuple([
        (partial, exchanged(partial.writes, _to(finishing, partial.every, ranks)))
        for partial in shared.partials])
    collected = tuple([tuple([(partial, exchanged(*schematic(partial.writes, distance, ranks)))
                              for partial in shared.partials]) for distance in gathered])
    late = _bring(shared, now, [_to(finishing, use.late_reads, ranks) for use in shared.uses], exchanged)
    now = [state.written(_to(finishing, use.late_writes, ranks))
           for use, state in zip(shared.uses, now, strict=True)]
    return LaunchStep(before, early, shared.points, partials, collected, late, finishing, tuple(now), ())


def _undivided(shared: Share, states: Sequence[Validity], ranks: int, exchanged: Exchanged) -> LaunchStep:
    """The step in which one rank runs all points, or every rank does if that moves only a few numbers."""
    reads = [tuple([*use.every_read, *remove(use.late_reads, use.every_read)]) for use in shared.uses]
    writes = [tuple([*use.every_write, *remove(use.late_writes, use.every_write)]) for use in shared.uses]
    lacking = [sum(size(tuple(remove(boxes, state.have[rank]))) * state.itemsize
                   for boxes, state in zip(reads, states, strict=True)) for rank in range(ranks)]
    most = sum(size(boxes) * state.itemsize for boxes, state in zip(writes, states, strict=True))
    everyone = sum(lacking) <= FEW and (any(reads) or most <= LARGE)
    running = tuple(range(ranks)) if everyone else (min(range(ranks), key=lacking.__getitem__),)
    now = list(states)
    before, early = _early(shared, now, [_to(running, boxes, ranks) for boxes in reads], exchanged)
    now = [state.written(_to(running, boxes, ranks)) for boxes, state in zip(writes, now, strict=True)]
    runs = tuple([(0, shared.total if rank in running else 0) for rank in range(ranks)])
    return LaunchStep(before, early, runs, (), (), (), (), tuple(now), ())


def trimmed(state: Validity) -> Validity:
    """The state after ranks returned the memory of invalid copies: they keep what they hold, and the gaps
    between the contiguous ranges of one box unless these are large."""
    kept = []
    for boxes, touched in zip(state.have, state.touched, strict=True):
        found = [box for box in boxes if parted(box, state.shape, state.itemsize)]
        for low, high in runs([box for box in boxes if box not in found], state.shape):
            found += spread(low * state.itemsize, high * state.itemsize, state.shape, state.itemsize)
        kept.append(tidy([both for one in found for other in touched
                          if (both := intersection(one, other)) is not None]))
    return state.trimmed(tuple(kept))


def moved(state: Validity, want: Layout) -> Validity | None:
    """Return the state after ranks, which have received what they want, dropped everything else; None if
    elements would be lost."""
    every = tidy([box for boxes in want for box in boxes])
    if size(every) != prod(state.shape):
        return None
    return trimmed(made(state.shape, state.itemsize, want, state.touched))


def _early(shared: Share, now: list[Validity], wants: Sequence[Layout],
           exchanged: Exchanged) -> tuple[Any, Any]:
    """Give each rank the boxes that it wants, before its points run: returns what arrives directly, and what
    arrives in all-gathers; updates the states `now`."""
    wholes = [replicated(use.place, state, want) for use, state, want in zip(shared.uses, now, wants,
                                                                             strict=True)]
    before = _bring(shared, now, [() if whole else want for whole, want in zip(wholes, wants, strict=True)],
                    exchanged)
    for k, (whole, want) in enumerate(zip(wholes, wants, strict=True)):
        if whole:
            now[k] = now[k].received(want)
    return before, tuple([(whole, arriving_in_rounds(whole, exchanged)) for whole in wholes if whole])


def arriving_in_rounds(whole: Collected, exchanged: Exchanged) -> tuple[Any, ...]:
    """Return the boxes that arrive in each round of an all-gather, as its schematic describes them."""
    ranks = len(whole.parts)
    return tuple([exchanged(*schematic(whole.parts, distance, ranks)) for distance in distances(ranks)])


def _bring(shared: Share, now: list[Validity], wants: Sequence[Layout], exchanged: Exchanged
           ) -> tuple[tuple[int, Arrivals], ...]:
    """Give each rank the boxes that it wants; updates the states `now` and returns what arrives."""
    found = []
    for k, (use, want) in enumerate(zip(shared.uses, wants, strict=True)):
        arriving, now[k] = fetched(now[k], want, exchanged)
        if any(arriving):
            found.append((use.place, arriving))
    return tuple(found)


def fetched(state: Validity, want: Layout, exchanged: Exchanged = arrivals) -> tuple[Any, Validity]:
    """Give each rank the boxes that it wants of a store; returns what arrives and the state afterwards."""
    if state.whole or not any(want):
        return (), state.received(want) if any(want) else state
    return exchanged(state.have, want), state.received(want)


def _to(some: Sequence[int], boxes: Holding, ranks: int) -> Layout:
    """A layout in which the ranks `some` hold these boxes, and the others none."""
    chosen = frozenset(some)
    return tuple([boxes if rank in chosen else () for rank in range(ranks)])
