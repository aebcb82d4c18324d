"""Predicts the launches and host calls that the stream would make of tasks, without recording or compiling
anything.

A window of its own divides the tasks into groups, as the program's window does, and their layouts tell a
runtime what each rank would read and write.  The program's window, its memo and the stores stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

from diffuse.fusion.temporaries import temporaries
from diffuse.ir import Decomposition, IndexTask, Privilege
from diffuse.ir.template import Recorded, Template
from diffuse.kernels.body.compose import Composition, alike, compose
from diffuse.observe import trace
from diffuse.runtime.base import Layout
from diffuse.stream.group import Group
from diffuse.stream.layout import layout
from diffuse.stream.memo import Memo, Trail
from diffuse.stream.parts import division
from diffuse.stream.plan import partial_bytes
from diffuse.stream.window import Window

Ways = Sequence[Template | None]
"""How a task may be cut: one way, or those of which the runtime takes the one that moves least.  None stands
for the stream's own choice."""


class Ahead(NamedTuple):
    """A predicted launch, or a predicted call of a host function."""

    tasks: tuple[tuple[int, Decomposition | None], ...]
    """The numbers of its tasks, and how each is cut."""
    layouts: tuple[Layout, ...]
    """Its layout; several for a call that may be divided in several ways, and none where every rank runs it
    whole, or nothing runs because nobody looks at the results."""
    stores: tuple[tuple[int, bool], ...]
    """The stores of a layout's arguments, or of all accesses, and whether they are written."""
    called: bool = False
    together: bool = False
    """Is it a call, and one that all ranks run at once?"""


class Stream:
    """Predicts what the stream would do with tasks after those in a window; each prediction may cut them in
    other ways."""

    def __init__(self, window: Window) -> None:
        self._window, self._memo = window, Memo()

    def launches(self, tasks: Sequence[Recorded], ways: Sequence[Ways]) -> list[Ahead]:
        """Predict the launches and calls that these tasks would become, if cut in these ways."""
        groups = self._groups(tasks, [way[0] for way in ways])
        last = {store: number for number, group in enumerate(groups) for store in group.slots}
        alive, found, first = self._window.stores.alive, list[Ahead](), 0
        for number, group in enumerate(groups):
            if group.opaque:
                found.append(self._call(group, first, ways[first]))
            else:
                live = bytes([store in alive or last[store] > number for store in group.slots])
                found.append(self._launch(group, first, live))
            first += len(group.recorded)
        return found

    def _groups(self, tasks: Sequence[Recorded], cuts: Ways) -> list[Group]:
        """Divide the tasks into groups as a window does."""
        stores = copy(self._window.stores)
        stores.users = {}
        window = Window(stores)
        window.memo, window.shapes, window.region = self._memo, self._window.shapes, _Cut(self._memo, cuts)
        window.begin()
        before, trace.on = trace.on, False  # nothing of this happens
        refused = trace.counters["refusals"]
        try:
            for recorded in tasks:
                window.add(recorded)
            window.close("the region ends")
        finally:
            trace.on, trace.counters["refusals"] = before, refused
        return list(window.closed)

    def _launch(self, group: Group, first: int, live: bytes) -> Ahead:
        """Predict the launch of a group whose first task has this number; `live` has a byte for each of its
        stores: is the store used afterwards?"""
        tasks, plans = group.tasks, group.trail.node.plans
        found: _Sketch | None = plans.get(live)
        if found is None:
            seen = {store for store, bit in zip(group.slots, live, strict=True) if bit}
            found = plans[live] = _Sketch(compose(tasks, temporaries(tasks, (), seen), alike(tasks)), {})
        composition = found.composition
        cut = tuple([(first + k, task.decomposition) for k, task in enumerate(tasks)])
        if not composition.body.loops:
            return Ahead(cut, (), ())
        made = layout(found, tasks, self._window.stores.storages)
        used = [tasks[t].accesses[k] for t, k in composition.arguments]
        return Ahead(cut, (made,), tuple([(a.store.id, a.privilege is not Privilege.READ) for a in used]))

    def _call(self, group: Group, number: int, ways: Ways) -> Ahead:
        """Predict the call of the host function that is the task of this number."""
        recorded, storages = group.recorded[0], self._window.stores.storages
        points = self._window.stores.runtime.points
        layouts, together = list[Layout](), False
        for way in ways:
            task = group.tasks[0] if way is None else way.task(recorded)
            divided = division(task, points)
            if divided is None:
                layouts = []
                break
            layouts += divided.layouts(task, storages)
            together = divided.function.together
        used = tuple([(a.store.id, a.privilege is not Privilege.READ) for a in group.tasks[0].accesses])
        return Ahead(((number, None),), tuple(layouts), used, True, together)


class _Sketch(NamedTuple):
    """A plan of a predicted launch, which has no kernel."""

    composition: Composition
    layouts: dict[tuple[object, ...], Layout]
    title: str = ""

    def partial_bytes(self, tasks: Sequence[IndexTask]) -> tuple[int, ...]:
        return partial_bytes(self.composition, tasks)


class _Cut:
    """A region that cuts each task in the way that is given for its number."""

    asks = None

    def __init__(self, memo: Memo, cuts: Ways) -> None:
        self._memo, self._cuts = memo, cuts
        self._name = object()

    def start(self, before: Group) -> Trail:
        return self._memo.begin((self._name, before.behind + len(before.recorded)))

    def chosen(self, number: int, recorded: Recorded) -> Template | None:
        return self._cuts[number]

    def holds(self, recorded: Recorded) -> bool:
        return False

    def settle(self) -> None:
        """Do nothing: no task is kept back."""

    mend = forget = settle
