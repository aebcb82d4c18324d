"""Detects loops over slices, in which the program goes through arrays in small steps.

A program that goes through an array in small steps (rows one after another, windows, single elements) is best
served by NumPy on the array's memory: recording a step costs more than doing it.  But small operations also
stand between large ones, as the boundary conditions of a simulation do; these are recorded, for a wait would
part large tasks that are fused, and recording from computing.  What tells a loop over slices from borders is
how often the same operation of the same line comes back before the next large task, or that it goes through a
store in equal steps.  Small operations between a large task and a wait of the program, turn after turn, might
as well wait themselves: nothing large is parted, and the wait comes in any case.  So might small operations
that come with other views every turn: to analyse one takes longer than to wait for a task that is not too
large.

The rule decides when work is done, and never by which routine: operations whose kernels differ from NumPy in
the last place go to NumPy for all small arrays.
"""

from __future__ import annotations

from typing import Any

from diffuse.ir.bounded import Bounded
from diffuse.ir.template import Recorded
from diffuse.settings import config
from diffuse.stream.window import Window

TURNS = 24
"""How often an operation of a line is recorded on small arrays, without a large task between, before the loop
around it counts as one over slices: more often than for the faces of three fields, or a formula for
borders."""
EVEN = 6
"""The number of equal steps through a store, from one iteration to the next, after which a loop counts as one
over slices at once; and of waits of the program between an operation and the next large task, after which it
counts as part of such a loop."""
NEW = 16
"""How often in a row an operation comes behind a large task with views that no task had before, after which
all small operations behind that large task count as a loop over slices."""
MOST = 1 << 21
"""The most elements of a large task that is waited for because of new views of the small ones behind it: as
many as take about as long as one analysis."""
TRUSTED = 32
"""How often a loop that was found counts as one over slices from its first iteration, before it has to be
found anew.  Each time that it is found again this number quadruples."""
MOST_TRUSTED = 512
"""The most that this number grows to."""


class Walk:
    """Counts the small tasks since the last large one, and remembers the loops over slices that were
    found."""

    __slots__ = ("begun", "counts", "after", "_window", "_steps", "_new", "_waits", "_waited", "_found",
                 "_trusted")

    def __init__(self, window: Window) -> None:
        self._window = window
        self.begun = False
        """Are small operations to be done at once, after one wait, until a large task comes?"""
        self.counts: dict[tuple[str, Any], int] = {}
        """The number of small tasks since the last large one, by operation and line of the program."""
        self.after: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """How often small operations are still to be done at once behind a large task of this operation and
        line, since they bring new views."""
        self._steps: dict[tuple[str, Any], tuple[int, int, int]] = {}
        """For each of these, its last offset in its store in bytes, the last step, and how often in a row
        that step was the same."""
        self._new: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """With how many new views in a row each operation came."""
        self._waits: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """For each operation, how often in a row the program waited between it and the next large task."""
        self._waited = False
        """Did the program wait since the last large task?"""
        self._found: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """How often each operation is still taken to be in a loop over slices."""
        self._trusted: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """How often each operation was to be taken so when its loop was last found."""

    def add(self, task: Recorded) -> None:
        """Note a task over few elements of a large store."""
        made = task[0]
        name = made.operation, task[3]
        count = self.counts[name] = self.counts.get(name, 0) + 1
        if count == 1:
            self._look(name, not made.chosen)
            self._steps[name] = made.begin, 0, 0
            trusted = self._found.get(name, 0)
            if trusted:
                self._found[name] = trusted - 1
                self.begun = True
        elif not self.begun and (self._even(name, made.begin)
                                 or count >= (TURNS if made.signature else EVEN)):  # a host function has none
            self._find(name)
            self.begun = True

    def _find(self, name: tuple[str, Any]) -> int:
        """Trust an operation to be in a loop over slices, four times as often as the last time."""
        trusted = self._trusted[name] = min(4 * self._trusted.get(name, TRUSTED // 4), MOST_TRUSTED)
        self._found[name] = trusted
        return trusted

    def _look(self, name: tuple[str, Any], new: bool) -> None:
        """Note whether an operation comes with new views, the first time since the last large task."""
        count = self._new.pop(name, 0) + 1
        if not new:
            return
        if count >= NEW and not self.begun:
            large = self._before()
            if large is not None:
                self.after[large] = self._find(name)
                self.begun = True
                return
        self._new[name] = count

    def _before(self) -> tuple[str, Any] | None:
        """Return the operation and line of the large task that is held before the small ones of now; None if
        there is none, or if it is too large."""
        window = self._window
        for group in (window.open, *reversed(window.closed)):
            for made, _, _, line in reversed(group.recorded):
                if made.elements >= config.small:
                    return (made.operation, line) if made.elements <= MOST else None
        return None

    def wait(self) -> None:
        """Note that the program waits for small tasks since the last large one."""
        self._waited = True
        for name in self.counts:
            times = self._waits[name] = self._waits.get(name, 0) + 1
            if times >= EVEN and not self._found.get(name, 0):
                self._find(name)

    def _even(self, name: tuple[str, Any], begin: int) -> bool:
        """Did an operation take equal steps up to this place in its store?"""
        last, step, times = self._steps[name]
        times = times + 1 if begin - last == step != 0 else 1
        self._steps[name] = begin, begin - last, times
        return times >= EVEN

    def end(self, task: Recorded) -> None:
        """Note that a task over many elements came."""
        if not self._waited:
            for name in self.counts:
                self._waits.pop(name, None)
        self._waited = False
        self.counts.clear()
        self._steps.clear()
        name = task[0].operation, task[3]
        trusted = self.after.get(name, 0)
        self.begun = trusted > 0 and task[0].elements <= MOST
        if trusted > 1:
            self.after[name] = trusted - 1
        elif trusted:
            del self.after[name]
