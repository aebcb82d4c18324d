"""What a rank does, seen from another of its threads: its line, and whether it waits or computes."""

from __future__ import annotations

import linecache
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

TICK = 0.5
"""Seconds between two looks."""
HELD_UP = 4.0
"""Seconds between two looks after which this process must have been stopped, or in code that keeps its
threads from running: how long it seems to have waited says nothing then."""
WORKING = 0.004
"""Seconds of processor time in a tick from which on a rank counts as computing."""


class Report(NamedTuple):
    """What a rank does."""

    rank: int
    events: int
    """How much it has submitted: alike on ranks that are equally far."""
    event: str
    """What it submitted last."""
    waited: float
    """Seconds for which it has waited for other ranks; 0 if it does not."""
    idle: float
    """Seconds for which it has neither waited for others nor computed."""
    line: str
    """Where it is in the program."""


class Activity:
    """Looks at one rank: `progress` tells how many events it has submitted and the last one, `since` when it
    began to wait for others (0 if it does not), `clock` the processor time that counts."""

    def __init__(self, rank: int, progress: Callable[[], tuple[int, str]], since: Callable[[], float],
                 clock: Callable[[], float]) -> None:
        self._rank, self._progress, self._since, self._clock = rank, progress, since, clock
        self._main = threading.main_thread().ident
        self._before: tuple[int, float] = (-1, 0.0)
        self._looked = self._active = self._floor = 0.0

    def look(self, now: float) -> Report:
        """What the rank does; to be called in every tick."""
        if now - self._looked > HELD_UP:
            self._floor = self._active = now
        self._looked = now
        since, (events, event), spent = self._since(), self._progress(), self._clock()
        frame = sys._current_frames().get(self._main or 0)
        if since or self._before[0] != events or spent - self._before[1] > WORKING or _ours(frame):
            self._active = now  # what waits inside Diffuse waits for threads, compilers or messages
        self._before = events, spent
        waited = max(0.0, now - max(since, self._floor)) if since else 0.0
        return Report(self._rank, events, event, waited, now - self._active, _line(frame))


def _ours(frame: Any) -> bool:
    return frame is not None and (frame.f_globals.get("__name__") or "").partition(".")[0] == "diffuse"


def _line(frame: Any) -> str:
    """The program's innermost line: its own, else that of a library."""
    nearest = None
    while frame is not None:
        name = (frame.f_globals.get("__name__") or "").partition(".")[0]
        file = frame.f_code.co_filename
        if name != "diffuse" and not file.startswith("<frozen"):
            nearest = nearest or frame
            if name not in sys.stdlib_module_names and f"{os.sep}site-packages{os.sep}" not in file:
                break
            if name == "__main__":
                break
        frame = frame.f_back
    frame = frame or nearest
    if frame is None:
        return "the end of the program"
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" + (f": {text[:80]}" if text else "")
