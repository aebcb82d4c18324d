"""Moves: what one rank sends and receives in an exchange, and the memory regions that are sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import Point
from diffuse.movement.boxes import Box, volume
from diffuse.movement.folded import distances
from diffuse.runtime.mpi.collected import Collected, given
from diffuse.runtime.mpi.network import Network
from diffuse.runtime.mpi.shares import run
from diffuse.runtime.mpi.steps import Arrivals


class Move(NamedTuple):
    """A box that this rank sends to another one, or receives from it."""

    place: int
    """Which memory it is in: a number defined by the step."""
    peer: int
    sends: bool
    shape: Point
    itemsize: int
    region: tuple[Any, ...]
    """The byte range if the box is contiguous in memory; else its indices."""
    nbytes: int


def moves(rank: int, place: int, arrivals: Arrivals, shape: Point, itemsize: int) -> Iterable[Move]:
    """The moves of one rank, ordered so that any two ranks agree on the order of the messages between
    them."""
    for receiver, boxes in enumerate(arrivals):
        for sender, box in boxes:
            if rank in (sender, receiver):
                yield Move(place, sender if receiver == rank else receiver, sender == rank, shape, itemsize,
                           region(box, shape, itemsize), volume(box) * itemsize)


def collecting(whole: Collected, rank: int, distance: int, ranks: int) -> Iterable[Move]:
    """Return a rank's moves in one round of an all-gather: one message that it sends and one that it
    receives."""
    for sends, sender in ((True, rank), (False, (rank + distance) % ranks)):
        held = [_places(box, whole.shape) for other in given(sender, distance, ranks)
                for box in whole.parts[other]]
        places = np.concatenate([np.zeros(0, np.int64), *held])
        if places.size:
            peer = (rank - distance) % ranks if sends else sender
            total = int(np.prod(whole.shape))
            yield Move(whole.place, peer, sends, (total,), whole.itemsize, (places,),
                       places.size * whole.itemsize)


def in_rounds(whole: Collected, rank: int) -> list[tuple[Move, ...]]:
    """Return a rank's moves in each round of an all-gather."""
    ranks = len(whole.parts)
    return [tuple(collecting(whole, rank, distance, ranks)) for distance in distances(ranks)]


def _places(box: tuple[range, ...], shape: Point) -> NDArray[np.int64]:
    """The places of the elements of a box in an array of this shape."""
    found = np.zeros(1, np.int64)
    for extent, along in zip(shape, box, strict=True):
        found = (found[:, None] * extent + np.array(along, np.int64)).reshape(-1)
    return found


def region(box: Box, shape: Point, itemsize: int) -> tuple[int, int] | tuple[slice, ...]:
    """The memory region of a box in a store."""
    found = run(box, shape)
    if found is not None:
        return found[0] * itemsize, found[1] * itemsize
    return tuple([slice(r.start, r.stop, r.step) for r in box])


def carry(network: Network, todo: Sequence[Move], memories: Sequence[NDArray[np.uint8]], tag: int) -> None:
    """Perform the sends and receives of this rank; `memories` are the bytes of each move's memory.  Nothing
    else may write to them or, where boxes arrive, read them."""
    sends: list[tuple[int, Any]] = []
    receives: list[tuple[int, Any]] = []
    unpack = []
    for move, memory in zip(todo, memories, strict=True):
        where: Any = move.region
        if type(where[0]) is int:
            part = memory[where[0]:where[1]]
        else:
            count = move.nbytes // move.itemsize
            part = np.empty(count, f"V{move.itemsize}")
            whole = _elements(memory, move)
            if move.sends:
                part[...] = whole[where].reshape(-1)
            else:
                unpack.append((whole, where, part))
            part = part.view(np.uint8)
        (sends if move.sends else receives).append((move.peer, part))
    network.exchange(sends, receives, tag)
    for whole, where, part in unpack:
        whole[where] = part.reshape(whole[where].shape)


def _elements(memory: NDArray[np.uint8], move: Move) -> Any:
    """View the memory of a store as raw elements of its item size, in its shape."""
    count = 1
    for n in move.shape:
        count *= n
    return memory[:count * move.itemsize].view(f"V{move.itemsize}").reshape(move.shape)
