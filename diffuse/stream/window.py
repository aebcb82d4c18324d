"""The window: takes tasks in program order, and divides them into fusible prefixes (groups).

A group is the longest fusible prefix after the previous group, without its tail (tails.py).  It is found one
task at a time by walking the memo (memo.py): along a trail, if the program recorded the same before; else the
task is decomposed and found by its canonical row, or analysed (admission.py).  Closed groups wait, so that
the program can drop stores before they are planned (early.py says how long).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from diffuse.fusion.constraints import Refusal
from diffuse.ir import ONE, Decomposition, volume
from diffuse.ir.template import Recorded, Template
from diffuse.observe.provenance import calls
from diffuse.runtime import heap
from diffuse.settings import config
from diffuse.stream.borders import note
from diffuse.stream.cuts import alike
from diffuse.stream.decompose import chosen_for, decompose, processors_of
from diffuse.stream.early import next_look
from diffuse.stream.group import Group
from diffuse.stream.memo import Memo, Trail
from diffuse.stream.outline import SPARE, overfull
from diffuse.stream.stores import Stores
from diffuse.stream.turns import begins_turn

if TYPE_CHECKING:
    from diffuse.stream.regions import Region
    from diffuse.stream.shapes import Shapes
    from diffuse.stream.snapshots import Snapshots

FIRST_SIZE = 64
"""The number of tasks held before the first one is forwarded, when the window's size is automatic."""
LARGEST_SIZE = 2048
MOST_WORK = 5_000_000_000
"""The window grows only if the work of its group (operations times elements) is at most this."""
LOOP = 64
"""The length from which on a group is closed when the stream comes back to the call that began it, through
the same calls of the user's functions, so that every iteration of the user's loop makes the same groups."""
CHAIN = 16
"""The most tasks of a short chain that the program may wait for as a whole (waits.py)."""


class Window:
    """The tasks that are held back: closed groups, oldest first, and the open one."""

    __slots__ = ("memo", "shapes", "region", "stores", "closed", "held", "size", "limit", "loop_heads",
                 "open", "_number", "__dict__")

    def __init__(self, stores: Stores) -> None:
        self.memo = Memo()
        self.snapshots: Snapshots | None = None
        self.shapes: Shapes | None = None
        """The habits of arrays of each shape, once ranks hold parts of them."""
        self.region: Region | None = None
        """The region that decides how newly recorded tasks are cut; None: `decompose` does."""
        self.asks: Callable[[Recorded], None] | None = None
        """What the region asks of each task before it is recorded, and raises ValueError."""
        self.passed: list[Group] | None = None
        """The groups that were closed since the program came to a region that stands aside."""
        self.stores = stores
        self.closed: deque[Group] = deque()
        self.held = 0
        self.size = self.limit = FIRST_SIZE
        """Tasks held at which the queue looks at the window, and at which an automatic window is full."""
        self.loop_heads: set[tuple[Any, ...]] = set()
        """First tasks of long groups to which the stream came back, or seemed to."""
        self._number = 1
        self.open = Group(1, self.memo.start, LOOP, SPARE // 2)

    def begin(self) -> Group:
        """Begin a new open group; its number leaves one for each task of the one before (shortage.py)."""
        self._number += max(1, len(self.open.recorded))
        region = self.region
        if region is None:
            group = self.open = Group(self._number, self.memo.start, LOOP, SPARE // 2)
        else:
            before = self.open
            group = self.open = Group(self._number, region.start(before), LOOP, SPARE // 2)
            group.behind = before.behind + len(before.recorded)
        return group

    def turn_to(self, region: Region | None) -> Region | None:
        """Let a region decide how tasks are cut from now on; returns the one that did before."""
        before, self.asks = self.region, None
        try:
            self.close("a region begins or ends")
        except BaseException:
            self.mend()
            self.region = None
            self.begin()
            raise
        self.region = None
        if before is not None or region is None:
            self.begin()
        if region is not None:
            self.region, self.asks = region, region.asks
            self.begin()
        return before

    def add(self, recorded: Recorded) -> None:
        """Add a task to the open group, or close that group and begin the next one with the task.  This path
        finds a task that joined before on the group's trail; `place` handles all others."""
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
        self.place(recorded)

    def place(self, recorded: Recorded) -> None:
        """Add a task of which it is not known that it joins the open group."""
        template, stores, _, where = recorded
        shape, group = template.shape, self.open
        if self.region is not None:
            if self.region.holds(recorded):
                self.held += 1
                return
            group = self.open
        if (len(group.recorded) >= group.long and group.first == (template.operation, where)
                and (shape == group.shape or group.long == 1) and self._comes_back(group)):
            group = self.close("the loop comes back to its first call")
        if shape not in group.shapes:
            if (group.recorded and group.slots.keys().isdisjoint(stores) and self._large(template)
                    and not alike(template, group.trail.beside)):
                # over other iterations and on other stores: fusing it gains nothing, and would prevent fusion
                # with the tasks after it
                group = self.close("the next task shares neither iterations nor data with these")
            group.shapes.add(shape)
        edge = self._edge(group, recorded)
        if edge.__class__ is not Trail:
            note(self, group, recorded, edge)
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
        """Close a group that would hold too much memory of stores that the program has dropped."""
        if overfull(group, self.stores):
            self.close("it holds as much memory of dropped stores as it may")

    def _large(self, template: Template) -> bool:
        """Would the task by itself run over several points?"""
        if template.decomposition is not None or self.learned is not None:
            return self.decomposed(template, None).domain != ONE.domain
        processors = processors_of(self.stores.runtime, template)
        return chosen_for(template, None, processors, config.min_chunk, None).domain != ONE.domain

    def decomposed(self, template: Template, beside: Decomposition | None = None) -> Template:
        """Decompose a template as a task beside others."""
        runtime = self.stores.runtime
        return decompose(template, beside, processors_of(runtime, template), config.min_chunk,
                         not runtime.addressed, runtime.completes, self.learned)

    def cut(self, recorded: Recorded, number: int, beside: Decomposition | None) -> Template:
        """Decompose the task of this number of the open group."""
        chosen = None if self.region is None else self.region.chosen(self.open.behind + number, recorded)
        return chosen or self.decomposed(recorded[0], beside)

    @property
    def _alone(self) -> bool:
        """Are tasks run by one process, which decides how they are cut?"""
        runtime = self.stores.runtime
        return self.region is None and runtime.addressed and runtime.ranks == 1

    @property
    def learned(self) -> Shapes | None:
        """The habits of shapes if ranks hold parts of arrays and cut them by shape; else None."""
        runtime = self.stores.runtime
        if runtime.blocks == 0 or runtime.ranks == 1:
            return None
        if self.shapes is None:
            from diffuse.stream.shapes import of_ranks  # not where there is one rank

            self.shapes = of_ranks(runtime)
        return self.shapes

    def learn(self, recorded: Recorded) -> None:
        """Learn from a task that was not recorded here before how ranks should cut arrays of its shape."""
        template, stores, values, _ = recorded
        shapes = self.learned
        storages = self.stores.storages
        if shapes is not None and shapes.learn(template, [storages[store] for store in stores], values):
            self.memo.forget_trails()

    def _edge(self, group: Group, recorded: Recorded) -> Any:
        """Follow the trail of a group by one task; returns the next trail, or the refusal of the task."""
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
        edge: Any = group.trail.edges.get(name)
        if edge is None and begins_turn(group.recorded, recorded, LOOP, group.trail.node.loops):
            edge = "the loop comes back to its first call"
            self.memo.add_edge(group.trail, name, edge)
        if (self.shapes is not None and self.shapes.doubted and edge is not None
                and group.trail is self.memo.start and self.shapes.turn()):
            self.memo.forget_trails()
            edge = None
        if edge is None:
            from diffuse.stream import admission  # not in a program of small arrays

            edge = admission.analysed(self, group, recorded)
            self.memo.add_edge(group.trail, name, edge)
            if self._alone and isinstance(edge, Refusal) and edge.constraint == "true dependence":
                from diffuse.stream import tails  # few programs have such a group

                tails.shorten(self.memo, group, recorded)
        if edge.__class__ is not Trail:
            for store in list(slots)[known:]:  # the next group uses them
                del slots[store]
        return edge

    def _comes_back(self, group: Group) -> bool:
        """Is this the next iteration of the user's loop, rather than its body called from elsewhere?

        Looking up all calls costs as much as half an operation, and few groups are so long: it is done only
        for groups that begin like an earlier long one.
        """
        if group.calls is None:
            if len(self.loop_heads) >= LARGEST_SIZE:
                self.loop_heads.clear()
            self.loop_heads.add(group.first)
            return True
        return group.calls == calls(3)

    def close(self, reason: Any) -> Group:
        """Close the open group for this reason; returns the new open group."""
        if self.region is not None:
            self.region.settle()
        group = self.open
        if group.recorded:
            if self.held > CHAIN:
                group.recorded[0][0].alone = 0
            group.reason = reason
            self.closed.append(group)
            if self.passed is not None:
                self.passed.append(group)
            if self.memo.trim(self.stores.runtime.ranks == 1):
                heap.trim(heap.LEFT)
            if len(self.closed) == 1:
                self.size = next_look(self)
            return self.begin()
        return group

    def mend(self) -> None:
        """Restore consistency after an exception: drop a task that had not joined the open group yet, and
        close the group."""
        region, self.region = self.region, None
        group = self.open
        if not (self.closed and self.closed[-1] is group):
            del group.recorded[group.trail.node.depth:]
            group.slots = {}
            for recorded in group.recorded:
                for store in recorded[1]:
                    group.slots.setdefault(store, len(group.slots))
            self.close("an exception")
        self.begin()
        self.held = sum(len(group.recorded) for group in self.closed)
        self.region = region
        if region is not None:
            region.mend()

    @property
    def heavy(self) -> bool:
        """Would the open group run for about half a second?  A launch cannot be interrupted."""
        return len(self.open.recorded) * max(map(volume, self.open.shapes), default=0) > MOST_WORK

    def forget(self) -> None:
        """Clear the memo; the window must be empty."""
        self.memo.clear()
        self.snapshots = None
        self.shapes = None
        if self.region is not None:
            self.region.forget()
        self.begin()

    def take(self) -> Group:
        """Remove and return the oldest closed group."""
        group = self.closed.popleft()
        self.held -= len(group.recorded)
        return group

    def full(self) -> bool:
        """Is there a group to forward because more is held than the window's size?

        One closed group stays, as its successor may share its pass over memory, unless it is most of the
        window.
        """
        if self.held < self.limit or not self.closed:
            return False
        return len(self.closed) > 1 or len(self.open.recorded) < self.held // 2
