"""Loops over slices: is the program going through arrays in small steps?

A program that goes through an array in small steps (rows one after another, windows, single elements) is best
served by NumPy on the array's memory: recording a step costs more than doing it.  But small operations also
stand between large ones, as the boundary conditions of a simulation do; these are recorded, for a wait would
part large tasks that are fused, and recording from computing.  What tells a loop over slices from borders is
how often the same operation of the same line comes back before the next large task.

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
TRUSTED = 8
"""Times that a loop, once found, counts as one from its first turn, until it has to take all turns again.
Each time that it is found again, it is trusted twice as often."""
MOST_TRUSTED = 512
"""Such times, at most."""


class Walk:
    """The small tasks since the last large one, and the loops over slices that were found."""

    __slots__ = ("begun", "counts", "_found", "_trusted")

    def __init__(self) -> None:
        self.begun = False
        """Are small operations to be done at once, after one wait, until a large task comes?"""
        self.counts: dict[tuple[str, Any], int] = {}
        """The small tasks since the last large one, by operation and line of the program."""
        self._found: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """How often operations of loops over slices are still trusted to be in one."""
        self._trusted: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """How often they were trusted when they were found last."""

    def add(self, task: Recorded) -> None:
        """Note a task over few elements of a large store."""
        name = task[0].operation, task[3]
        count = self.counts[name] = self.counts.get(name, 0) + 1
        if count == TURNS:
            trusted = self._trusted[name] = min(2 * self._trusted.get(name, TRUSTED // 2), MOST_TRUSTED)
            self._found[name] = trusted
            self.begun = True
        elif count == 1:
            trusted = self._found.get(name, 0)
            if trusted:
                self._found[name] = trusted - 1
                self.begun = True

    def end(self) -> None:
        """Note that a task over many elements came."""
        self.counts.clear()
        self.begun = False
