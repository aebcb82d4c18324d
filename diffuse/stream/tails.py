"""Closes a group before its last tasks if the next group alone uses their results.

A group takes tasks until one does not fit: `across / upward`, say, if the group cuts these operands at
different rows, each like the arrays that it is computed from.  The operands then go through memory, from one
group to the next.  From the next turn of the loop on the group is closed before the tasks that compute them,
so that these fuse with the task that uses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diffuse.fusion.constraints import Refusal
from diffuse.ir import Privilege
from diffuse.ir.template import Recorded

if TYPE_CHECKING:
    from diffuse.stream.group import Group
    from diffuse.stream.memo import Memo, Trail

REASON = "the tasks that follow compute operands of the next group alone"
SAVED = 3
"""The arrays that an operand saves: it is fetched and written at the end of a group, and read in the next."""


def shorten(memo: Memo, group: Group, recorded: Recorded) -> None:
    """Have a group that was closed before this task, which depends on it, end before its tail from the next
    time on."""
    number = begin(group.recorded, recorded)
    if 0 < number < len(group.recorded):
        found = _step(memo.start, group.recorded, number)
        if found is not None:
            memo.add_edge(*found, REASON)


def begin(tasks: list[Recorded], last: Recorded) -> int:
    """The number of the first task of a group's tail: the tasks at its end that compute operands of `last`,
    and nothing else, over its iterations.  The number of tasks if there is no tail, if it might not fuse with
    `last`, or if that saves no memory traffic."""
    number, results, operands = len(tasks), set[int](), _stores(last, reads=True)
    while number:
        task = tasks[number - 1]
        written = _stores(task, reads=False)
        if not written or not written <= operands or task[0].shape != last[0].shape:
            break
        number -= 1
        results |= written
        operands |= _stores(task, reads=True)
    tail = [*tasks[number:], last]
    inputs = {store for task in tail[:-1] for store in task[1]} - results
    gains = len(inputs) <= SAVED * len(results & _stores(last, reads=True))
    return number if gains and _alike(tail, results) else len(tasks)


def _stores(task: Recorded, reads: bool) -> set[int]:
    """The stores that a task reads, or those that it writes."""
    return {store for store, use in zip(task[1], task[0].uses, strict=True)
            if (use.privilege is Privilege.READ) == reads}


def _alike(tasks: list[Recorded], results: set[int]) -> bool:
    """Do all tasks access each of these stores by the same view?  Then they may all be cut alike."""
    views: dict[int, Any] = {}
    return all([views.setdefault(store, use.map) == use.map for task in tasks
                for store, use in zip(task[1], task[0].uses, strict=True) if store in results])


def _step(trail: Trail, tasks: list[Recorded], number: int) -> tuple[Any, tuple[Any, ...]] | None:
    """The trail of a group's first `number` tasks from `trail` on, and the key of its edge to the next one;
    None if the memo has dropped it."""
    slots: dict[int, int] = {}
    keys = [(task[0], *[slots.setdefault(store, len(slots)) for store in task[1]])
            for task in tasks[:number + 1]]
    for key in keys[:-1]:
        following = trail.edges.get(key)
        if following is None or isinstance(following, (Refusal, str)):
            return None
        trail = following
    return trail, keys[-1]
