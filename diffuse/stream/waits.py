"""What the program waits for: a single operation or call of a library, or more than one.

A library that does at once what the program waits for alone (numpy/ops/single.py) learns it from the counts
that are kept here: `Template.alone`, and `alone` of the places of the program that it names.
"""

from __future__ import annotations

from typing import Any

from diffuse.observe import trace
from diffuse.stream.window import Window

MOST = 64
"""Calls that are noted between two waits."""


class Waits:
    """The first calls of libraries since the program last waited."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: list[tuple[Any, int, int]] = []
        """Where each was made, the tasks that it recorded, and all that were recorded by then."""

    def called(self, place: Any, tasks: int, begun: int) -> None:
        """Note that a call at this place recorded so many tasks; calls from number `begun` on were part of
        it."""
        del self.calls[begun:]
        if len(self.calls) < MOST:
            self.calls.append((place, tasks, trace.counters["recorded"]))

    def note(self, window: Window, idle: bool) -> None:
        """Note that the program waits for what a window holds; `idle`: and for nothing else."""
        calls, self.calls = self.calls, []
        now = window.held, trace.counters["recorded"]
        for place, *seen in calls:
            place.alone = place.alone + 1 if idle and len(calls) == 1 and (*seen,) == now else 0
        if idle and window.held == 1 and window.open.recorded:
            window.open.recorded[0][0].alone += 1
