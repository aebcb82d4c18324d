"""Finds the longest fusible prefix of a window.

A prefix is fusible when no point of a later task depends on another point of an earlier one (papers/003,
definition 3; `dependence` says it element by element).  The four constraints of the paper's figure 7 find
that out from descriptions alone, in one forward pass, with four refinements: views that no element
shares do not conflict, nor do views that every launch point cuts at the same places; on one launch
point every dependence is point-wise; and what a program computes with the results of reductions, task by
task of one element, ends the group as its *epilogue*: it runs once, when all points are done.  They are sound
for tasks that pass `check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from diffuse.ir import (
    Access,
    IndexTask,
    Privilege,
    Relation,
    Store,
    is_epilogue,
    relation,
    volume,
)
from diffuse.ir.spans import Spans

WRITING = Privilege.WRITE, Privilege.READ_WRITE
READING = Privilege.READ, Privilege.READ_WRITE

Opaque = Callable[[IndexTask], bool]
"""Is a task's code unknown to the analysis?  Such a task fuses with nothing."""


class Refusal(NamedTuple):
    """The reason why a task stays out of a group: the constraint, the two tasks, and the conflicting
    access."""

    constraint: str
    earlier: IndexTask
    later: IndexTask
    access: Access | None = None
    """The conflicting access of the later task; None if no store is to blame."""

    @property
    def store(self) -> Store | None:
        return self.access.store if self.access is not None else None

    def __str__(self) -> str:
        from diffuse.ir.text import refusal_text

        return refusal_text(self.constraint, self.earlier, self.later, self.access)


class Effects:
    """The effects of a group's tasks so far: for each store, each distinct access and its first issuer."""

    __slots__ = ("first", "reduces", "epilogue", "_touched", "_known")

    def __init__(self, tasks: Iterable[IndexTask] = ()) -> None:
        self.first: IndexTask | None = None
        self.reduces = False
        """Is there a result that is complete only when all points are done?"""
        self.epilogue: IndexTask | None = None
        """The task that began the epilogue."""
        self._touched: dict[int, tuple[Spans, list[tuple[Access, IndexTask]]]] = {}
        self._known: set[tuple[Any, ...]] = set()
        for task in tasks:
            self.add(task)

    def add(self, task: IndexTask) -> None:
        """Add the effects of one more task of the group."""
        if self.first is None:
            self.first = task
        elif self.epilogue is None and task.domain != self.first.domain:
            self.epilogue = task
        for access in task.accesses:
            store, map, privilege, operator, partition = access
            self.reduces = self.reduces or privilege is Privilege.REDUCE
            # by identity, for speed: equal views are interned, and a duplicate only costs time
            name = store, id(map), id(partition), privilege, operator
            if name not in self._known:
                self._known.add(name)
                found = self._touched.get(store.id)
                if found is None:
                    found = self._touched[store.id] = Spans(), []
                found[0].add(access)
                found[1].append((access, task))

    def near(self, access: Access) -> Iterable[tuple[Access, IndexTask]]:
        """The group's accesses that may overlap this one, through any frame, each with the first task to
        issue it."""
        found = self._touched.get(access[0][0])
        if found is None:
            return ()
        spans, accesses = found
        numbers = spans.near(access)
        return accesses if len(numbers) == len(accesses) else [accesses[number] for number in numbers]


def launch_domain_equivalence(effects: Effects, task: IndexTask) -> Refusal | None:
    """All tasks of a group run over one launch domain, except for its epilogue, which no other task
    follows."""
    first = effects.first
    if first is None or (effects.epilogue is None and first.domain == task.domain):
        return None
    if effects.reduces and is_epilogue(task):
        return None
    return Refusal("launch-domain equivalence", effects.epilogue or first, task)


def true_dependence(effects: Effects, task: IndexTask) -> Refusal | None:
    """No other point may read or overwrite what one point wrote."""
    domain = task.domain
    for access in task.accesses:
        if access.privilege is not Privilege.REDUCE:
            for earlier, issuer in effects.near(access):
                if earlier[2] in WRITING and relation(earlier, access, domain) is Relation.ALIAS:
                    return Refusal("true dependence", issuer, task, access)
    return None


def anti_dependence(effects: Effects, task: IndexTask) -> Refusal | None:
    """No other point may overwrite what one point read."""
    domain = task.domain
    for access in task.accesses:
        if access.privilege in WRITING:
            for earlier, issuer in effects.near(access):
                if earlier[2] in READING and relation(earlier, access, domain) is Relation.ALIAS:
                    return Refusal("anti-dependence", issuer, task, access)
    return None


def reduction(effects: Effects, task: IndexTask) -> Refusal | None:
    """Over several points a reduction is complete only when all of them are done: until then nothing else may
    read or write its elements, not even the same point.  Reductions by one operator are compatible.  A fold
    of rows that each point has as a whole does not count: the point completes it, and its access is a WRITE
    (`ir.template`), so that tasks which read it at the same points follow in the same group.

    The paper speaks of a single operator; two operators on one element depend on each other as writes do.
    """
    reduces = effects.reduces or any([access.privilege is Privilege.REDUCE for access in task.accesses])
    if not reduces or volume(task.domain) <= 1:
        return None
    for access in task.accesses:
        for earlier, issuer in effects.near(access):
            if Privilege.REDUCE not in (earlier.privilege, access.privilege):
                continue
            if earlier.privilege is access.privilege and earlier.operator == access.operator:
                continue
            if relation(earlier, access, task.domain) is not Relation.APART:
                return Refusal("reduction", issuer, task, access)
    return None


Constraint = Callable[[Effects, IndexTask], Refusal | None]

CONSTRAINTS: dict[str, Constraint] = {
    "launch-domain equivalence": launch_domain_equivalence,
    "true dependence": true_dependence,
    "anti-dependence": anti_dependence,
    "reduction": reduction,
}


def transparent(_: IndexTask) -> bool:
    """The `opaque` predicate for windows in which every operation has a known body."""
    return False


def admit(effects: Effects, task: IndexTask, opaque: Opaque = transparent) -> Refusal | None:
    """Check whether `task` may join the group that had these effects; None, or the first reason why not."""
    first = effects.first
    if first is None:
        return None
    if opaque(task) or opaque(first):
        return Refusal("opaque", first, task)
    for constraint in CONSTRAINTS.values():
        refusal = constraint(effects, task)
        if refusal is not None:
            return refusal
    return None


def prefix(window: Sequence[IndexTask],
           opaque: Opaque = transparent) -> tuple[Sequence[IndexTask], Refusal | None]:
    """The longest fusible prefix of a window, and the refusal of the next task."""
    effects = Effects()
    for length, task in enumerate(window):
        refusal = admit(effects, task, opaque)
        if refusal is not None:
            return window[:length], refusal
        effects.add(task)
    return window, None
