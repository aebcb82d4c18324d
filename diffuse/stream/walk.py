"""Detects loops over slices, in which the program traverses arrays in small steps.

If a program traverses an array in small steps (rows one after another, windows, single elements), NumPy on
the array's memory is fastest: recording a step costs more than computing it.  But small operations also occur
between large ones, as the boundary conditions of a simulation; these are recorded, because a wait would
separate large tasks that fuse, and would keep recording from overlapping with computing.  A loop over slices
is recognised by how often the same operation of the same line recurs before the next large task, or by equal
steps through a store.  Small operations that in every iteration stand between a large task and a wait of the
program may as well wait themselves: they separate nothing, and the wait comes in any case.  So may small
operations with new views in every iteration: analysing one takes longer than waiting for a task that is not
too large.  Loops that a program runs at its beginning, where a library computes all at once, are expected to
go on when recording begins.

The rule decides when work is done, but never by which routine: for operations whose kernels differ from NumPy
in the last place, NumPy computes all small arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diffuse.bounded import Bounded
from diffuse.ir.task import Point
from diffuse.ir.template import Recorded
from diffuse.settings import config
from diffuse.stream.window import Window

TURNS = 24
"""How often an operation of a line is recorded on small arrays, without a large task in between, before the
loop around it counts as one over slices: more often than for the faces of three fields, or a formula for
borders."""
EVEN = 6
"""The number of equal steps through a store, from one iteration to the next, after which a loop counts as one
over slices; also the number of waits between an operation and the next large task after which it does."""
NEW = 16
"""How often in a row an operation follows a large task with new views before all small operations after that
large task count as a loop over slices."""
MOST = 1 << 21
"""The most elements of a large task that is waited for because of new views of the small ones after it:
waiting takes about as long as one analysis."""
SHORT = 1 << 19
"""The same limit where the small ones are on small stores: analysing one number per turn takes less time."""
TRUSTED = 32
"""How often a detected loop counts as one over slices from its first iteration, before it has to be detected
again.  Each detection quadruples this number."""
MOST_TRUSTED = 512
"""The largest value of this number."""

Steps = dict[Any, tuple[int, int, int, Point]]
"""By operation and place of the program: the last offset in its store in bytes, the step to it, how often in
a row there was that step, and the extents of the last view."""


def advanced(steps: Steps, name: Any, begin: int, shape: Point = ()) -> int:
    """Note that the operation of this name uses a view with these extents at this offset in its store.
    Returns how often in a row it has advanced by the same step, from one view to the next of equal
    extents."""
    last, before, times, extents = steps.get(name, (begin, 0, 0, shape))
    step = begin - last
    times = 0 if step == 0 else times + 1 if step == before and shape == extents else 1
    steps[name] = begin, step, times, shape
    return times


class Walk:
    """Counts the small tasks since the last large one, and remembers the detected loops over slices."""

    __slots__ = ("begun", "counts", "after", "foreseen", "_window", "_steps", "_new", "_waits", "_waited",
                 "_found", "_trusted")

    def __init__(self, window: Window) -> None:
        self._window = window
        self.begun = False
        """Are small operations to be done at once, after one wait, until a large task comes?"""
        self.counts: dict[tuple[str, Any], int] = {}
        """The number of small tasks since the last large one, by operation and line of the program."""
        self.after: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """For each large task's operation and line, how often small operations after it are still done at
        once, because they have new views."""
        self.foreseen: Callable[[], bool] | None = None
        """Tells, once for each, that a library met a loop over slices before anything was recorded: the next
        operation is assumed to be in that loop."""
        self._steps: Steps = {}
        """The steps of each operation and line since the last large task."""
        self._new: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """For each operation, how many times in a row it had new views."""
        self._waits: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """For each operation, how often in a row the program waited between it and the next large task."""
        self._waited = False
        """Did the program wait since the last large task?"""
        self._found: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """How often each operation is still assumed to be in a loop over slices."""
        self._trusted: dict[tuple[str, Any], int] = Bounded(1 << 10)
        """How often each operation was assumed to be in one when its loop was last detected."""

    def add(self, task: Recorded) -> None:
        """Record a task over few elements of a large store."""
        made = task[0]
        name = made.operation, task[3]
        count = self.counts[name] = self.counts.get(name, 0) + 1
        if count == 1:
            self._look(name, not made.cut)
            self._steps[name] = made.begin, 0, 0, ()
            trusted = self._found.get(name, 0)
            if trusted:
                self._found[name] = trusted - 1
                self.begun = True
            elif not self.begun and self.foreseen is not None and self.foreseen():
                self._find(name)
                self.begun = True
        elif not self.begun and (advanced(self._steps, name, made.begin) >= EVEN
                                 or count >= (TURNS if made.signature else EVEN)):  # a host function has none
            self._find(name)
            self.begun = True

    def meet(self, task: Recorded) -> None:
        """Note a task over few elements of small stores with views that no earlier task had; such a task
        recurs in programs that store a number into a table in every turn of a loop."""
        self._look((task[0].operation, task[3]), True, SHORT)

    def _find(self, name: tuple[str, Any]) -> int:
        """Trust an operation to be in a loop over slices, four times as often as the last time."""
        trusted = self._trusted[name] = min(4 * self._trusted.get(name, TRUSTED // 4), MOST_TRUSTED)
        self._found[name] = trusted
        return trusted

    def _look(self, name: tuple[str, Any], new: bool, most: int = MOST) -> None:
        """Count the tasks of an operation in a row that had new views.  If they are many, small operations
        after the large task before them, if that has at most `most` elements, are done at once from now
        on."""
        count = self._new.pop(name, 0) + 1
        if not new:
            return
        if count >= NEW and not self.begun:
            large = self._before(most)
            if large is not None:
                self.after[large] = self._find(name)
                self.begun = True
                return
        self._new[name] = count

    def _before(self, most: int) -> tuple[str, Any] | None:
        """The operation and line of the large task that is held before the current small ones; None if there
        is none, or if it is too large."""
        window = self._window
        for group in (window.open, *reversed(window.closed)):
            for made, _, _, line in reversed(group.recorded):
                if made.elements >= config.small:
                    return (made.operation, line) if made.elements <= most else None
        return None

    def wait(self) -> None:
        """Record that the program waits for the small tasks since the last large one."""
        self._waited = True
        for name in self.counts:
            times = self._waits[name] = self._waits.get(name, 0) + 1
            if times >= EVEN and not self._found.get(name, 0):
                self._find(name)

    def end(self, task: Recorded) -> None:
        """Record a task over many elements."""
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
