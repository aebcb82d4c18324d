"""What a runtime answers about host functions that run on ranks, each on its parts of the arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from diffuse.runtime.base import Layout
    from diffuse.runtime.ranks.peers import Run


class OnRanks(Protocol):
    """The part of a runtime that calls host functions on ranks."""

    ranks: int
    """The number of processes that run the program together; each records the same tasks."""

    @property
    def room(self) -> int:
        """The bytes that arrays may take on each rank; 0 on one rank."""
        ...

    def in_parts(self, nbytes: int) -> bool:
        """Do host functions run on the parts that ranks have, if an array of so many bytes takes part?  Else
        they run on whole arrays, on every rank.  All ranks get the same answer."""
        ...

    def call_parts(self, layouts: Sequence[Layout], instances: Sequence[Any],
                   run: Callable[[int, int, int], int]) -> None:
        """Run a host function on the points of this rank under one of the layouts:
        `run(number of the layout, first, points)`, which returns floating-point exceptions."""
        ...

    def call_together(self, layout: Layout, instances: Sequence[Any], run: Run) -> None:
        """Run a host function on all ranks at once, each on its parts: `run(peers, firsts, rank)`, where
        `firsts` are the first points of the ranks, and the end of the last one's."""
        ...

    def over_ranks(self, number: int) -> int:
        """Sum a number over all ranks; every rank has to call this."""
        ...


class OneRank:
    """The answers of a runtime of one process, which runs host functions on whole arrays."""

    ranks = 1
    room = 0

    def in_parts(self, nbytes: int) -> bool:
        return False

    def call_parts(self, layouts: Sequence[Layout], instances: Sequence[Any],
                   run: Callable[[int, int, int], int]) -> None:
        raise NotImplementedError("host functions run on whole arrays here")

    def call_together(self, layout: Layout, instances: Sequence[Any], run: Run) -> None:
        raise NotImplementedError("host functions run on whole arrays here")

    def over_ranks(self, number: int) -> int:
        return number
