"""Learns how a program uses arrays of each shape, as far as that determines how ranks cut them.

An array and its interior have different extents.  Cut separately, they would have different tiles, and
elements would go back and forth.  So a shape follows the largest one that tasks use with it and that is only
a few rows longer.  Constraints of tasks over a shape, such as tiles of whole leaves for the sums of columns,
hold for all tasks over it.  If tasks read neighbours along several dimensions, and nothing prevents it,
arrays are cut into blocks (blocks.py).

Cutting arrays differently moves all of them once.  So it is done when the program comes back to what it
recorded before, so that an iteration of its loop is known, and not for operations that run once.  What is
learned only grows, so that decisions change a few times at most.  All ranks learn the same, from what the
program records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

from diffuse.bounded import Bounded
from diffuse.ir import Decomposition, Frame, Point, volume
from diffuse.ir.template import Template
from diffuse.movement.agreed import machine
from diffuse.movement.machine import Machine
from diffuse.observe import trace
from diffuse.runtime.independent import Independent
from diffuse.stream.blocks import blocks
from diffuse.stream.decompose import by_extents, constraints, refusal
from diffuse.stream.habits import (
    NONE,
    Habits,
    border,
    joined,
    near,
    nearly_all,
    of_fold,
    of_lines,
    of_task,
    reshaped,
)

_numbers = count()


class Shapes:
    """The habits of each shape, and the decompositions that follow from them."""

    __slots__ = ("number", "version", "threads", "doubted", "_machine", "_follows", "_habits", "_chosen")

    def __init__(self, threads: int = 0, machine: Callable[[], Machine] = Machine) -> None:
        self.number = next(_numbers)
        """Counts over all such objects, including those of other runtimes of the process."""
        self.version = 0
        """A number that changes when shapes are cut differently."""
        self.threads = threads
        """The points of a rank that share a block; 0: arrays are cut into rows."""
        self._machine = machine
        """The model of the machine by which grids are compared; it is asked for where there are any."""
        self.doubted: set[Point] = set()
        """Shapes whose habits have changed since it was chosen how they are cut."""
        self._follows: dict[Point, Point] = Bounded(1 << 12)
        """For shapes that follow another one, that longer shape."""
        self._habits: dict[Point, Habits] = Bounded(1 << 12)
        self._chosen: dict[Point, tuple[int, int, Decomposition]] = Bounded(1 << 12)
        """For shapes that follow none: the processors, the chunk, and the decomposition of a task without
        constraints of its own."""

    def root(self, shape: Point) -> Point:
        """The shape that determines how this one is cut."""
        found = shape
        while (longer := self._follows.get(found)) is not None and near(shape, longer):
            found = longer
        return found

    def decomposition(self, template: Template, processors: int, chunk: int) -> Decomposition:
        """Choose the decomposition of a task by itself."""
        root = self.root(template.shape)
        if root not in self._chosen:
            self._chosen[root] = processors, chunk, self._plain(root, processors, chunk)
        found = self._chosen[root][2]
        if len(found.domain) > 1 and refusal(template, found) is None and template.fits(found):
            return found
        return by_extents(root, processors, chunk, *constraints(template), self._known(root).units)

    def learn(self, template: Template, frames: Sequence[Frame], values: Sequence[Any]) -> bool:
        """Learn from a task on stores of these frames; returns whether shapes are now cut differently."""
        before = self.version
        whole = [use for use in template.uses if nearly_all(template.shape, use)]
        # places in other arrays, such as where the rows of a sparse matrix begin, do not decide
        alike = [use.frame for use in whole if use.dtype == template.uses[-1].dtype]
        longest = max(alike, key=sum, default=template.shape)
        for shape in (template.shape, *alike):
            self._follow(self.root(shape), self.root(longest))
        root = self.root(longest)
        self._knows(root, of_task(template, whole))
        self._opposes(root, of_fold(template))
        called = values[0] if values and type(values[0]) is Independent else None
        for number, (use, frame) in enumerate(zip(template.uses, frames, strict=True)):
            own = self.root(frame.shape)
            if reshaped(template, use, frame):
                self._opposes(own, Habits(rows=True))
                self._opposes(root, Habits(rows=True))
            elif use not in whole:
                self._opposes(own, border(use))
            if called is not None:
                self._opposes(own, of_lines(frame.shape, {cut[number] for cut in called.cuts}))
        return self.version != before

    def _opposes(self, root: Point, more: Habits) -> None:
        """Learn a reason against blocks, but only for shapes with a reason for them, so that operations that
        run once at the beginning are ignored.  When shapes are cut differently the whole loop is examined
        again."""
        if self._neighbours(root):
            self._knows(root, more)

    def turn(self) -> bool:
        """Choose the cuts of doubted shapes anew, when a loop comes back to its beginning; returns whether
        any shape is now cut differently."""
        before = self.version
        for root in sorted(self.doubted):
            chosen = self._chosen.get(root)
            if chosen is not None and chosen[2] != (now := self._plain(root, *chosen[:2])):
                self._chosen[root] = *chosen[:2], now
                self.version += 1
                trace.event("decompose", partial(_told, root, chosen[2], now))
        self.doubted.clear()
        return self.version != before

    def _follow(self, one: Point, longer: Point) -> None:
        """Let a shape follow another one, which is at least as long in every dimension."""
        if one != longer and near(one, longer):
            self._follows[one] = longer
            chosen = self._chosen.pop(one, None)
            self._knows(longer, self._known(one))
            if chosen is not None and chosen[2] != self._plain(longer, *chosen[:2]):
                self.version += 1

    def _knows(self, root: Point, more: Habits) -> None:
        """Add habits to a shape."""
        known = self._known(root)
        habits = known if more is NONE else joined(known, more)
        if habits != known:
            self._habits[root] = habits
            self.doubted.add(root)

    def _known(self, root: Point) -> Habits:
        return self._habits.get(root) or NONE

    def _neighbours(self, root: Point) -> bool:
        """Do tasks over a shape read neighbours along several dimensions?"""
        return sum([n > 0 for n in self._known(root).reach(len(root))]) > 1

    def _plain(self, root: Point, processors: int, chunk: int) -> Decomposition:
        """The decomposition of a task over a shape without constraints of its own."""
        habits = self._known(root)
        rows = by_extents(root, processors, chunk, units=habits.units)
        if not self.threads or habits.rows or rows.splits[0].axis < 0 or not self._neighbours(root):
            return rows
        ranks, most = processors // self.threads, volume(root) // chunk
        each = self.threads if most >= processors else 1
        found = blocks(root, rows, min(ranks, most), each, habits.reach(len(root)), habits.units,
                       habits.faces(), habits.partials(root), self._machine())
        return found or rows


def of_ranks(runtime: Any) -> Shapes:
    """Begin to learn the shapes of a program on a runtime's ranks, which share one model of the machine."""
    return Shapes(runtime.blocks, partial(machine, runtime))


def _told(shape: Point, before: Decomposition, now: Decomposition) -> str:
    return f"arrays of shape {shape} are cut into {_parts(now)} from now on, before into {_parts(before)}"


def _parts(decomposition: Decomposition) -> str:
    return "x".join(map(str, decomposition.domain)) + " tiles of " + "x".join(
        [str(split.tile) for split in decomposition.splits])
