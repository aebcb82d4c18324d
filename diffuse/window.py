"""The window: tasks in program order in, fusible prefixes (groups) out.

A group is the longest fusible prefix of what follows the group before it.  It is found one task at a time by
walking the memo (memo.py), and analysed (fusion.py) only where nobody walked before.  Closed groups wait, so
that the program can let go of what it no longer needs before they are planned.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from diffuse import trace
from diffuse.canonical import Numbering
from diffuse.fusion import Effects, admit
from diffuse.ir import IndexTask, Point, Split
from diffuse.kernels import generators
from diffuse.launch import ONE
from diffuse.memo import Memo, Node
from diffuse.provenance import calls

FIRST_SIZE = 64
"""Tasks held before the first one is forwarded, when the window's size is automatic."""
LARGEST_SIZE = 2048
LOOP = 64
"""A group at least this long is closed when the stream comes back to the call that began it, through the same
calls of the user's functions, so that every turn of the user's loop makes the same groups."""
ONE_POINT = ONE[0]


class Group:
    """A prefix being built or waiting: its tasks, and where it stands in the memo."""

    __slots__ = ("tasks", "numbering", "node", "effects", "analysed", "first", "reason", "cut",
                 "calls", "shapes")

    def __init__(self, node: Node) -> None:
        self.tasks: list[IndexTask] = []
        self.numbering = Numbering()
        self.node = node
        self.effects = Effects()
        self.analysed = 0
        self.first: tuple[Any, ...] | None = None
        """Operation, line and shape of its first task."""
        self.calls: tuple[Any, ...] | None = None
        """The user's calls that led to its first task; None if nobody looked."""
        self.reason: Any = ""
        """Why it was closed."""
        self.shapes: set[Point] = set()
        """Iteration spaces of its tasks."""
        self.cut: IndexTask | None = None
        """The last task that several points share by rows."""

    def stranger(self, task: IndexTask) -> bool:
        """Does a task over another space touch no store of the group?  Then fusing it would gain nothing, and
        keep it from what comes after it."""
        slots = self.numbering.slots
        return not any([access.store.id in slots for access in task.accesses])

    @property
    def opaque(self) -> bool:
        return opaque(self.tasks[0])


class Window:
    """Tasks held back: closed groups, oldest first, and the one that is open."""

    def __init__(self) -> None:
        self.memo = Memo()
        self.closed: deque[Group] = deque()
        self.open = Group(self.memo.root)
        self.held = 0
        self.size = FIRST_SIZE
        self.seen_again: set[tuple[Any, ...]] = set()
        """First tasks that a long group came back to, or seemed to."""

    def beside(self, shape: Point) -> tuple[Point, tuple[Split, ...]]:
        """The launch of a small task: cut like the large one before it when it has as many rows, so that the
        columns at a border join the interior; else one point."""
        cut = self.open.cut
        if cut is not None and shape and shape[0] == cut.shape[0]:
            return cut.domain, cut.splits
        return ONE

    def add(self, task: IndexTask) -> None:
        """The task joins the open group, or closes it and begins the next."""
        group = self.open
        if (len(group.tasks) >= LOOP and group.first == (task.operation, task.where, task.shape)
                and self._comes_back(group)):
            self.close("the loop comes back to its first call")
            group = self.open
        if task.shape not in group.shapes:
            if group.tasks and task.domain != ONE_POINT and group.stranger(task):
                self.close("the next task shares neither iterations nor data with these")
                group = self.open
            group.shapes.add(task.shape)
        row = group.numbering.row(task)
        edge: Any = group.node.edges.get(row)
        if edge is None:
            edge = self._analyse(group, task, row)
        if type(edge) is not Node:
            self.close(edge)
            group = self.open
            group.shapes.add(task.shape)
            row = group.numbering.row(task)
            edge = group.node.edges.get(row)
            if edge is None:
                edge = self._analyse(group, task, row)
        if not group.tasks:
            group.first = (task.operation, task.where, task.shape)
            group.calls = calls() if group.first in self.seen_again else None
        if task.domain != ONE_POINT and task.splits[0].axis == 0:
            group.cut = task
        group.tasks.append(task)
        group.node = edge
        self.held += 1

    def _comes_back(self, group: Group) -> bool:
        """Is it a turn of a loop, or the user's function called from elsewhere?

        Looking at all calls costs as much as half an operation, and few groups are so long: only those are
        asked where they come from that begin as one did that was.
        """
        if group.calls is None:
            if len(self.seen_again) >= LARGEST_SIZE:
                self.seen_again.clear()
            assert group.first is not None
            self.seen_again.add(group.first)
            return True
        return group.calls == calls(3)

    def _analyse(self, group: Group, task: IndexTask, row: tuple[Any, ...]) -> Any:
        """Ask the constraints about a task that nobody saw in this place before."""
        for earlier in group.tasks[group.analysed:]:
            group.effects.add(earlier)
        group.analysed = len(group.tasks)
        refusal = admit(group.effects, task, opaque)
        if refusal is not None:
            trace.count("refusals")
            trace.event("refusal", lambda: str(refusal))
            return self.memo.refused(group.node, row, refusal)
        return self.memo.joined(group.node, row)

    def close(self, reason: Any) -> None:
        """What comes next begins a new group."""
        group = self.open
        if group.tasks:
            group.reason = reason
            self.closed.append(group)
            self.memo.trim()
            self.open = Group(self.memo.root)

    def mend(self) -> None:
        """After an exception at any moment: a task that had not joined the open group is not there, and what
        was half numbered goes no further."""
        group = self.open
        if not (self.closed and self.closed[-1] is group):
            del group.tasks[group.node.depth:]
            self.close("an exception")
        self.open = Group(self.memo.root)
        self.held = sum(len(group.tasks) for group in self.closed)

    def take(self) -> Group:
        """The oldest closed group, no longer held."""
        group = self.closed.popleft()
        self.held -= len(group.tasks)
        return group

    def full(self) -> bool:
        """Is there a group to forward because more is held than the window's size?

        One closed group stays, for its successor may share its pass over memory, unless it is most of the
        window.
        """
        if self.held < self.size or not self.closed:
            return False
        return len(self.closed) > 1 or len(self.open.tasks) < self.held // 2


def opaque(task: IndexTask) -> bool:
    """A host function: nobody can see into it, so it fuses with nothing."""
    return not generators.fusible(task.operation)
