"""Layers: divides tasks over stacked arrays into a task for each layer, so that their loops fuse with others.

A program that keeps the components of its state in one array, `u, v = state` and `np.stack([du, dv])`, runs
some operations over all of the array, of shape (2, n), and others over its layers, of shape (n,) or (1, n).
Loops over different iteration spaces do not fuse, and what one writes and the other reads needs memory.  So
where tasks of a group access a store in both ways, its elementwise tasks over (m, n) are composed as m tasks
over (n,), which access the views that the program has of the layers.  Then all loops fuse, and temporaries
vanish.

Each element is computed as before, from the same elements.  Which views are equal depends on offsets, which
canonical forms do not contain: the plans of divided tasks belong to a trail (memo.py), not to a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple

from diffuse.ir import Access, IndexTask, Point, Privilege, volume
from diffuse.ir.view import View
from diffuse.kernels.body.compose import Source, elementwise

if TYPE_CHECKING:
    from diffuse.runtime.base import Runtime
    from diffuse.stream.group import Group

MOST = 4
"""The most layers into which a task is divided: the kernel has the operations so many times."""
LEAST = 1 << 10
"""The least elements of a layer."""
TASKS = 256
"""The most tasks of a divided group."""
STREAMS = 40
"""The most layers that a divided group reads.  Processors fetch few streams ahead: a loop over 12 arrays of
3 x 500,000 is as fast with all layers as without, one over 20 arrays of 4 x 300,000 takes 1.3 times as
long."""
TRAILS = 16
"""The most trails of a node whose tasks are divided: arrays whose extents always change would need ever new
plans."""


class Layer(NamedTuple):
    """The origin of a task of a divided group."""

    task: int
    """The number of the group's task."""
    place: int
    """The index of the layer; -1 if the task is not divided."""


Layers = tuple[Layer, ...]
"""The origins of all tasks of a divided group; empty if it is not divided."""


def stacked(shapes: Set[Point]) -> set[Point]:
    """Return the spaces of a group that stack a few layers, of which one is a space of the group, too."""
    return {shape for shape in shapes if len(shape) > 1 and 2 <= shape[0] <= MOST
            and not shapes.isdisjoint(_layers(shape)) and volume(shape[1:]) >= LEAST}


def _layers(shape: Point) -> tuple[Point, Point]:
    """The two spaces that a layer of this space may have."""
    return shape[1:], (1, *shape[1:])


def divided(tasks: Sequence[IndexTask]) -> Layers:
    """Divide the tasks of a group whose layers other tasks of the group write or read."""
    chosen = {shape for shape in stacked({task.shape for task in tasks}) if _met(tasks, shape)}
    chosen |= {(1, *shape[1:]) for shape in chosen}
    found: list[Layer] = []
    for number, task in enumerate(tasks):
        if task.shape in chosen and _divisible(task):
            found += [Layer(number, index) for index in range(task.shape[0])]
        else:
            found.append(Layer(number, -1))
    if len(found) > TASKS or not any([index > 0 for _, index in found]) or _inputs(tasks, found) > STREAMS:
        return ()
    return tuple(found)


def plans_of(group: Group, runtime: Runtime) -> dict[bytes, Any]:
    """The plans that a group may use: those of its node, or its trail's own if its tasks are divided, which
    the trail then knows."""
    trail, node = group.trail, group.trail.node
    if (runtime.addressed and runtime.target == "host" and node.divided < TRAILS
            and stacked(group.shapes)):
        trail.layers = divided(group.tasks)
    if not trail.layers:
        return node.plans
    node.divided += 1
    return {}


def tasks_of(group: Group, layers: Layers) -> list[IndexTask]:
    """All tasks of a group, divided into these layers."""
    tasks = group.tasks
    return [_part(tasks, layer) for layer in layers] or tasks


def telling(numbers: Iterable[int], group: Group, layers: Layers) -> dict[int, IndexTask]:
    """The tasks with these numbers of a group that is divided into these layers."""
    if not layers:
        return group.picked(numbers, cut=False)
    numbers = sorted(numbers)
    tasks = group.picked({layers[number].task for number in numbers})
    return {number: _part(tasks, layers[number]) for number in numbers}


def shared(layers: Layers, tasks: Sequence[IndexTask], equal: Mapping[Source, Source]
           ) -> dict[Source, Source]:
    """The scalars of a divided group's tasks that have the value of an earlier one, given those of the
    group's; the layers of a task have the same scalars."""
    first: dict[int, int] = {}
    found = {}
    for number, (task, _) in enumerate(layers):
        first.setdefault(task, number)
        for k in range(len(tasks[number].scalars)):
            origin, position = equal.get((task, k), (task, k))
            if first[origin] != number or position != k:
                found[number, k] = first[origin], position
    return found


def _met(tasks: Sequence[IndexTask], shape: Point) -> bool:
    """Do tasks over this space and tasks over a layer of it access the same store, and does one of them write
    it?"""
    whole, parts, written = set(), set(), set()
    for task in tasks:
        if task.shape == shape or task.shape in _layers(shape):
            for store, view, privilege, *_ in task.accesses:
                if task.shape != shape:
                    parts.add(store.id)
                elif view.follows(0):
                    whole.add(store.id)
                if privilege.writes:
                    written.add(store.id)
    return not written.isdisjoint(whole & parts)


def _inputs(tasks: Sequence[IndexTask], layers: Sequence[Layer]) -> int:
    """The number of layers, and of other arrays, that a divided group reads before it writes them."""
    read: set[tuple[int, int, int]] = set()
    written: set[int] = set()
    for number, place in layers:
        for access in tasks[number].accesses:
            if access.privilege.writes:
                written.add(access.store.id)
            elif access.store.id not in written:
                moves = place >= 0 and access.map.follows(0)
                read.add((access.store.id, hash(access.map), place if moves else -1))
    return len(read)


def _divisible(task: IndexTask) -> bool:
    """Does the task compute its layers independently, in any order?"""
    return (all([split.axis != 0 and split.begin is None for split in task.splits])
            and all([_plain(access) for access in task.accesses])
            and all([other.map == access.map for access in task.accesses if access.privilege.writes
                     for other in task.accesses if other.store.id == access.store.id])
            and elementwise(task))


def _plain(access: Access) -> bool:
    return (access.privilege in (Privilege.READ, Privilege.WRITE) and isinstance(access.map, View)
            and access.map.simple and not access.map.free and not access.map.turned)


def _part(tasks: Mapping[int, IndexTask] | Sequence[IndexTask], layer: Layer) -> IndexTask:
    """The part of a task at one index of its first dimension, or all of it."""
    number, index = layer
    task = tasks[number]
    if index < 0:
        return task
    assert task.decomposition is not None
    splits = tuple([split._replace(axis=max(split.axis - 1, -1)) for split in task.splits])
    accesses = []
    for access in task.accesses:
        assert isinstance(access.map, View)
        view = access.map.layer(index)
        accesses.append(access._replace(map=view, partition=view.partition(access.store, splits)))
    return task._replace(shape=task.shape[1:], accesses=tuple(accesses),
                         decomposition=task.decomposition._replace(splits=splits))
