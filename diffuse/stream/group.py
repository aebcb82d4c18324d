"""A group: a fusible prefix of the window, its tasks and its position in the memo."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from diffuse.fusion.canonical import Numbering
from diffuse.fusion.constraints import Effects
from diffuse.ir import IndexTask, Point
from diffuse.ir.template import Recorded, Template
from diffuse.kernels.body import operations
from diffuse.stream.cuts import Cuts
from diffuse.stream.memo import Chain, Later, Trail, decomposed, links
from diffuse.stream.outline import Outline
from diffuse.stream.sketch import Sketch


class Analysis:
    """The canonical numbers, the cuts, the effects and the kernel's outline of the tasks of a group.

    It is made on demand: most groups were recorded before, and need no analysis.
    """

    __slots__ = ("numbering", "cuts", "effects", "outline")

    def __init__(self) -> None:
        self.numbering = Numbering()
        self.cuts = Cuts()
        self.effects = Effects()
        self.outline = Outline(self.numbering)


class Group:
    """A prefix that is being built or waits to be forwarded: its tasks, and its position in the memo."""

    __slots__ = ("number", "recorded", "slots", "trail", "analysis", "numbered", "analysed", "first",
                 "reason", "calls", "shape", "shapes", "long", "room", "behind", "sketch", "unlike", "_tasks",
                 "_chain")

    def __init__(self, number: int, start: Trail, long: int, room: int) -> None:
        self.number = number
        """The number of the group; later groups have larger numbers."""
        self.recorded: list[Recorded] = []
        self.slots: dict[int, int] = {}
        """Its stores, numbered by first use."""
        self.trail = start
        self.analysis: Analysis | None = None
        self.sketch: Sketch | None = None
        self.numbered = self.analysed = 0
        """Tasks that the analysis has numbered, and whose effects and outline it knows."""
        self.first: tuple[Any, ...] = ()
        """The operation and the line of its first task."""
        self.shape: Point = ()
        """The iteration space of its first task."""
        self.calls: tuple[Any, ...] | None = None
        """The user's calls that led to its first task; None if they were not looked up."""
        self.reason: Any = ""
        """The reason why it was closed."""
        self.shapes: set[Point] = set()
        """Iteration spaces of its tasks."""
        self.long = long
        """The number of tasks from which on it is closed when the stream comes back to its first call."""
        self.behind = 0
        """The number of tasks of its region that were added before it (regions.py)."""
        self.room = room
        """The weight at which to check again how much memory of dropped stores the group needs."""
        self.unlike = -1, -1
        """The slot `Trail.unlike`, and its store, as the last look of early.py found it."""
        self._tasks: list[IndexTask] = []
        self._chain: Chain = None
        """The templates of the cached index tasks."""

    @property
    def tasks(self) -> list[IndexTask]:
        """The decomposed index tasks, built on demand."""
        chain, begun, depth = self.trail.templates, len(self._tasks), self.trail.node.depth
        for _ in range(begun, depth):
            assert chain is not None
            chain, _ = chain
        if chain is not self._chain:  # decomposed anew since they were made
            self._tasks, self._chain = [], None
            return self.tasks
        new = links(self.trail.templates, depth - begun)
        self._tasks += [decomposed(template).task(self.recorded[begun + k]) for k, template in enumerate(new)]
        self._chain = self.trail.templates
        return self._tasks

    def picked(self, numbers: Iterable[int], cut: bool = True) -> dict[int, IndexTask]:
        """The decomposed index tasks with these numbers; building each takes as long as recording it.
        `cut`: with partitions, and privileges of completed reductions."""
        found, templates = {}, links(self.trail.templates, self.trail.node.depth)
        for number in numbers:
            one, task = templates[number], self.recorded[number]
            found[number] = (decomposed(one).task(task) if cut or not isinstance(one, Later)
                             else one.template.task(task, one.decomposition))
        return found

    def made(self, task: IndexTask, trail: Trail) -> None:
        """Cache the index task of the operation that made this trail."""
        self._tasks.append(task)
        self._chain = trail.templates

    def begin(self) -> Analysis:
        """Begin the analysis, or begin it again because the tasks were decomposed anew."""
        analysis = self.analysis = Analysis()
        self.numbered = self.analysed = 0
        return analysis

    @property
    def domain(self) -> Point:
        """The launch domain of all tasks except those of the epilogue."""
        return self.trail.domain

    @property
    def opaque(self) -> bool:
        return opaque(self.recorded[0][0])


def opaque(task: IndexTask | Template) -> bool:
    """Is it a host function?  The analysis cannot see its accesses, so it fuses with nothing."""
    return not operations.known(task.operation)
