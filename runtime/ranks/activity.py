"""Observes what a rank does from another of its threads: its current line, and whether it waits or
computes."""

from __future__ import annotations

import linecache
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

TICK = 0.5
"""Seconds between two observations."""
HELD_UP = 4.0
"""Seconds between two observations from which on this process must have been stopped, or in code that keeps
its threads from running: how long it seems to have waited is then meaningless."""
WORKING = 0.004
"""Seconds of processor time in a tick from which on a rank counts as computing."""


class Report(NamedTuple):
    """The state of a rank."""

    rank: int
    events: int
    """How many events it has submitted; ranks at the same place of the program have the same number."""
    event: str
    """The last event that it submitted."""
    waited: float
    """Seconds for which it has waited for other ranks; 0 if it does not wait."""
    idle: float
    """Seconds for which it has neither waited for others nor computed."""
    line: str
    """Its current line in the program."""


class Activity:
    """Observes one rank: `progress` returns the number of its submitted events and the last one, `since` the
    time when it began to wait for others (0 if it does not), `clock` its processor time."""

    def __init__(self, rank: int, progress: Callable[[], tuple[int, str]], since: Callable[[], float],
                 clock: Callable[[], float]) -> None:
        self._rank, self._progress, self._since, self._clock = rank, progress, since, clock
        self._main = threading.main_thread().ident
        self._before: tuple[int, float] = (-1, 0.0)
        self._looked = self._active = self._floor = 0.0

    def look(self, now: float, closely: bool = False) -> Report:
        """The state of the rank; called in every tick, and with `closely` to find its current line.

        Holding a frame that returns keeps its variables alive: one rank would free stores later than others.
        So frames are inspected only after ranks have waited long, and dropped at once."""
        if now - self._looked > HELD_UP:
            self._floor = self._active = now
        self._looked = now
        since, (events, event), spent = self._since(), self._progress(), self._clock()
        inside, file, line = _place(self._main or 0) if closely else (False, "", 0)
        if since or self._before[0] != events or spent - self._before[1] > WORKING or inside:
            self._active = now  # code that waits inside Diffuse waits for threads, compilers or messages
        self._before = events, spent
        waited = max(0.0, now - max(since, self._floor)) if since else 0.0
        return Report(self._rank, events, event, waited, now - self._active, _said(file, line))


def _place(thread: int) -> tuple[bool, str, int]:
    """Whether a thread is inside Diffuse, and the file and number of the program's innermost line: its own,
    else that of a library."""
    frame: Any = sys._current_frames().get(thread)
    inside = frame is not None and _package(frame) == "diffuse"
    nearest: tuple[str, int] | None = None
    while frame is not None:
        name, file = _package(frame), frame.f_code.co_filename
        if name != "diffuse" and not file.startswith("<frozen"):
            nearest = nearest or (file, frame.f_lineno)
            if name not in sys.stdlib_module_names and f"{os.sep}site-packages{os.sep}" not in file or (
                    name == "__main__"):
                return inside, file, frame.f_lineno
        frame = frame.f_back
    return inside, *(nearest or ("", 0))


def _package(frame: Any) -> str:
    return str((frame.f_globals.get("__name__") or "").partition(".")[0])


def _said(file: str, line: int) -> str:
    """Describe a line: its file, number and text."""
    if not file:
        return "the end of the program"
    text = linecache.getline(file, line).strip()
    return f"{file}:{line}" + (f": {text[:80]}" if text else "")
