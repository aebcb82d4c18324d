"""From the tasks of a prefix to one body: their fragments in program order, stores renamed to slots.

Everything here is a function of the canonical form, and of which scalars are said to be equal: the same tasks
over other stores, extents and scalar values compose to an equal body.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from diffuse.ir import Access, IndexTask, Point, Privilege, Relation, Scalar, Split, relation, volume
from diffuse.ir.launch import flat, letters
from diffuse.kernels.body import operations
from diffuse.kernels.body.expr import Argument, Body, Builder, Loop, Op, Output, Space


class Reference(NamedTuple):
    """How a fragment names an argument before arguments are numbered: a slot's view in a space."""

    slot: int
    view: int
    space: int


@dataclass
class Fragment:
    """What one task computes: ops whose loads, stores and reduces are attributed to references."""

    space: int
    ops: list[Op]
    reads: list[Reference]
    writes: list[Reference]
    reduces: list[Reference]
    scans: bool


Nest = tuple[int, list[Op]]
"""A loop before its arguments are numbered: its space and its ops."""

Source = tuple[int, int]
"""A scalar of a window: (task, scalar)."""


class Composition(NamedTuple):
    """A body, and where each of its parts comes from in the window."""

    body: Body
    arguments: tuple[tuple[int, int], ...]
    """Per argument of the body: (task, access)."""
    scalars: tuple[Source, ...]
    """Per scalar of the body: where its value comes from."""
    spaces: tuple[int, ...]
    """Per space of the body: a task that iterates over it."""
    vanished: frozenset[int]
    """Slots that live in registers only and need no memory."""
    partials: tuple[tuple[int, int], ...]
    """Per reduction of the body: (loop, argument)."""


class Window:
    """The numbering that composition works in: slots, views and spaces by first use."""

    def __init__(self, tasks: Sequence[IndexTask]) -> None:
        self.tasks = tasks
        self.domain = tasks[0].domain
        self.slots: dict[int, int] = {}
        self.views: list[dict[tuple[object, ...], int]] = []
        self.accesses: list[list[Access]] = []
        self.spaces: dict[tuple[Point, tuple[Split, ...]], int] = {}
        self.sources: dict[Reference, tuple[int, int]] = {}
        self._relations: dict[tuple[int, int, int], Relation] = {}

    def space(self, task: IndexTask) -> int:
        return self.spaces.setdefault((task.shape, task.splits), len(self.spaces))

    def reference(self, number: int, position: int) -> Reference:
        """The reference of one access of one task."""
        task = self.tasks[number]
        access = task.accesses[position]
        slot = self.slots.setdefault(access.store.id, len(self.slots))
        if slot == len(self.views):
            self.views.append({})
            self.accesses.append([])
        key = (access.store, access.map, access.partition)
        view = self.views[slot].setdefault(key, len(self.views[slot]))
        if view == len(self.accesses[slot]):
            self.accesses[slot].append(access)
        found = Reference(slot, view, self.space(task))
        self.sources.setdefault(found, (number, position))
        return found

    def relation(self, slot: int, a: int, b: int) -> Relation:
        key = (slot, min(a, b), max(a, b))
        if key not in self._relations:
            first, second = self.accesses[slot][key[1]], self.accesses[slot][key[2]]
            self._relations[key] = relation(first, second, self.domain)
        return self._relations[key]


def alike(tasks: Sequence[IndexTask], before: Mapping[Source, Source] | None = None
          ) -> dict[Source, Source]:
    """Scalars that are equal by element type and bits: all but the first of each kind, with that first one.

    A kernel that takes equal scalars for one shares what is computed with them, and has fewer values to hold.
    But values are data and may differ the next time: `before` says what was equal until now, and only such
    scalars are compared, so that a program of ever new values soon has a kernel for all of them.
    """
    firsts: dict[object, Source] = {}
    found: dict[Source, Source] = {}
    for t, task in enumerate(tasks):
        for k, scalar in enumerate(task.scalars):
            source = t, k
            kind = None if before is None else before.get(source, source)
            first = firsts.setdefault((kind, scalar.dtype, bits(scalar)), source)
            if first is not source:
                found[source] = first
    return found


def bits(scalar: Scalar) -> object:
    """What scalars of one element type have in common if their bits are equal, and only then."""
    _, dtype, value = scalar
    if dtype[0] == "f":  # of whose zeros and NaNs there are several
        return struct.pack("d", value)
    return struct.pack("dd", value.real, value.imag) if dtype[0] == "c" else value


Fuse = Callable[[Window, list[Fragment], frozenset[int]], list[Nest]]


def compose(tasks: Sequence[IndexTask], temporaries: Collection[int], fuse: Fuse,
            equal: Mapping[Source, Source] = MappingProxyType({})) -> Composition:
    """Turn the tasks of a prefix into one body; `fuse` (loops.py) decides which fragments share a loop.

    Scalars that are `equal` (see `alike`) become one scalar of the body.
    """
    window = Window(tasks)
    scalars: dict[Source, int] = {}
    fragments = [_fragment(window, number, scalars, equal) for number in range(len(tasks))]
    gone = frozenset(window.slots[i] for i in temporaries if i in window.slots)
    return _number(window, fuse(window, fragments, gone), list(scalars), gone)


def _fragment(window: Window, number: int, scalars: dict[Source, int], equal: Mapping[Source, Source]
              ) -> Fragment:
    task = window.tasks[number]
    name, _, attribute = task.operation.partition(":")
    outputs = [k for k, a in enumerate(task.accesses) if a.privilege is not Privilege.READ]
    reads = [window.reference(number, k) for k in range(len(task.accesses)) if k not in outputs]
    by_position = {s.position: k for k, s in enumerate(task.scalars)}
    inputs, unread = [], iter(reads)
    for position in range(len(reads) + len(task.scalars)):
        if position in by_position:
            source = number, by_position[position]
            value = scalars.setdefault(equal.get(source, source), len(scalars))
            inputs.append(Op("scalar", task.scalars[source[1]].dtype, (), value))
        else:
            reference = next(unread)
            dtype = window.accesses[reference.slot][reference.view].store.dtype
            inputs.append(Op("load", dtype, (), reference))
    writes = [window.reference(number, k) for k in outputs]
    targets = tuple(Output(task.accesses[k].store.dtype, w, len(task.shape))  # type: ignore[arg-type]
                    for k, w in zip(outputs, writes, strict=True))
    builder = Builder(tuple(inputs), targets, task.signature, attribute)
    operations.find(task.operation).write(builder)
    reduced = {op.attribute[1] for op in builder.ops if op.kind == "reduce"}
    return Fragment(window.space(task), builder.ops, reads, [w for w in writes if w not in reduced],
                    [w for w in writes if w in reduced], any(op.kind == "scan" for op in builder.ops))


def _number(window: Window, nests: list[Nest], scalars: list[Source],
            gone: frozenset[int]) -> Composition:
    """Number arguments, scalars and spaces by first use in the loops, and pick each loop's order."""
    references: dict[Reference, int] = {}
    kept: dict[int, int] = {}
    spaces: dict[int, int] = {}
    numbered: list[Nest] = []
    # what the points do to a store, and what the epilogue does, are two privileges
    late = {window.space(task) for task in window.tasks if task.domain != window.domain}
    written: set[tuple[int, bool]] = set()
    read: set[tuple[int, bool]] = set()
    for space, ops in nests:
        at_end = space in late
        number = spaces.setdefault(space, len(spaces))
        out = []
        for op in ops:
            if op.kind == "scalar":
                op = op._replace(attribute=kept.setdefault(op.attribute, len(kept)))
            elif op.kind in ("load", "store"):
                (read if op.kind == "load" else written).add((op.attribute.slot, at_end))
                op = op._replace(attribute=references.setdefault(op.attribute, len(references)))
            elif op.kind == "spmv":
                read.update((r.slot, at_end) for r in op.attribute)
                op = op._replace(attribute=tuple([references.setdefault(r, len(references))
                                                  for r in op.attribute]))
            elif op.kind == "reduce":
                written.add((op.attribute[1].slot, at_end))
                op = op._replace(attribute=(op.attribute[0],
                                            references.setdefault(op.attribute[1], len(references))))
            out.append(op)
        numbered.append((number, out))
    tasks = window.tasks
    space_list = list(window.spaces)
    arguments = []
    for r in references:
        access = window.accesses[r.slot][r.view]
        shape, splits = space_list[r.space]
        touch = r.slot, r.space in late
        stored = touch in written
        privilege = (Privilege.READ_WRITE if stored and touch in read
                     else Privilege.WRITE if stored else Privilege.READ)
        arguments.append(Argument(r.slot, r.view, access.store.dtype, spaces[r.space],
                                  letters(access, shape, flat(shape, splits)), privilege))
    many = volume(window.domain) > 1
    body_spaces = tuple(Space(len(shape), splits[0].axis if many else -1, flat(shape, splits))
                        for shape, splits in (space_list[s] for s in spaces))
    body_loops = tuple(Loop(s, _order(ops, body_spaces[s].rank, arguments), tuple(ops))
                       for s, ops in numbered)
    owner = {window.space(t): n for n, t in reversed(list(enumerate(tasks)))}
    epilogue = sum(space in late for space, _ in nests)
    body = Body(body_spaces, tuple(arguments),
                tuple(tasks[t].scalars[k].dtype for t, k in (scalars[i] for i in kept)), body_loops, epilogue)
    touched = {r.slot for r in references}
    return Composition(body, tuple(window.sources[r] for r in references), tuple(scalars[i] for i in kept),
                       tuple(owner[s] for s in spaces), gone - touched,
                       tuple((n, op.attribute[1]) for n, (_, ops) in enumerate(numbered)
                             for op in ops if op.kind == "reduce"))


def _order(ops: Sequence[Op], rank: int, arguments: Sequence[Argument]) -> tuple[int, ...]:
    """Loop order, outermost first: the dimension with most unit strides innermost.

    A reduction's tree is defined on the natural order, so loops that reduce keep it, and so do sparse rows,
    which go along the rows of their dense operand; a scan runs along its own dimension innermost.
    """
    natural = list(range(rank))
    for op in ops:
        if op.kind in ("reduce", "spmv"):
            return tuple(natural)
        if op.kind == "scan":
            return tuple([d for d in natural if d != op.attribute[1]] + [op.attribute[1]])
    used = [arguments[op.attribute].classes for op in ops if op.kind in ("load", "store")]
    if rank > 1:
        units = [sum(c[d] == "1" for c in used) for d in natural]
        inner = max(natural, key=lambda d: (units[d], d))
        natural = [d for d in natural if d != inner] + [inner]
    return tuple(natural)
