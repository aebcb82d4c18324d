"""Loops over slices: is the program going through arrays in small steps?

A program that goes through an array in small steps (rows one after another, windows, single elements) is best
served by NumPy on the array's memory: recording a step costs more than doing it.  But small operations also
stand between large ones, as the boundary conditions of a simulation do; these are recorded, for a wait would
part large tasks that are fused, and recording from computing.  What tells a loop over slices from borders is
how often the same operation of the same line comes back before the next large task, or that it goes through a
store in equal steps.

The rule decides when work is done, and never by which routine: operations whose kernels differ from NumPy in
the last place go to NumPy for all small arrays.
"""

from __future__ import annotations

from typing import Any

from diffuse.ir.bounded import Bounded
from diffuse.ir.template import Recorded

TURNS = 24
"""Times that an operation of a line is recorded on small arrays, with no large task between, before the loop
around it counts as one over slices: more than the faces of three fields, or a formula for a few borders."""
EVEN = 6
"""Equal steps through a store, from one turn to the next, after which it counts as one at once."""
TRUSTED = 8
"""Times that a loop, once found, counts as one from its first turn, until it has to take all turns again.
Each time that it is found again, it is trusted twice as often."""
MOST_TRUSTED = 512
"""Such times, at most."""


class Walk:
    """The small tasks since the last large one, and the loops over slices that were found."""

    __slots__ = ("begun", "counts", "_steps", "_found", "_trusted")

    def __init__(self) -> None:
        self.begun = False
        """Are small operations to be done at once, after one wait, until a large task comes?"""
        self.counts: dict[tuple[str, Any], int] = {}
        """The small tasks since the last large one, by operation and line of the program."""
        self._steps: dict[tuple[str, Any], tuple[int, int, int]] = {}
        """Where each of them was in its store last, in bytes, the step that led there, and how often in a row
        it was the same."""
        self._found: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """How often operations of loops over slices are still trusted to be in one."""
        self._trusted: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """How often they were trusted when they were found last."""

    def add(self, task: Recorded) -> None:
        """Note a task over few elements of a large store."""
        name = task[0].operation, task[3]
        count = self.counts[name] = self.counts.get(name, 0) + 1
        if count == 1:
            self._steps[name] = task[0].begin, 0, 0
            trusted = self._found.get(name, 0)
            if trusted:
                self._found[name] = trusted - 1
                self.begun = True
        elif not self.begun and (self._even(name, task[0].begin) or count >= TURNS):
            trusted = self._trusted[name] = min(2 * self._trusted.get(name, TRUSTED // 2), MOST_TRUSTED)
            self._found[name] = trusted
            self.begun = True

    def _even(self, name: tuple[str, Any], begin: int) -> bool:
        """Did an operation take equal steps up to this place in its store?"""
        last, step, times = self._steps[name]
        times = times + 1 if begin - last == step != 0 else 1
        self._steps[name] = begin, begin - last, times
        return times >= EVEN

    def end(self) -> None:
        """Note that a task over many elements came."""
        self.counts.clear()
        self._steps.clear()
        self.begun = False
