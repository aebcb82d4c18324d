"""Predicts the launches and host calls that the stream would make of tasks, without recording or compiling
anything.

A window of its own divides the tasks into groups, as the program's window does, and their layouts tell a
runtime what each rank would read and write.  The program's window, its memo and the stores stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from diffuse.fusion.temporaries import temporaries
from diffuse.ir import Decomposition, IndexTask, Privilege, volume
from diffuse.ir.template import Recorded, Template
from diffuse.kernels.body.compose import Composition, alike, compose
from diffuse.observe import trace
from diffuse.runtime.base import Layout
from diffuse.stream.group import Group
from diffuse.stream.layout import joined, layout
from diffuse.stream.memo import Memo, Trail
from diffuse.stream.pairs import argument_stores, begins, pair
from diffuse.stream.parts import division
from diffuse.stream.plan import partial_bytes, rowwise, stored
from diffuse.stream.window import Window

Ways = Sequence[Template | None]
"""How a task may be cut: one way, or those of which the runtime takes the one that moves least.  None stands
for the stream's own choice."""


class PredictedLaunch(NamedTuple):
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

    def launches(self, tasks: Sequence[Recorded], ways: Sequence[Ways]) -> list[PredictedLaunch]:
        """Predict the launches and calls that these tasks would become, if cut in these ways."""
        groups = self._groups(tasks, [way[0] for way in ways])
        last = {store: number for number, group in enumerate(groups) for store in group.slots}
        alive, found = self._window.stores.alive, list[PredictedLaunch]()
        starts = [*accumulate([len(group.recorded) for group in groups], initial=0)]
        each = [None if group.opaque else self._planned(group, bytes([
            store in alive or last[store] > number for store in group.slots]))
            for number, group in enumerate(groups)]
        number = 0
        while number < len(groups):
            both = number, number + 1
            if self._partners(groups, each, both, last):
                passed = self._pass(groups, each, both, starts)
                found += [passed] if passed else [self._single(groups, each, k, starts, ways) for k in both]
                number += 2
            else:
                found.append(self._single(groups, each, number, starts, ways))
                number += 1
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

    def _planned(self, group: Group, live: bytes) -> PredictedPlan:
        """Find or make what stands for a group's plan; `live` has a byte for each of its stores: is the store
        used afterwards?"""
        tasks, plans = group.tasks, group.trail.node.plans
        found: PredictedPlan | None = plans.get(live)
        if found is None:
            seen = {store for store, bit in zip(group.slots, live, strict=True) if bit}
            found = plans[live] = PredictedPlan(compose(tasks, temporaries(tasks, (), seen), alike(tasks)))
        return found

    def _partners(self, groups: Sequence[Group], each: Sequence[PredictedPlan | None], both: tuple[int, int],
                  last: Mapping[int, int]) -> bool:
        """Would the stream try to run two groups as one pass?  See `Forwarder._with_partner`."""
        first, second = both
        upper, stores = each[first], self._window.stores
        if upper is None or second == len(groups) or each[second] is None or not stores.runtime.pipelines:
            return False
        domain, following = groups[first].domain, groups[second]
        if domain != following.domain or volume(domain) <= 1 or not rowwise(upper.composition.body):
            return False
        made = {groups[first].recorded[t][1][k] for t, k in stored(upper.composition)}
        return (made.isdisjoint(stores.alive) and made <= {*following.slots}
                and all([last[store] == second for store in made]))

    def _pass(self, groups: Sequence[Group], each: Sequence[Any], both: tuple[int, int],
              starts: Sequence[int]) -> PredictedLaunch | None:
        """Predict the launch of two groups as one pass; None if their rows do not allow it."""
        (one, two), (upper, lower) = [groups[k] for k in both], [each[k] for k in both]
        runtime, storages = self._window.stores.runtime, self._window.stores.storages
        if not rowwise(lower.composition.body):
            return None
        shape = pair(upper, dict(enumerate(one.tasks)), lower, dict(enumerate(two.tasks)))
        if shape is None or not shape.divides:
            return None
        ids = argument_stores(upper, one, lower, two)
        inner = {one.recorded[t][1][k] for t, k in stored(upper.composition)}
        made = joined(layout(upper, one.tasks, storages), layout(lower, two.tasks, storages), begins(upper),
                      shape.run, ids, inner, upper.layouts)
        if not runtime.passes(made):
            return None
        used = _used(upper, one) + _used(lower, two)
        return PredictedLaunch(_cuts(one, starts[both[0]]) + _cuts(two, starts[both[1]]), (made,),
                     tuple([each for each in used if each[0] not in inner]))

    def _single(self, groups: Sequence[Group], each: Sequence[PredictedPlan | None], number: int,
                starts: Sequence[int], ways: Sequence[Ways]) -> PredictedLaunch:
        """Predict the launch of a group, or the call of its host function."""
        group, found, first = groups[number], each[number], starts[number]
        if found is None:
            return self._call(group, first, ways[first])
        if not found.composition.body.loops:
            return PredictedLaunch(_cuts(group, first), (), ())
        made = layout(found, group.tasks, self._window.stores.storages)
        return PredictedLaunch(_cuts(group, first), (made,), _used(found, group))

    def _call(self, group: Group, number: int, ways: Ways) -> PredictedLaunch:
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
        return PredictedLaunch(((number, None),), tuple(layouts), used, True, together)


@dataclass(eq=False, slots=True)
class PredictedPlan:
    """A plan of a predicted launch, which has no kernel."""

    composition: Composition
    layouts: dict[tuple[object, ...], Layout] = field(default_factory=dict)
    title: str = ""

    def partial_bytes(self, tasks: Sequence[IndexTask]) -> tuple[int, ...]:
        return partial_bytes(self.composition, tasks)


def _cuts(group: Group, first: int) -> tuple[tuple[int, Decomposition | None], ...]:
    """Return the number and the decomposition of each task of a group, numbered from `first` on."""
    return tuple([(first + k, task.decomposition) for k, task in enumerate(group.tasks)])


def _used(found: PredictedPlan, group: Group) -> tuple[tuple[int, bool], ...]:
    """The stores of a launch's arguments, and whether they are written."""
    accesses = [group.tasks[t].accesses[k] for t, k in found.composition.arguments]
    return tuple([(a.store.id, a.privilege is not Privilege.READ) for a in accesses])


class _Cut:
    """A region that cuts each task as was decided for its number."""

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
