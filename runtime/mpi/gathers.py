"""Reads at places that are data: which rows of a dense operand each rank needs, and who holds them.

The validity map knows boxes, which all ranks know of all.  The rows that the elements of a sparse matrix name
are known to the rank that has those elements, and nobody else; they are numbers in an array here.  These are
pure functions over plain data and NumPy's arrays, which know nothing of MPI.
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
from diffuse.runtime.mpi.validity import State, tidy

SPARSE = 16
"""How many times wider than long numbers may lie so that they are marked rather than sorted."""
Ends = tuple[tuple[int, int], ...]
"""For each rank the first of its elements of an array, and the one behind the last."""
Rows = NDArray[np.int64]
"""Numbers of rows, rising."""


class Reader(NamedTuple):
    """A gather, as ranks share it out."""

    gather: Gather
    boxes: tuple[Layout, Layout]
    """What each rank has to have of where rows begin, and of where they end."""
    ends: tuple[Ends, Ends]
    """The same as elements of these arrays."""
    base: int
    """Where the dense operand begins in its store, in bytes."""
    pitch: int
    """The bytes from one of its rows to the next."""


class Holders(NamedTuple):
    """Who has which rows of an array: between two neighbours of `edges` that is one rank."""

    edges: Rows
    owner: NDArray[np.int64]


def readers(layout: Launched, shared: Share, ranks: int) -> tuple[Reader, ...]:
    """The gathers of a launch, if each rank may find out for itself what its points read; else none."""
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
    """What the points of each rank read of an array, if that is one run of its memory."""
    access, (shape, dtype) = argument.access, argument.storage
    if (access.store.shape, access.store.dtype) != (shape, dtype):
        return None
    found = tuple([tidy([box for point in mine for box in boxes(argument, point)]) for mine in each])
    runs = [run(held[0], shape) if len(held) == 1 else None if held else (0, 0) for held in found]
    return None if None in runs else (found, tuple([ends for ends in runs if ends is not None]))


def holders(state: State, base: int, pitch: int) -> Holders | None:
    """Who has which rows of an array in a store: the first of those that do.  None if some row is nobody's
    alone."""
    total = (prod(state.shape) * state.itemsize - base) // pitch
    held = [own(state, rank, base, pitch) for rank in range(len(state.have))]
    edges = np.unique(np.array([0, total, *[edge for ends in held for pair in ends for edge in pair]]))
    owner = np.full(len(edges) - 1, -1)
    for rank in reversed(range(len(held))):
        for low, high in held[rank]:
            first, last = np.searchsorted(edges, (low, high))
            owner[first:last] = rank
    return Holders(edges, owner) if (owner >= 0).all() else None


def own(state: State, rank: int, base: int, pitch: int) -> list[tuple[int, int]]:
    """The rows of an array of which a rank has all, as runs."""
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


def distinct(columns: NDArray[Any]) -> Rows:
    """The numbers among these, each once, rising."""
    if not columns.size:
        return np.zeros(0, np.int64)
    low, high = int(columns.min()), int(columns.max())
    if high - low > SPARSE * columns.size:
        return np.unique(columns).astype(np.int64)
    marks = np.zeros(high - low + 1, bool)
    marks[columns - low] = True
    return np.flatnonzero(marks) + low


def lacking(wanted: Rows, state: State, rank: int, base: int, pitch: int, held: Holders) -> dict[int, Rows]:
    """The rows that a rank wants and has not, by the ranks that it gets them from."""
    rest = wanted
    for low, high in own(state, rank, base, pitch):
        first, last = np.searchsorted(rest, (low, high))
        rest = np.concatenate((rest[:first], rest[last:])) if first < last else rest
    senders = held.owner[np.searchsorted(held.edges, rest, "right") - 1]
    return {int(sender): rest[senders == sender] for sender in np.unique(senders)}


def written(rows: Rows) -> Rows:
    """Rows as a message: 1 and the ends of their runs, or 0 and their numbers if that is shorter."""
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    if 2 * (len(breaks) + 1) >= len(rows):
        return np.concatenate(([0], rows))
    firsts, lasts = rows[np.concatenate(([0], breaks))], rows[np.concatenate((breaks - 1, [-1]))]
    return np.concatenate(([1], np.stack((firsts, lasts + 1), axis=1).reshape(-1)))


def read(message: Rows) -> Rows:
    """The rows of such a message."""
    if not message[0]:
        return message[1:]
    return np.concatenate([np.arange(low, high) for low, high in message[1:].reshape(-1, 2).tolist()])
