"""How far the program may run ahead of the pool: by half a second of work, as far as one can tell.

What is queued is not undone by an interrupt, and whoever reads an array then waits for it.  Work is counted
in operations times elements (plan.py); how long it takes is measured while the program waits here, which it
does early at first, since nothing is known then.
"""

from __future__ import annotations

import time
from collections import deque

from diffuse.runtime.local.pool import Pool

LIMIT = 0.5
"""Seconds of work that may be queued."""
SLOW, FAST = 10e-9, 0.02e-9
"""Seconds that a unit of work takes: what is believed until something was measured, and at least."""
CHECK = 0.05
"""Seconds after which the queue is looked at anew."""


class Ahead:
    """The launches that were submitted and may not be done."""

    def __init__(self, pool: Pool, limit: float = LIMIT) -> None:
        self._pool, self._limit = pool, limit
        self._queued: deque[tuple[int, int]] = deque()
        """Number and work of each launch."""
        self._work = 0
        """Of all that are queued, at least."""
        self.most = limit / SLOW
        """Work that may be queued."""
        self._looked = 0.0

    def add(self, sequence: int, work: int) -> None:
        """A launch was submitted: wait if that is too much, though never for the launch itself."""
        self._queued.append((sequence, work))
        self._work += work
        if self._work > self.most or time.perf_counter() - self._looked > CHECK:
            self._look()

    def _look(self) -> None:
        start, before = self._looked, self._work
        self._count()
        now = self._looked
        if self._queued and now - start < 2 * CHECK:  # it had work all the time, or most of it
            self._measure(now - start, before - self._work)
        if self._work > self.most and len(self._queued) > 1:
            before = self._work
            self._pool.wait(self._until())
            self._count()
            self._measure(self._looked - now, before - self._work)

    def _count(self) -> None:
        """What is queued now.  Whatever an interrupt leaves half done is right after the next time."""
        done, queued = self._pool.completed, self._queued
        while queued and queued[0][0] <= done:
            queued.popleft()
        self._work = sum([work for _, work in queued])
        self._looked = time.perf_counter()

    def _until(self) -> int:
        """The launch after which half of what may be queued is, or the last but one."""
        left = self._work
        for sequence, work in list(self._queued)[:-1]:
            left -= work
            if left <= self.most / 2:
                break
        return sequence

    def _measure(self, seconds: float, work: int) -> None:
        if work > 0 and seconds > 1e-4:
            self.most = self._limit / max(FAST, seconds / work)
