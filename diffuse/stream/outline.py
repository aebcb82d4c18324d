"""Predicts the kernel and the memory of a group while the group still grows.

The kernel compiler fuses the loops of a group (kernels/body/passes.py).  A store that several of the fused
loops use needs memory until the group has run, even if the program drops it before; all others vanish into
registers.  The outline follows the same rule task by task, so that the window can end a group whose kernel
would take long to compile, or that would hold much more memory than the program does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from diffuse.fusion.canonical import Numbering
from diffuse.ir import Frame, IndexTask, Privilege
from diffuse.ir.template import Template
from diffuse.kernels.body import operations
from diffuse.kernels.body.loop_fusion import LoopFusion, Touched
from diffuse.stream.memo import Node
from diffuse.stream.stores import Stores, nbytes

if TYPE_CHECKING:
    from diffuse.stream.group import Group

MOST_LOOPS = 128
MOST_COST = 2048
"""Limits the loops of a group's kernel, and the total cost of its operations, to what compiles within half a
second."""
MANY_LOOPS = MOST_LOOPS // 4
"""The number of a kernel's loops from which on its group is closed when the stream comes back to the call
that began it, over any extents."""
SPARE = 16 << 20
"""Bytes.  A group is closed when the stores that the program dropped, but that need memory until the group
has run, exceed this and half of what the program holds.  When they exceed half of that, it is closed when the
stream comes back to the call that began it."""


class Outline:
    """The fused loops of a growing group, and the stores that it makes and cannot keep in registers."""

    def __init__(self, numbering: Numbering) -> None:
        self.cost = 0
        """The sum of the costs of the operations."""
        self._numbering = numbering
        self._fusion = LoopFusion(numbering.relations, numbering.near)
        self._homes: dict[int, int] = {}
        """The first loop that uses each slot; -1 if the slot is not made here or is known to need memory."""

    @property
    def loops(self) -> int:
        return self._fusion.count

    def add(self, task: IndexTask) -> tuple[int, ...]:
        """Add a task that the numbering has a row for; returns the slots that need memory from now on."""
        known = operations.known(task.operation)
        row = operations.find(task.operation) if known else None
        self.cost += row.cost if row is not None else 1
        result = "store" if row is None or row.elementwise else "reduce"
        touched: Touched = {}
        loaded = set()
        for access in task.accesses:
            slot, view = self._numbering.place(access)
            kind = result
            if access.privilege is Privilege.READ:
                kind = "load"
                loaded.add(slot)
            if slot in touched:
                touched[slot].add((view, kind))
            else:
                touched[slot] = {(view, kind)}
        home = self._fusion.add((task.shape, task.splits), touched)
        found, homes = [], self._homes
        for slot in touched:
            first = homes.get(slot)
            if first is None:
                homes[slot] = -1 if slot in loaded else home
            elif first not in (-1, home):
                homes[slot] = -1
                found.append(slot)
        return tuple(found)


def spilled_bytes(node: Node, before: Node, slots: Mapping[int, int], template: Template,
                  stores: Sequence[int]) -> int:
    """The bytes of the stores that need memory since the last task of the prefix `node`.  That task has this
    template and these stores; `before` is the prefix without it, and `slots` has the numbers of stores."""
    if node.spilled is before.spilled or node.spilled is None:
        return 0
    sizes = {slots[store]: nbytes(Frame(use.frame, use.dtype))
             for store, use in zip(stores, template.uses, strict=True)}
    return sum([sizes[slot] for slot in node.spilled[1]])


def weight(spilled: int, node: Node) -> int:
    """The weight of a group with so many bytes in dropped stores; a group with `MANY_LOOPS` loops is heavy in
    any case."""
    return spilled + (SPARE if node.loops >= MANY_LOOPS else 0)


def dropped_bytes(node: Node, ids: Sequence[int], stores: Stores) -> int:
    """The bytes of the stores that need memory in a prefix although the program has dropped them; `ids` are
    the stores of its slots."""
    found, spilled = 0, node.spilled
    alive, instances, storages = stores.alive, stores.instances, stores.storages
    while spilled is not None:
        spilled, slots = spilled
        for slot in slots:
            store = ids[slot]
            if store not in alive and store not in instances:
                found += nbytes(storages[store])
    return found


def overfull(group: Group, stores: Stores) -> bool:
    """Would a group hold more memory than it may of stores that the program has dropped?

    If not, sets how heavy it may become before it is asked again.  A group that would hold half as much, or
    that has many loops, is closed when the loop comes back.
    """
    node = group.trail.node
    dropped = dropped_bytes(node, list(group.slots), stores)
    if group.room == SPARE // 2 and dropped <= SPARE // 4 and node.loops < MANY_LOOPS:
        group.room = group.trail.weight + SPARE // 2 - dropped  # whatever else the program holds
        return False
    most = max(SPARE, stores.held_bytes() // 2)
    if dropped > most:
        return True
    if dropped > most // 2 or node.loops >= MANY_LOOPS:
        group.long = 1
    left = (most if dropped > most // 2 else most // 2) - dropped
    group.room = group.trail.weight + max(left, most // 16)  # checking takes as long as recording
    return False
