"""Compose the tasks of a prefix into one kernel body: a loop for each task, then the passes (passes.py).

The body depends only on the canonical form of the tasks and on which scalars are declared equal: isomorphic
tasks over other stores, extents and scalar values have an equal body.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from diffuse.ir import Access, IndexTask, Point, Privilege, Relation, Split, Store, relation, volume
from diffuse.ir.loops import flat, letters
from diffuse.ir.spans import Spans
from diffuse.kernels.body import abi, operations, passes
from diffuse.kernels.body.expr import EFFECTS, Argument, Body, Builder, Loop, Op, Output, Space
from diffuse.settings import config

Source = tuple[int, int]
"""A scalar of a window: (task number, index of its scalar)."""

PLAIN = frozenset(("load", "scalar", "const", "cast", "store"))
"""Kinds of ops outside the table that depend on nothing but the elements at their iteration."""

_op = tuple.__new__
# Calling the base's constructor halves the cost of making ops.


class Composition(NamedTuple):
    """A body, and the origin of each of its parts in the window."""

    body: Body
    arguments: tuple[tuple[int, int], ...]
    """For each argument of the body: (task, access)."""
    scalars: tuple[Source, ...]
    """For each scalar of the body, the scalar of the window that has its value."""
    spaces: tuple[int, ...]
    """For each space of the body, a task that iterates over it."""
    vanished: frozenset[int]
    """Slots that exist only in registers and need no memory."""
    temporary: frozenset[int] = frozenset()
    """Slots of memory that is not used after the fused task."""


class _Names:
    """Numbers slots, views, spaces, arguments and scalars by their first use in the tasks."""

    def __init__(self, tasks: Sequence[IndexTask]) -> None:
        self.tasks = tasks
        self.slots: dict[int, int] = {}
        self.views: list[dict[tuple[object, ...], int]] = []
        self.spans: list[Spans] = []
        """For each slot, the first access of each view."""
        self.spaces: dict[tuple[Point, tuple[Split, ...]], int] = {}
        self.owners: list[int] = []
        """For each space, the first task that iterates over it."""
        self.numbers: dict[tuple[Store, int, int], int] = {}
        """Arguments by store, layout and space."""
        self.arguments: list[Argument] = []
        self.sources: list[tuple[int, int]] = []
        """For each argument: (task, access)."""
        self.scalars: dict[Source, int] = {}
        self._relations: dict[tuple[int, int, int], Relation] = {}
        self._layouts: dict[tuple[int, int], int] = {}
        self._equal: dict[tuple[object, object], int] = {}
        """The numbers of maps with partitions, by identity and by value."""
        self._letters: dict[tuple[int, Point, int], str] = {}

    def space(self, number: int) -> int:
        """The number of a task's iteration space."""
        task = self.tasks[number]
        found = self.spaces.setdefault((task.shape, task.splits), len(self.spaces))
        if found == len(self.owners):
            self.owners.append(number)
        return found

    def argument(self, access: Access, number: int, position: int, space: int) -> int:
        """The number of the argument for one access of one task, at this position."""
        privilege = Privilege.READ if access.privilege is Privilege.READ else Privilege.WRITE
        layout = self._layout(access)
        name = access.store, layout, space
        found = self.numbers.get(name)
        if found is None:
            found = self.numbers[name] = len(self.arguments)
            self.sources.append((number, position))
            slot, view = self._view(access, layout)
            classes = self._classes(access, number, layout, space)
            self.arguments.append(_op(Argument, (slot, view, access.store.dtype, space, classes, privilege)))
        elif self.arguments[found].privilege not in (privilege, Privilege.READ_WRITE):
            self.arguments[found] = self.arguments[found]._replace(privilege=Privilege.READ_WRITE)
        return found

    def _layout(self, access: Access) -> int:
        """The number of an access's map and partition, cached by identity: they are few, and slow to hash."""
        named = id(access.map), id(access.partition)
        found = self._layouts.get(named)
        if found is None:
            found = self._layouts[named] = self._equal.setdefault((access.map, access.partition),
                                                                  len(self._equal))
        return found

    def _view(self, access: Access, layout: int) -> tuple[int, int]:
        """The number of an access's slot, and the number of its view among those of the slot."""
        slot = self.slots.setdefault(access.store.id, len(self.slots))
        if slot == len(self.views):
            self.views.append({})
            self.spans.append(Spans())
        view = self.views[slot].setdefault((access.store, layout), len(self.views[slot]))
        if view == len(self.spans[slot].accesses):
            self.spans[slot].add(access)
        return slot, view

    def _classes(self, access: Access, number: int, layout: int, space: int) -> str:
        """The stride class of an access along each dimension of its task."""
        key = layout, access.store.shape, space
        found = self._letters.get(key)
        if found is None:
            task = self.tasks[number]
            assert task.decomposition is not None
            found = self._letters[key] = letters(access, task.shape, _flat(task), task.decomposition.gaps)
        return found

    def relation(self, slot: int, a: int, b: int) -> Relation:
        """The relation between the elements of two views of a slot."""
        key = (slot, min(a, b), max(a, b))
        if key not in self._relations:
            first, second = self.spans[slot].accesses[key[1]], self.spans[slot].accesses[key[2]]
            self._relations[key] = relation(first, second, self.tasks[0].domain)
        return self._relations[key]

    def near(self, slot: int, view: int) -> Sequence[int]:
        """The views of a slot that may overlap this one."""
        return self.spans[slot].near(self.spans[slot].accesses[view])


def alike(tasks: Sequence[IndexTask], before: Mapping[Source, Source] | None = None
          ) -> dict[Source, Source]:
    """Map each duplicate scalar, of equal element type and bits, to its first occurrence.

    A kernel with merged scalars shares the computations that use them and needs fewer registers.  But values
    may differ the next time.  Only scalars that were equal so far (`before`) are compared, so that a program
    with ever-changing values soon reaches a kernel that fits all of them.
    """
    firsts: dict[object, Source] = {}
    found: dict[Source, Source] = {}
    for t, task in enumerate(tasks):
        for k, scalar in enumerate(task.scalars):
            source = t, k
            kind = None if before is None else before.get(source, source)
            first = firsts.setdefault((kind, scalar.dtype, bits(scalar.value, scalar.dtype)), source)
            if first is not source:
                found[source] = first
    return found


def bits(value: Any, dtype: str) -> object:
    """A hashable value that scalars of one element type share if and only if their bits are equal."""
    if dtype[0] == "f":  # floats have several zeros and NaNs, which differ in their bits
        return struct.pack("d", value)
    return struct.pack("dd", value.real, value.imag) if dtype[0] == "c" else value


def compose(tasks: Sequence[IndexTask], temporaries: Collection[int],
            equal: Mapping[Source, Source] = MappingProxyType({})) -> Composition:
    """Compose tasks into one body; the stores `temporaries` are not used afterwards.

    Scalars that are `equal` (see `alike`) become one scalar of the body.
    """
    names = _Names(tasks)
    body = _checked(_written(names, equal), "composition")
    gone = frozenset([names.slots[i] for i in temporaries if i in names.slots])
    facts = passes.Facts(names.relation, names.near, gone)
    for name, step in passes.PASSES.items():
        body = _checked(step(body, facts), name)
    found = _numbered(body, names, gone)
    _checked(found.body, "numbering", numbered=True)
    return found


def _checked(body: Body, stage: str, numbered: bool = False) -> Body:
    """Type-check the body that a stage made, if the setting `check` is on."""
    if config.check:
        from diffuse.kernels.body.check import check

        check(body, stage, numbered)
    return body


def _space(task: IndexTask, domain: Point) -> Space:
    """The space of a task in the body; a launch of one point, and the epilogue, cut no dimension."""
    several = volume(domain) > 1 and task.domain == domain
    axes = tuple([split.axis for split in task.splits]) if several else (-1,) * len(domain)
    begins = several and any([split.begin is not None for split in task.splits])
    return Space(len(task.shape), axes, _flat(task), begins)


def _flat(task: IndexTask) -> int:
    assert task.decomposition is not None
    return flat(task.shape, task.decomposition)


def verify(task: IndexTask) -> None:
    """Raise TypeError unless a task's operation writes a well-formed body for its element types."""
    from diffuse.kernels.body.check import check

    try:
        body = _written(_Names([task]), {})
        check(body, "declaration")
        stored = {k for op in body.loops[0].ops if op.kind in EFFECTS for k in op.arguments[:1]}
        if any(a.privilege is not Privilege.READ and k not in stored for k, a in enumerate(body.arguments)):
            raise ValueError("it leaves an output as it is: expected a store() or a reduce() to each")
    except (TypeError, ValueError, LookupError) as error:
        raise TypeError(f"operation {task.operation!r} on {', '.join(task.signature)}: its body is not well "
                        f"formed ({error}): correct its declaration") from error


def elementwise(task: IndexTask) -> bool:
    """Does each iteration of a task compute its elements alone, whatever its index?"""
    row = operations.find(task.operation)
    return row.elementwise and all([op.kind in PLAIN or op.kind in operations.TABLE
                                    for op in _loop(_Names([task]), 0, {}).ops])


def _written(names: _Names, equal: Mapping[Source, Source]) -> Body:
    """A body with one loop for each task, before any pass."""
    tasks = names.tasks
    loops = tuple([_loop(names, number, equal) for number in range(len(tasks))])
    domain = tasks[0].domain
    spaces = tuple([_space(tasks[number], domain) for number in names.owners])
    return Body(spaces, tuple(names.arguments), tuple([tasks[t].scalars[k].dtype for t, k in names.scalars]),
                loops, sum([task.domain != domain for task in tasks]))


def _loop(names: _Names, number: int, equal: Mapping[Source, Source]) -> Loop:
    """The loop of one task, written by its operation."""
    task, space = names.tasks[number], names.space(number)
    rank = len(task.shape)
    inputs, outputs = [], []
    for k, access in enumerate(task.accesses):
        argument = names.argument(access, number, k, space)
        if access.privilege is Privilege.READ:
            inputs.append(_op(Op, ("load", access.store.dtype, (), argument)))
        else:
            outputs.append(Output(access.store.dtype, argument, rank))
    if task.scalars:
        for position, k in sorted([(scalar.position, k) for k, scalar in enumerate(task.scalars)]):
            source = number, k
            value = names.scalars.setdefault(equal.get(source, source), len(names.scalars))
            inputs.insert(position, _op(Op, ("scalar", task.scalars[k].dtype, (), value)))
    builder = Builder(tuple(inputs), tuple(outputs), task.signature, task.operation.partition(":")[2])
    operations.find(task.operation).write(builder)
    return Loop(space, tuple(range(rank)), tuple(builder.ops))


def _numbered(body: Body, names: _Names, gone: frozenset[int]) -> Composition:
    """Renumber arguments, scalars and spaces by first use in the loops, and derive the privileges."""
    arguments: dict[int, int] = {}
    scalars: dict[int, int] = {}
    spaces: dict[int, int] = {}
    # a slot's privileges in the points and in the epilogue are separate
    late = {loop.space for loop in body.loops[len(body.loops) - body.epilogue:]}
    written: set[tuple[int, bool]] = set()
    read: set[tuple[int, bool]] = set()

    def argument(number: int, touched: set[tuple[int, bool]]) -> int:
        old = body.arguments[number]
        touched.add((old.slot, old.space in late))
        return arguments.setdefault(number, len(arguments))

    loops = []
    for space, order, ops in body.loops:
        found = []
        for op in ops:
            kind, _, _, named = op
            if kind == "scalar":
                named = scalars.setdefault(named, len(scalars))
            elif kind in ("load", "store", "pick"):
                named = argument(named, written if kind == "store" else read)
            elif kind in ("spmv", "nth"):
                named = tuple([argument(k, read) for k in named])
            elif kind == "reduce":
                named = named[0], argument(named[1], written)
            elif kind == "scatter":
                operator, target, *others, axis, letter = named
                argument(target, read)
                named = (operator, argument(target, written), *[argument(k, read) for k in others], axis,
                         letter)
            elif kind == "turn":
                named = argument(named[0], read), named[1]
            found.append(op if named is op[3] else _op(Op, (*op[:3], named)))
        loops.append(Loop(spaces.setdefault(space, len(spaces)), order, tuple(found)))

    def privilege(touch: tuple[int, bool]) -> Privilege:
        if touch in written:
            return Privilege.READ_WRITE if touch in read else Privilege.WRITE
        return Privilege.READ

    kept = [body.arguments[k] for k in arguments]
    sources = list(names.scalars)
    return Composition(
        Body(tuple([body.spaces[s] for s in spaces]),
             tuple([a._replace(space=spaces[a.space], privilege=privilege((a.slot, a.space in late)))
                    for a in kept]),
             tuple([body.scalars[k] for k in scalars]), tuple(loops), body.epilogue,
             _whole(body, names), _parts(body, names)),
        tuple([names.sources[k] for k in arguments]), tuple([sources[k] for k in scalars]),
        tuple([names.owners[s] for s in spaces]), gone - {a.slot for a in kept},
        gone & {a.slot for a in kept})


def _whole(body: Body, names: _Names) -> tuple[int, ...]:
    """The reductions that each of several points completes by itself: their results are written, not
    reduced."""
    if volume(names.tasks[0].domain) <= 1:
        return ()
    folds = [op for loop in body.loops for op in loop.ops if op.kind == "reduce"]
    sources = [names.sources[op.attribute[1]] for op in folds]
    return tuple([number for number, (task, access) in enumerate(sources)
                  if names.tasks[task].accesses[access].privilege is not Privilege.REDUCE])


def _parts(body: Body, names: _Names) -> tuple[int, ...]:
    """The reductions whose subtrees each point folds.  Where a runtime places stores itself, fewer partial
    results then travel to another machine; elsewhere the smaller kernel compiles sooner."""
    decomposition = names.tasks[0].decomposition
    if decomposition is None or not decomposition.gaps:
        return ()
    return tuple([k for k in range(len(abi.reductions(body))) if abi.leaf_runs(body, k)])
