"""The window: tasks in program order in, fusible prefixes (groups) out.

A group is the longest fusible prefix of what follows the group before it.  It is found one task at a time by
walking the memo (memo.py): on a trail, if the program recorded the same before; else by the task's canonical
row; and by analysis (fusion.py) where nobody walked at all.  Closed groups wait, so that the program can let
go of what it no longer needs before they are planned.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from diffuse.fusion.canonical import Numbering
from diffuse.fusion.constraints import Effects, admit
from diffuse.ir import IndexTask, Point, volume
from diffuse.ir.template import Pattern, Recorded
from diffuse.kernels.body import operations
from diffuse.observe import trace
from diffuse.observe.provenance import calls
from diffuse.stream.memo import Memo, Trail

FIRST_SIZE = 64
"""Tasks held before the first one is forwarded, when the window's size is automatic."""
LARGEST_SIZE = 2048
MOST_WORK = 5_000_000_000
"""Operations times elements of a group that makes the window grow, at most."""
LOOP = 64
"""A group at least this long is closed when the stream comes back to the call that began it, through the same
calls of the user's functions, so that every turn of the user's loop makes the same groups."""


class Group:
    """A prefix being built or waiting: its tasks, and where it stands in the memo."""

    __slots__ = ("recorded", "slots", "trail", "numbering", "effects", "numbered", "analysed", "first",
                 "reason", "cut", "calls", "shapes", "_tasks")

    def __init__(self, start: Trail) -> None:
        self.recorded: list[Recorded] = []
        self.slots: dict[int, int] = {}
        """Its stores, numbered by first use."""
        self.trail = start
        self.numbering = Numbering()
        self.effects = Effects()
        self.numbered = self.analysed = 0
        """Tasks that `numbering` and `effects` know of."""
        self.first: tuple[Any, ...] | None = None
        """Operation, line and shape of its first task."""
        self.calls: tuple[Any, ...] | None = None
        """The user's calls that led to its first task; None if nobody looked."""
        self.reason: Any = ""
        """Why it was closed."""
        self.shapes: set[Point] = set()
        """Iteration spaces of its tasks."""
        self.cut: Pattern | None = None
        """The last task that several points share by rows."""
        self._tasks: list[IndexTask] = []

    @property
    def tasks(self) -> list[IndexTask]:
        """The tasks themselves, made when somebody asks."""
        for recorded in self.recorded[len(self._tasks):]:
            self._tasks.append(recorded.task())
        return self._tasks

    @property
    def opaque(self) -> bool:
        return opaque(self.recorded[0].pattern)


class Window:
    """Tasks held back: closed groups, oldest first, and the one that is open.

    `pending` counts the groups that use each store, until somebody takes them.
    """

    def __init__(self, pending: dict[int, int]) -> None:
        self.memo = Memo()
        self.pending = pending
        self.closed: deque[Group] = deque()
        self.open = Group(self.memo.start)
        self.held = 0
        self.size = FIRST_SIZE
        self.seen_again: set[tuple[Any, ...]] = set()
        """First tasks that a long group came back to, or seemed to."""

    def add(self, recorded: Recorded) -> None:
        """The task joins the open group, or closes it and begins the next."""
        pattern, stores, _, where = recorded
        shape, group = pattern.shape, self.open
        if (len(group.recorded) >= LOOP and group.first == (pattern.operation, where, shape)
                and self._comes_back(group)):
            group = self.close("the loop comes back to its first call")
        if shape not in group.shapes:
            if group.recorded and not pattern.single and group.slots.keys().isdisjoint(stores):
                # over other iterations, and of other stores: fusing it would gain nothing, and keep it from
                # what comes after it
                group = self.close("the next task shares neither iterations nor data with these")
            group.shapes.add(shape)
        edge = self._edge(group, recorded)
        if edge.__class__ is not Trail:
            group = self.close(edge)
            group.shapes.add(shape)
            edge = self._edge(group, recorded)
        if not group.recorded:
            group.first = (pattern.operation, where, shape)
            group.calls = calls() if group.first in self.seen_again else None
        if pattern.by_rows:
            group.cut = pattern
        group.recorded.append(recorded)
        group.trail = edge
        self.held += 1

    def _edge(self, group: Group, recorded: Recorded) -> Any:
        """Where the trail of a group leads on with a task: to another, or to a refusal."""
        slots, pending = group.slots, self.pending
        known = len(slots)
        key: list[Any] = [recorded[0]]
        for store in recorded[1]:
            slot = slots.get(store)
            if slot is None:
                slot = slots[store] = len(slots)
                pending[store] = pending.get(store, 0) + 1
            key.append(slot)
        name = tuple(key)
        edge = group.trail.edges.get(name)
        if edge is None:
            edge = self._untrodden(group, recorded, name)
        if edge.__class__ is not Trail:
            for store in list(slots)[known:]:
                del slots[store]
                if pending[store] == 1:
                    del pending[store]
                else:
                    pending[store] -= 1
        return edge

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

    def _untrodden(self, group: Group, recorded: Recorded, name: tuple[Any, ...]) -> Any:
        """The same by the canonical row of the task; nobody recorded this here before."""
        tasks, task = group.tasks, recorded.task()
        for earlier in tasks[group.numbered:]:
            group.numbering.row(earlier)
        row = group.numbering.row(task)
        group.numbered = len(tasks) + 1
        node = group.trail.node
        edge = node.edges.get(row)
        if edge is None:
            for earlier in tasks[group.analysed:]:
                group.effects.add(earlier)
            group.analysed = len(tasks)
            refusal = admit(group.effects, task, opaque)
            if refusal is None:
                edge = self.memo.joined(node, row)
            else:
                trace.count("refusals")
                trace.event("refusal", lambda: str(refusal))
                edge = self.memo.refused(node, row, refusal)
        return self.memo.trodden(group.trail, name, edge)

    def close(self, reason: Any) -> Group:
        """What comes next begins a new group: that one."""
        group = self.open
        if group.recorded:
            group.reason = reason
            self.closed.append(group)
            self.memo.trim()
            self.open = Group(self.memo.start)
        return self.open

    def mend(self) -> None:
        """After an exception at any moment: a task that had not joined the open group is not there, and what
        was half numbered goes no further."""
        group = self.open
        if not (self.closed and self.closed[-1] is group):
            del group.recorded[group.trail.node.depth:]
            del group._tasks[len(group.recorded):]
            group.slots = {}
            for recorded in group.recorded:
                for store in recorded.stores:
                    group.slots.setdefault(store, len(group.slots))
            self.close("an exception")
        self.open = Group(self.memo.start)
        self.held = sum(len(group.recorded) for group in self.closed)

    @property
    def heavy(self) -> bool:
        """Is the open group worth about half a second?  It runs as one launch, which nothing stops."""
        shapes = self.open.shapes
        return len(self.open.recorded) * max([volume(shape) for shape in shapes], default=0) > MOST_WORK

    def forget(self) -> None:
        """Analyse anew whatever comes; nothing may be held."""
        self.memo.clear()
        self.open = Group(self.memo.start)

    def take(self) -> Group:
        """The oldest closed group, no longer held."""
        group = self.closed.popleft()
        self.held -= len(group.recorded)
        return group

    def full(self) -> bool:
        """Is there a group to forward because more is held than the window's size?

        One closed group stays, for its successor may share its pass over memory, unless it is most of the
        window.
        """
        if self.held < self.size or not self.closed:
            return False
        return len(self.closed) > 1 or len(self.open.recorded) < self.held // 2


def opaque(task: IndexTask | Pattern) -> bool:
    """A host function: nobody can see into it, so it fuses with nothing."""
    return not operations.known(task.operation)
