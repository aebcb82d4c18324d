"""Divides groups into their tasks, each of which then runs by itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from diffuse.ir import Access, IndexTask, Privilege, covers
from diffuse.stream.group import Group
from diffuse.stream.memo import Trail
from diffuse.stream.outline import SPARE
from diffuse.stream.window import Window


def divided(window: Window, group: Group) -> list[Group]:
    """The tasks of a group, each as a group of its own.  Their numbers lie between those of this group and of
    the next one, so a store that a later task uses is kept until then."""
    users, found = window.stores.users, list[Group]()
    for number, recorded in enumerate(group.recorded, group.number):
        one = Group(number, window.memo.start, 1, SPARE // 2)
        before = {store: users.get(store, 0) for store in recorded[1]}
        trail = window._edge(one, recorded)
        assert trail.__class__ is Trail, "a task alone joins its group"
        users.update({store: last for store, last in before.items() if last > number})
        one.recorded.append(recorded)
        one.trail, one.reason = trail, group.reason
        one.first, one.shape = (recorded[0].operation, recorded[3]), recorded[0].shape
        one.shapes.add(one.shape)
        found.append(one)
    return found


def divide_overwritten(window: Window) -> None:
    """Divide the closed groups in which a result is overwritten before it is read: a fused task does not
    compute it, and so raises none of its floating-point errors."""
    if window.region is None:
        window.closed = deque([one for group in window.closed
                               for one in (divided(window, group) if _overwrites(group.tasks) else (group,))])


def _overwrites(tasks: Sequence[IndexTask]) -> bool:
    """Is what a task writes written again, all of it, before another one reads the store?"""
    written: dict[int, list[Access]] = {}  # by the tasks behind, until one reads the store
    for task in reversed(tasks):
        made = [access for access in task.accesses if access.privilege is not Privilege.READ]
        if any(covers(later) or (later.map, later.partition) == (access.map, access.partition)
               for access in made for later in written.get(access.store.id, ())):
            return True
        for access in made:
            written.setdefault(access.store.id, []).append(access)
        for access in task.accesses:
            if access.privilege is not Privilege.WRITE:
                written.pop(access.store.id, None)
    return False
