"""Runs host functions on ranks: each rank alone on its parts, or all ranks together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from diffuse.runtime.base import Layout
from diffuse.runtime.independent import Alone
from diffuse.runtime.mpi.moves import Move
from diffuse.runtime.mpi.parts import cheapest
from diffuse.runtime.mpi.rank import Rank
from diffuse.runtime.mpi.shares import Share, together
from diffuse.runtime.mpi.validity import Validity
from diffuse.runtime.ranks.peers import Run, Together


class Calls(Rank):
    """The part of the runtime mpi that calls host functions."""

    _own: int

    @abstractmethod
    def _check(self) -> None: ...

    @abstractmethod
    def _begun(self, layout: Layout, instances: Sequence[Any], packed: bytes, watched: Sequence[Any] = (),
               shares: Callable[[Share], Share] = lambda shared: shared) -> tuple[Share, Any]: ...

    @abstractmethod
    def _bring_all(self, exchanges: Sequence[Sequence[Move]], instances: Sequence[Any]) -> None: ...

    @abstractmethod
    def _passed(self, shared: Share, after: Sequence[Validity], instances: Sequence[Any], number: int
                ) -> None: ...

    def call_parts(self, layouts: Sequence[Layout], instances: Sequence[Any],
                   run: Callable[[int, int, int], int]) -> None:
        """Run a host function on the points of this rank under the layout that moves least:
        `run(number of the layout, first, points)`, which returns floating-point exceptions."""
        self._check()
        number = cheapest(layouts, [instance.state for instance in instances], self.ranks)
        layout = layouts[number]
        shared, mine = self._begun(layout, instances, b"")
        self._bring_all(mine.before, instances)
        self._pool.wait(max([instance.used for instance in instances]))
        if mine.points:
            self._own |= run(number, mine.first, mine.points)
        self._passed(shared, mine.after, instances, self._pool.submitted)

    def call_together(self, layout: Layout, instances: Sequence[Any], run: Run) -> None:
        """Run a host function on all ranks at once, each on its parts: `run(peers, firsts, rank)`, where
        `firsts` are the first points of the ranks, and the end of the last one's."""
        self._check()
        shared, mine = self._begun(layout, instances, b"", shares=partial(together, layout.domain))
        if self._traffic is not None:
            self._traffic.depends()
        self._bring_all(mine.before, instances)
        self._pool.wait(max([instance.used for instance in instances]))
        if shared.divided and self.network is not None and self.agreement is not None:
            network, tag = self.network, self.agreement.tag
            firsts = [*[first for first, _ in shared.points], shared.total]
            self._own |= run(lambda ends: Together(network, tag, ends, self._traffic), firsts, self.rank)
        elif mine.points:
            self._own |= run(Alone, (0, shared.total), 0)
        self._passed(shared, mine.after, instances, self._pool.submitted)
