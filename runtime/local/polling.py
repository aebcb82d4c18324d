"""Decides how long idle threads poll for the next launch before they sleep.

Waking a sleeping thread takes the program 20 to 500 us.  Where every iteration of a program waits for its
results and then records for less than a millisecond before it launches something, threads poll for that long.
In other programs they sleep sooner, as polling takes a processor that others may need.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SHORT, LONG = 200.0, 1000.0
"""Microseconds for which threads poll, at first and in such programs."""
TURNS = 8
"""The iterations in a row after which they poll longer."""


class Polling:
    """How long the threads of a pool poll; `set_microseconds` is called when that changes."""

    __slots__ = ("idle", "_set", "_clock", "_since", "_turns")

    def __init__(self, set_microseconds: Callable[[float], None],
                 clock: Callable[[], float] = time.perf_counter) -> None:
        self._set, self._clock = set_microseconds, clock
        self.idle = False
        """Has the program waited for all launches, and launched nothing since?"""
        self._since = 0.0
        self._turns = 0

    def waited(self) -> None:
        """The program has waited for all launches."""
        self.idle, self._since = True, self._clock()

    def launched(self) -> None:
        """The program launches something for the first time since it waited."""
        self.idle, gap = False, 1e6 * (self._clock() - self._since)
        if gap >= LONG:
            if self._turns >= TURNS:
                self._set(SHORT)
            self._turns = 0
        elif gap >= SHORT / 2:
            self._turns += 1
            if self._turns == TURNS:
                self._set(LONG)
