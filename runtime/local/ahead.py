"""Flow control: limits how far the program may run ahead of the thread pool, to about half a second of work.

Queued launches cannot be cancelled by an interrupt, and reading an array waits for them.  Work is estimated
as operations times elements (plan.py); its speed is measured whenever the program waits here, and assumed to
be slow until the first measurement.
"""

from __future__ import annotations

import time
from collections import deque

from diffuse.runtime.local.pool import Pool

LIMIT = 0.5
"""Seconds of work that may be queued."""
SLOW, FAST = 10e-9, 0.02e-9
"""Seconds per unit of work: the assumption before the first measurement, and the lower bound of any."""
CHECK = 0.05
"""Seconds between two looks at the queue."""


class Ahead:
    """The submitted launches that may not have ended."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._queued: deque[tuple[int, int]] = deque()
        """The number and the work of each queued launch."""
        self._work = 0
        """An upper bound of the queued work."""
        self.most = LIMIT / SLOW
        """The most work that may be queued."""
        self._looked = 0.0

    def add(self, sequence: int, work: int) -> None:
        """Note a submitted launch; wait if too much is queued, though never for the launch itself."""
        self._queued.append((sequence, work))
        self._work += work
        if self._work > self.most or time.perf_counter() - self._looked > CHECK:
            self._look()

    def _look(self) -> None:
        start, before = self._looked, self._work
        self._count()
        now = self._looked
        if self._queued and now - start < 2 * CHECK:  # the pool was busy most of the time
            self._measure(now - start, before - self._work)
        if self._work > self.most and len(self._queued) > 1:
            before = self._work
            self._pool.wait(self._until())
            self._count()
            self._measure(self._looked - now, before - self._work)

    def _count(self) -> None:
        """Drop the launches that have ended.  If an interrupt cuts the call short, the next one completes
        it."""
        done, queued = self._pool.completed, self._queued
        while queued and queued[0][0] <= done:
            queued.popleft()
        self._work = sum([work for _, work in queued])
        self._looked = time.perf_counter()

    def _until(self) -> int:
        """The first launch after which at most half of the limit is queued, or the second to last."""
        left = self._work
        for sequence, work in list(self._queued)[:-1]:
            left -= work
            if left <= self.most / 2:
                break
        return sequence

    def _measure(self, seconds: float, work: int) -> None:
        if work > 0 and seconds > 1e-4:
            self.most = LIMIT / max(FAST, seconds / work)
