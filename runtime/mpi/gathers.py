"""Gathers (reads at data-dependent places): which rows of a dense operand each rank reads, and who holds
them.

The validity map stores boxes, and every rank knows those of all ranks.  The rows that a sparse matrix refers
to are known only to the rank that holds its elements; here they are arrays of row numbers.  These are pure
functions over plain data and NumPy arrays, independent of MPI.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import ITEMSIZE, Privilege
from diffuse.ir.view import shown
from diffuse.movement.boxes import Layout
from diffuse.runtime.base import Gather, LaunchArgument
from diffuse.runtime.base import Layout as Launched
from diffuse.runtime.mpi.shares import Share, boxes, groups, run
from diffuse.runtime.mpi.validity import Validity, tidy
from diffuse.runtime.ranks.numbers import RowNumbers

Ends = tuple[tuple[int, int], ...]
"""For each rank, the first of its elements of an array and the one after the last."""


class Reader(NamedTuple):
    """A gather, divided among the ranks."""

    gather: Gather
    boxes: tuple[Layout, Layout]
    """The boxes that each rank needs of the arrays with the first and with the last element of each row."""
    ends: tuple[Ends, Ends]
    """The same boxes as ranges of elements of these arrays."""
    base: int
    """The byte offset of the dense operand in its store."""
    pitch: int
    """The byte distance between its rows."""


class Holders(NamedTuple):
    """The owner of each row of an array: `owner[k]` holds the rows from `edges[k]` to `edges[k + 1]`."""

    edges: RowNumbers
    owner: NDArray[np.int64]


def readers(layout: Launched, shared: Share, ranks: int) -> tuple[Reader, ...]:
    """The gathers of a launch if each rank can determine by itself what its points read; else an empty
    tuple."""
    found = [_reader(layout, gather, ranks) for gather in layout.gathers] if shared.divided else []
    return () if None in found else tuple([each for each in found if each is not None])


def _reader(layout: Launched, gather: Gather, ranks: int) -> Reader | None:
    arguments = layout.arguments
    written = {a.slot for a in arguments if a.privilege is not Privilege.READ}
    used = {gather.low, gather.high, *gather.along, *[gather.dense] * (gather.dense >= 0)}
    if any(arguments[k].slot in written or arguments[k].late for k in used):
        return None
    each = groups(layout.domain, ranks)
    low, high = [_ends(arguments[k], each) for k in (gather.low, gather.high)]
    if low is None or high is None or any(shown(arguments[k].access).free != (0,) for k in gather.along):
        return None
    base = pitch = 0
    if gather.dense >= 0:
        dense = arguments[gather.dense]
        view = shown(dense.access)
        if len({boxes(dense, point) for mine in each for point in mine}) > 1:
            return None  # the points share out its columns
        base, pitch = view.offset, prod(view.shape[1:]) * ITEMSIZE[dense.access.store.dtype]
    return Reader(gather, (low[0], high[0]), (low[1], high[1]), base, pitch)


def _ends(argument: LaunchArgument, each: Sequence[Sequence[Any]]) -> tuple[Layout, Ends] | None:
    """The boxes of an array that each rank reads, and their element ranges; None if a rank's is not
    contiguous."""
    access, (shape, dtype) = argument.access, argument.storage
    if (access.store.shape, access.store.dtype) != (shape, dtype):
        return None
    found = tuple([tidy([box for point in mine for box in boxes(argument, point)]) for mine in each])
    runs = [run(held[0], shape) if len(held) == 1 else None if held else (0, 0) for held in found]
    return None if None in runs else (found, tuple([ends for ends in runs if ends is not None]))


def holders(state: Validity, base: int, pitch: int) -> Holders | None:
    """Find for each row the first rank that holds all of it; None if there is a row that no rank holds as a
    whole."""
    total = (prod(state.shape) * state.itemsize - base) // pitch
    held = [own(state, rank, base, pitch) for rank in range(len(state.have))]
    edges = np.unique(np.array([0, total, *[edge for ends in held for pair in ends for edge in pair]]))
    owner = np.full(len(edges) - 1, -1)
    for rank in reversed(range(len(held))):
        for low, high in held[rank]:
            first, last = np.searchsorted(edges, (low, high))
            owner[first:last] = rank
    return Holders(edges, owner) if (owner >= 0).all() else None


def own(state: Validity, rank: int, base: int, pitch: int) -> list[tuple[int, int]]:
    """The rows that a rank holds as a whole, as ranges."""
    total = (prod(state.shape) * state.itemsize - base) // pitch
    found = []
    for box in state.have[rank]:
        ends = run(box, state.shape)
        if ends is not None:
            low, high = [end * state.itemsize - base for end in ends]
            low, high = max(-(-low // pitch), 0), min(high // pitch, total)
            if low < high:
                found.append((low, high))
    return found


def lacking(wanted: RowNumbers, state: Validity, rank: int, base: int, pitch: int,
            held: Holders) -> dict[int, RowNumbers]:
    """The rows that a rank wants but does not hold, grouped by the rank that sends them."""
    rest = wanted
    for low, high in own(state, rank, base, pitch):
        first, last = np.searchsorted(rest, (low, high))
        rest = np.concatenate((rest[:first], rest[last:])) if first < last else rest
    senders = held.owner[np.searchsorted(held.edges, rest, "right") - 1]
    return {int(sender): rest[senders == sender] for sender in np.unique(senders)}


def written(rows: RowNumbers) -> RowNumbers:
    """Encode rows as a message: 1 and the bounds of their ranges, or 0 and their numbers if that is
    shorter."""
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    if 2 * (len(breaks) + 1) >= len(rows):
        return np.concatenate(([0], rows))
    firsts, lasts = rows[np.concatenate(([0], breaks))], rows[np.concatenate((breaks - 1, [-1]))]
    return np.concatenate(([1], np.stack((firsts, lasts + 1), axis=1).reshape(-1)))


def read(message: RowNumbers) -> RowNumbers:
    """Decode a message made by `written`."""
    if not message[0]:
        return message[1:]
    return np.concatenate([np.arange(low, high) for low, high in message[1:].reshape(-1, 2).tolist()])
