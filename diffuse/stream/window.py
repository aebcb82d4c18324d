"""The window: tasks in program order in, fusible prefixes (groups) out.

A group is the longest fusible prefix of what follows the group before it.  It is found one task at a time by
walking the memo (memo.py): on a trail, if the program recorded the same before; else the task is decomposed
(decompose.py) and found by its canonical row, or analysed (fusion/constraints.py).  Closed groups wait, so
that the program can let go of what it no longer needs before they are planned.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from diffuse.fusion.constraints import Refusal, admit, prefix
from diffuse.ir import ONE, Decomposition, IndexTask, Point, volume
from diffuse.ir.template import Recorded, Template
from diffuse.kernels.body import operations
from diffuse.observe import trace
from diffuse.observe.provenance import calls
from diffuse.settings import config
from diffuse.stream.analysis import Analysis
from diffuse.stream.cuts import alike
from diffuse.stream.decompose import decompose, followed
from diffuse.stream.memo import Chain, Memo, Node, Trail
from diffuse.stream.outline import MOST_COST, MOST_LOOPS, dropped_bytes, spilled_bytes
from diffuse.stream.stores import Stores

if TYPE_CHECKING:
    from diffuse.stream.shapes import Shapes

FIRST_SIZE = 64
"""Tasks held before the first one is forwarded, when the window's size is automatic."""
LARGEST_SIZE = 2048
MOST_WORK = 5_000_000_000
"""The window grows only if the work of its group (operations times elements) is at most this."""
BORDER = 64
"""The most tasks before a large one that are cut like it."""
LOOP = 64
"""A group at least this long is closed when the stream comes back to the call that began it, through the same
calls of the user's functions, so that every turn of the user's loop makes the same groups."""
MANY_LOOPS = MOST_LOOPS // 4
"""Loops of a kernel from which on its group is closed where the stream comes back to the call that began it,
over whatever extents."""
SPARE = 16 << 20
"""Bytes.  A group is closed when the stores that the program dropped, but that need memory until the group
has run, are more than this and more than half of what the program holds.  When they are half of that, it is
closed where the stream comes back to the call that began it."""
CHAIN = 16
"""The most tasks of a short chain that the program may wait for as a whole (waits.py)."""


class Group:
    """A prefix being built or waiting: its tasks, and where it stands in the memo."""

    __slots__ = ("number", "recorded", "slots", "trail", "analysis", "numbered", "analysed", "first",
                 "reason", "calls", "shape", "shapes", "long", "room", "_tasks", "_chain")

    def __init__(self, number: int, start: Trail) -> None:
        self.number = number
        """Later groups have larger numbers."""
        self.recorded: list[Recorded] = []
        self.slots: dict[int, int] = {}
        """Its stores, numbered by first use."""
        self.trail = start
        self.analysis: Analysis | None = None
        self.numbered = self.analysed = 0
        """Tasks that the analysis has numbered, and whose effects and outline it knows."""
        self.first: tuple[Any, ...] = ()
        """Operation and line of its first task."""
        self.shape: Point = ()
        """The iteration space of its first task."""
        self.calls: tuple[Any, ...] | None = None
        """The user's calls that led to its first task; None if nobody looked."""
        self.reason: Any = ""
        """Why it was closed."""
        self.shapes: set[Point] = set()
        """Iteration spaces of its tasks."""
        self.long = LOOP
        """Tasks from which on it is closed where the stream comes back to its first call."""
        self.room = SPARE // 2
        """The weight at which to look again how many of the stores that need memory the program dropped."""
        self._tasks: list[IndexTask] = []
        self._chain: Chain = None
        """The templates that these were made of."""

    @property
    def tasks(self) -> list[IndexTask]:
        """The decomposed index tasks, built on demand."""
        chain, new = self.trail.templates, []
        for _ in range(len(self._tasks), self.trail.node.depth):
            assert chain is not None
            chain, template = chain
            new.append(template)
        if chain is not self._chain:  # decomposed anew since they were made
            self._tasks, self._chain = [], None
            return self.tasks
        begun = len(self._tasks)
        self._tasks += [template.task(self.recorded[begun + k]) for k, template in enumerate(reversed(new))]
        self._chain = self.trail.templates
        return self._tasks

    def picked(self, numbers: set[int]) -> dict[int, IndexTask]:
        """The decomposed index tasks of these numbers; each takes as long to build as to record."""
        found, chain = {}, self.trail.templates
        for number in range(self.trail.node.depth - 1, -1, -1):
            assert chain is not None
            chain, template = chain
            if number in numbers:
                found[number] = template.task(self.recorded[number])
        return found

    def made(self, task: IndexTask, trail: Trail) -> None:
        """Keep the index task of the operation that makes this trail of the group's own."""
        self._tasks.append(task)
        self._chain = trail.templates

    def begin(self) -> Analysis:
        """Begin the analysis, or begin it anew because the tasks were decomposed anew."""
        analysis = self.analysis = Analysis()
        self.numbered = self.analysed = 0
        return analysis

    @property
    def domain(self) -> Point:
        """The launch domain of all tasks but those of the epilogue."""
        return self.trail.domain

    @property
    def opaque(self) -> bool:
        return opaque(self.recorded[0][0])


class Window:
    """Tasks held back: closed groups, oldest first, and the one that is open."""

    __slots__ = ("memo", "shapes", "stores", "closed", "held", "size", "loop_heads", "open", "_number",
                 "__dict__")

    def __init__(self, stores: Stores) -> None:
        self.memo = Memo()
        self.shapes: Shapes | None = None
        """What the program does with arrays of each shape, once ranks hold parts of them."""
        self.stores = stores
        self.closed: deque[Group] = deque()
        self.held = 0
        self.size = FIRST_SIZE
        self.loop_heads: set[tuple[Any, ...]] = set()
        """First tasks of long groups that the stream came back to, or seemed to."""
        self._number = 0
        self.open = self._begun()

    def _begun(self) -> Group:
        """Begin a new open group."""
        self._number += 1
        group = self.open = Group(self._number, self.memo.start)
        return group

    def add(self, recorded: Recorded) -> None:
        """Add a task to the open group, or close that and begin the next one with the task.  One that joins
        as it did before is found on the group's trail, whatever else is looked at the first time."""
        template, stores, _, where = recorded
        group, held = self.open, self.open.recorded
        if held and (len(held) < group.long or held[0][3] is not where):
            slots, users, number = group.slots, self.stores.users, group.number
            known = len(slots)
            key: list[Any] = [template]
            for store in stores:
                slot = slots.get(store)
                if slot is None:
                    slot = slots[store] = len(slots)
                    users[store] = number
                key.append(slot)
            edge = group.trail.edges.get(tuple(key))
            if edge.__class__ is Trail:
                group.shapes.add(template.shape)
                held.append(recorded)
                group.trail = edge
                self.held += 1
                if edge.weight > group.room:
                    self._weigh(group)
                return
            for store in list(slots)[known:]:
                del slots[store]
        self._join(recorded)

    def _join(self, recorded: Recorded) -> None:
        """The same for a task of which it is not known that it joins the open group."""
        template, stores, _, where = recorded
        shape, group = template.shape, self.open
        if (len(group.recorded) >= group.long and group.first == (template.operation, where)
                and (shape == group.shape or group.long == 1) and self._comes_back(group)):
            group = self.close("the loop comes back to its first call")
        if shape not in group.shapes:
            if (group.recorded and group.slots.keys().isdisjoint(stores) and self._large(template)
                    and not alike(template, group.trail.beside)):
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
            group.first, group.shape = (template.operation, where), shape
            group.calls = calls() if group.first in self.loop_heads else None
        group.recorded.append(recorded)
        group.trail = edge
        self.held += 1
        if edge.weight > group.room:
            self._weigh(group)

    def _weigh(self, group: Group) -> None:
        """Close a group that would hold much memory of stores that the program has dropped; prepare to close
        one that would hold half as much, or has many loops, when the loop comes back."""
        node = group.trail.node
        dropped = dropped_bytes(node, list(group.slots), self.stores)
        most = max(SPARE, self.stores.held_bytes() // 2)
        if dropped > most:
            self.close("it holds as much memory of dropped stores as it may")
            return
        if dropped > most // 2 or node.loops >= MANY_LOOPS:
            group.long = 1
        left = (most if dropped > most // 2 else most // 2) - dropped
        group.room = group.trail.weight + max(left, most // 16)  # looking takes as long as recording

    def _large(self, template: Template) -> bool:
        """Would several points share the task by itself?"""
        return self._decomposed(template, None).domain != ONE.domain

    def _decomposed(self, template: Template, beside: Decomposition | None) -> Template:
        """Decompose a template as a task that stands beside others."""
        runtime = self.stores.runtime
        return decompose(template, beside, runtime.points, config.min_chunk, not runtime.addressed,
                         runtime.completes, self._shapes)

    @property
    def _shapes(self) -> Shapes | None:
        """What is known of shapes where ranks hold parts of arrays, as their shapes ask; else None."""
        runtime = self.stores.runtime
        if runtime.blocks == 0 or runtime.ranks == 1:
            return None
        if self.shapes is None:
            from diffuse.stream.shapes import Shapes  # not where there is one rank

            self.shapes = Shapes(runtime.blocks)
        return self.shapes

    def _learn(self, recorded: Recorded) -> None:
        """Learn from a task that was not recorded here before how ranks should cut arrays of its shape."""
        template, stores, values, _ = recorded
        shapes = self._shapes
        storages = self.stores.storages
        if shapes is not None and shapes.learn(template, [storages[store] for store in stores], values):
            self.memo.forget_trails()

    def _edge(self, group: Group, recorded: Recorded) -> Any:
        """Follow the trail of a group by one task: the next trail, or why the task stays out."""
        slots, users, number = group.slots, self.stores.users, group.number
        known = len(slots)
        key: list[Any] = [recorded[0]]
        for store in recorded[1]:
            slot = slots.get(store)
            if slot is None:
                slot = slots[store] = len(slots)
                users[store] = number
            key.append(slot)
        name = tuple(key)
        edge = group.trail.edges.get(name)
        if (self.shapes is not None and self.shapes.doubted and edge is not None
                and group.trail is self.memo.start and self.shapes.turn()):
            self.memo.forget_trails()
            edge = None
        if edge is None:
            edge = self._analysed(group, recorded)
            self.memo.add_edge(group.trail, name, edge)
        if edge.__class__ is not Trail:
            for store in list(slots)[known:]:  # the next group uses them
                del slots[store]
        return edge

    def _comes_back(self, group: Group) -> bool:
        """Is this the next turn of the user's loop, rather than its body called from elsewhere?

        Looking at all calls costs as much as half an operation, and few groups are so long: only those are
        asked where they come from that begin as one did that was.
        """
        if group.calls is None:
            if len(self.loop_heads) >= LARGEST_SIZE:
                self.loop_heads.clear()
            self.loop_heads.add(group.first)
            return True
        return group.calls == calls(3)

    def _analysed(self, group: Group, recorded: Recorded) -> Trail | Refusal:
        """Make the edge for a task that was not recorded here before: from its canonical row if that is
        known, else by dependence analysis."""
        tasks, analysis = group.tasks, group.analysis or group.begin()
        for earlier in tasks[group.numbered:]:
            analysis.numbering.row(earlier)
            analysis.cuts.add(earlier)
        self._learn(recorded)
        template = self._decomposed(recorded[0], group.trail.beside)
        if self.stores.runtime.addressed:
            alone = template.decomposition or ONE
            template = analysis.cuts.aligned(recorded[0], recorded[1], alone) or template
        task = template.task(recorded)
        if config.check and not opaque(template):
            from diffuse.ir.check import check

            check(task)
        row = analysis.numbering.row(task)
        analysis.cuts.add(task)
        group.numbered = len(tasks) + 1
        node = group.trail.node
        edge = node.edges.get(row)
        if edge is None:
            for earlier in tasks[group.analysed:]:
                analysis.effects.add(earlier)
                analysis.outline.add(earlier)
            group.analysed = len(tasks)
            refusal, outline = admit(analysis.effects, task, opaque), analysis.outline
            if refusal is None and (outline.loops >= MOST_LOOPS or outline.cost >= MOST_COST):
                refusal = Refusal("size of the kernel", tasks[0], task)
            if refusal is None:
                analysis.effects.add(task)
                slots = outline.add(task)
                edge = self.memo.joined(node, row, outline.loops, slots)
                group.analysed += 1
            else:
                edge = self.memo.refused(node, row, refusal)
        if isinstance(edge, Refusal):
            again = self._recut(group, recorded, template, edge)
            if again is not None:
                return again
            trace.count("refusals")
            trace.event("refusal", lambda: str(edge))
            return edge
        assert template.decomposition is not None
        beside = followed(template.decomposition, group.trail.beside)
        spilled = group.trail.spilled + spilled_bytes(edge, node, analysis.numbering, task)
        found = Trail(edge, (group.trail.templates, template), group.trail.domain or template.domain, beside,
                      spilled, _weight(spilled, edge))
        group.made(task, found)
        return found

    def _recut(self, group: Group, recorded: Recorded, template: Template, refusal: Refusal) -> Trail | None:
        """Cut the small tasks before a large one like that one, so that borders fuse with the interior that
        follows them; None if the result is no fusible prefix."""
        beside = template.decomposition
        if (refusal.constraint != "launch-domain equivalence" or group.domain != ONE.domain
                or template.domain == ONE.domain or len(group.recorded) > BORDER):
            return None
        everything = [*group.recorded, recorded]
        templates = [self._decomposed(each[0], beside) for each in everything]
        tasks = [each.task(one) for each, one in zip(templates, everything, strict=True)]
        if any(each.domain != template.domain for each in tasks) or prefix(tasks, opaque)[1] is not None:
            return None
        from diffuse.ir.text import task_text

        trace.event("decompose",
                    lambda: f"{len(tasks) - 1} tasks are cut like the one after them, {task_text(tasks[-1])}")
        analysis = group.begin()
        node = self.memo.root
        chain: Chain = None
        spilled = 0
        for one, task in zip(templates, tasks, strict=True):
            row, before = analysis.numbering.row(task), node
            slots, following = analysis.outline.add(task), node.edges.get(row)
            node = following if isinstance(following, Node) else self.memo.joined(
                node, row, analysis.outline.loops, slots)
            spilled += spilled_bytes(node, before, analysis.numbering, task)
            chain = chain, one
        group.begin()
        return Trail(node, chain, template.domain, beside, spilled, _weight(spilled, node))

    def close(self, reason: Any) -> Group:
        """Close the open group for this reason; returns the new open group."""
        group = self.open
        if group.recorded:
            if self.held > CHAIN:
                group.recorded[0][0].alone = 0
            group.reason = reason
            self.closed.append(group)
            self.memo.trim()
            return self._begun()
        return group

    def mend(self) -> None:
        """Restore consistency after an exception at any moment: drop a task that had not joined the open
        group yet, and close the group."""
        group = self.open
        if not (self.closed and self.closed[-1] is group):
            del group.recorded[group.trail.node.depth:]
            group.slots = {}
            for recorded in group.recorded:
                for store in recorded[1]:
                    group.slots.setdefault(store, len(group.slots))
            self.close("an exception")
        self._begun()
        self.held = sum(len(group.recorded) for group in self.closed)

    @property
    def heavy(self) -> bool:
        """Would the open group run for about half a second?  No interrupt stops a launch."""
        shapes = self.open.shapes
        return len(self.open.recorded) * max([volume(shape) for shape in shapes], default=0) > MOST_WORK

    def forget(self) -> None:
        """Clear the memo; the window must be empty."""
        self.memo.clear()
        self.shapes = None
        self._begun()

    def take(self) -> Group:
        """Remove and return the oldest closed group."""
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


def _weight(spilled: int, node: Node) -> int:
    """What a group weighs that would hold so many bytes: from `MANY_LOOPS` on it is heavy in any case."""
    return spilled + (SPARE if node.loops >= MANY_LOOPS else 0)


def opaque(task: IndexTask | Template) -> bool:
    """Is it a host function?  Its accesses are opaque, so it fuses with nothing."""
    return not operations.known(task.operation)
