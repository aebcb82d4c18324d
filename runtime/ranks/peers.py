"""Lets the ranks that run a host function together exchange arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from diffuse.runtime.independent import Ends, Peers

Messages = Sequence[tuple[int, Any]]
"""Bytes, each with the rank that gets or sends them."""
Run = Callable[[Callable[[Ends], Peers], Sequence[int], int], int]
"""Runs a function as a rank, given how to make its peers, the ends of the ranks' points, and the rank."""


class Network(Protocol):
    """Messages between all ranks."""

    rank: int
    ranks: int

    def swap(self, words: Sequence[int]) -> list[int]:
        """Exchange one word with each rank (all-to-all)."""

    def exchange(self, sends: Messages, receives: Messages, tag: int) -> None:
        """Send and receive bytes."""


class Traffic(Protocol):
    """Counts what is sent."""

    def sent(self, nbytes: int, messages: int) -> None: ...


class Together:
    """The peers of this rank in one call of a function.  All ranks have to make the same exchanges, in the
    same order."""

    def __init__(self, network: Network, tag: int, ends: Ends, traffic: Traffic | None) -> None:
        self.rank, self.ranks, self.ends = network.rank, network.ranks, ends
        self._network, self._tag, self._traffic = network, tag, traffic

    def gather(self, array: Any) -> Any:
        line = np.ascontiguousarray(array).reshape(-1)
        found = np.empty((self.ranks, line.size), line.dtype)
        self._exchange([line] * self.ranks, list(found))
        return found.reshape(self.ranks, *array.shape)

    def swap(self, pieces: Sequence[Any]) -> tuple[Any, list[int]]:
        pieces = [np.ascontiguousarray(piece) for piece in pieces]
        lengths = self._network.swap([len(piece) for piece in pieces])
        found = np.empty((sum(lengths), *pieces[0].shape[1:]), pieces[0].dtype)
        begins = accumulate(lengths, initial=0)
        self._exchange(pieces, [found[low:low + n] for low, n in zip(begins, lengths, strict=False)])
        return found, lengths

    def _exchange(self, gives: Sequence[Any], takes: Sequence[Any]) -> None:
        takes[self.rank][...] = gives[self.rank]
        others = [rank for rank in range(self.ranks) if rank != self.rank]
        sends = [(rank, _bytes(gives[rank])) for rank in others if gives[rank].nbytes]
        if self._traffic is not None:
            self._traffic.sent(sum([memory.nbytes for _, memory in sends]), len(sends))
        self._network.exchange(sends, [(rank, _bytes(takes[rank])) for rank in others if takes[rank].nbytes],
                               self._tag)


def _bytes(array: Any) -> Any:
    return array.reshape(-1).view(np.uint8)
