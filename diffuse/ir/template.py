"""Templates: index tasks without their stores, scalar values and lines of the program.

A loop records the same operations in each iteration, on other stores and with other numbers.  What stays
(element types, views, privileges) is a *template*, made in the first iteration and then found by the identity
of the views; what changes is a `Recorded`: a few words per operation.  An index task is made of both on
demand, which a replay never does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from diffuse.bounded import Bounded
from diffuse.ir.alias import Relation, relation
from diffuse.ir.partition import Partition, covers, disjoint
from diffuse.ir.task import (
    ONE,
    WHOLE,
    Access,
    Decomposition,
    IndexTask,
    Point,
    Privilege,
    Scalar,
    Split,
    Store,
    volume,
)
from diffuse.ir.view import View, located

_new = tuple.__new__
# Calling the base's constructor halves the cost of making named tuples.

VARIANTS = 64
"""The most decompositions that one template caches."""


SCATTERED = 5000
"""The number of elements of a view on separate cache lines from which on a task is worth recording.  NumPy
takes some 10 microseconds for so many, but only one if they are contiguous.  Planes of 4,096 elements made a
program as fast in the end, but its first run took three times as long as NumPy's
(apps/everyday/vertical_mixing.py)."""
LINE = 64
"""Bytes of a cache line."""


class Use(NamedTuple):
    """An access without its store's id."""

    frame: Point
    """The shape of the store's frame, whose coordinates the map gives."""
    dtype: str
    map: View
    privilege: Privilege
    operator: str | None = None
    partition: Partition = WHOLE

    @staticmethod
    def of(view: View, privilege: Privilege, operator: str | None = None) -> Use:
        """The use of a view's elements."""
        return Use(view.frame, view.dtype, view, privilege, operator)

    def access(self, store: int) -> Access:
        """The access to this store."""
        return Access(Store(store, self.frame, self.dtype), *self[2:])


def _scattered(view: View) -> int:
    """The number of elements of a view whose elements are all on separate cache lines; 0 of others."""
    moves = False
    for step, n in zip(reversed(view.strides), reversed(view.shape), strict=True):
        if n > 1:
            if -LINE < step < LINE:
                return 0
            moves = True
    return volume(view.shape) if moves else 0


class Template:
    """An index task without its stores, its scalar values and its line.  Compared by identity."""

    __slots__ = ("operation", "signature", "shape", "uses", "numbers", "decomposition", "fills", "decomposed",
                 "chosen", "alike", "alone", "elements", "reach", "begin", "met", "kind", "cut", "moved")

    def __init__(self, operation: str, signature: tuple[str, ...], shape: Point, uses: tuple[Use, ...],
                 numbers: tuple[tuple[int, str], ...] = (), decomposition: Decomposition | None = None
                 ) -> None:
        self.operation = operation
        self.signature = signature
        self.shape = shape
        self.elements = volume(shape)
        largest = max(uses, key=lambda use: volume(use.frame), default=None)
        scattered = any([_scattered(use.map) >= SCATTERED for use in uses])
        self.reach = 0 if largest is None or scattered else volume(largest.frame)
        """The number of elements of the largest store that the task uses, or uses a part of; 0 if the task is
        no small step through the store because its elements, however few, are scattered."""
        self.begin = 0 if largest is None else largest.map.offset
        """The byte offset in that store of the first element that it uses."""
        self.uses = uses
        """Reads in input order, then outputs."""
        self.numbers = numbers
        """Position and element type of each scalar."""
        self.decomposition = decomposition
        """The decomposition; None if the stream has to choose it."""
        self.fills = operation == "copy" and len(uses) == 1 and covers(uses[0].access(-1))
        """Does it write one value to every element of a store?"""
        self.decomposed: dict[Decomposition, Template] = Bounded(VARIANTS)
        """The template under each decomposition."""
        self.chosen: dict[Any, Template] = Bounded(VARIANTS)
        """The choices of `stream.decompose`, by everything that they depend on."""
        self.alike: dict[Any, Decomposition] = {}
        """The choices of `stream.decompose.chosen_for`, by its arguments."""
        self.cut = False
        """Has the stream chosen a decomposition for it before?"""
        self.kind: Any = None
        """Its kind (kinds.py); False if it has none, and None before it was first looked up."""
        self.met = False
        """Has a library noted that it recorded a task of this template?"""
        self.moved: int | None = None
        """The bytes that NumPy would read and write for it (stream/waits.py); None until it is asked for."""
        self.alone = 0
        """How often in a row the program waited for this operation and no other, or a library therefore
        computed it without recording it."""

    def under(self, decomposition: Decomposition) -> Template:
        """The template with a decomposition, and the partitions that follow from it.

        On one point a reduction is complete when its loop is done: its privilege becomes WRITE.  The same
        holds for a fold of whole rows where no launch dimension cuts rows, if points complete such folds.
        """
        found = self.decomposed.get(decomposition)
        if found is None:
            uses = tuple([self._cut(use, decomposition) for use in self.uses])
            found = self.decomposed[decomposition] = self._copy(uses, decomposition)
        return found

    def fits(self, decomposition: Decomposition) -> bool:
        """Would the writes of different points be disjoint under this decomposition?  Not where rows of a
        view interleave, or none is cut."""
        for use in self.uses:
            if use.privilege is not Privilege.READ:
                cut = self._cut(use, decomposition)
                if not (disjoint(cut.partition, decomposition.domain) if cut.privilege.writes
                        else use.map.simple):
                    return False
        return True

    def _cut(self, use: Use, decomposition: Decomposition) -> Use:
        """A use with the partition that follows from a decomposition."""
        frame, dtype, view, privilege, operator, _ = use
        if privilege is Privilege.REDUCE and self._completed(use, decomposition):
            privilege, operator = Privilege.WRITE, None
        partition = view.partition(_new(Store, (-1, frame, dtype)), decomposition.splits)
        return _new(Use, (frame, dtype, view, privilege, operator, partition))

    def _copy(self, uses: tuple[Use, ...], decomposition: Decomposition) -> Template:
        """The template with other privileges and partitions, which nothing depends on that was derived."""
        made = Template.__new__(Template)
        made.operation, made.signature, made.shape = self.operation, self.signature, self.shape
        made.elements, made.reach, made.begin = self.elements, self.reach, self.begin
        made.uses, made.numbers, made.decomposition = uses, self.numbers, decomposition
        made.fills, made.met, made.alone, made.cut, made.kind = self.fills, False, 0, True, False
        made.moved = self.moved
        made.decomposed, made.chosen, made.alike = Bounded(VARIANTS), Bounded(VARIANTS), {}
        return made

    def called(self, decomposition: Decomposition) -> Template:
        """The same, of a host function, whose blocks a decomposition names: each split is one of the ways in
        which the function may be cut (runtime/independent.py).  What it uses of stores is not cut here."""
        found = self.decomposed.get(decomposition)
        if found is None:
            uses = self.under(ONE).uses
            found = self.decomposed[decomposition] = self._copy(uses, decomposition)
        return found

    def _completed(self, use: Use, decomposition: Decomposition) -> bool:
        """Is it a reduction whose results are complete at the end of a point's loop?"""
        if volume(decomposition.domain) <= 1:
            return True
        rows = decomposition.completes and not use.map.follows(len(self.shape) - 1)
        return rows and all([axis >= 0 and use.map.follows(axis) for axis, *_ in decomposition.splits])

    @property
    def key(self) -> tuple[Any, ...]:
        """The contents of the template, by value."""
        return self.operation, self.signature, self.shape, self.uses, self.numbers, self.decomposition

    @property
    def domain(self) -> Point:
        """The extents of the launch domain; the template has to be decomposed."""
        assert self.decomposition is not None
        return self.decomposition.domain

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits; the template has to be decomposed."""
        assert self.decomposition is not None
        return self.decomposition.splits

    def task(self, recorded: Recorded, decomposition: Decomposition | None = None) -> IndexTask:
        """The index task of a recorded operation with this template, and with this decomposition, if one is
        given, but no partitions."""
        _, stores, values, where = recorded
        accesses = tuple([
            _new(Access, (_new(Store, (store, frame, dtype)), *rest))
            for store, (frame, dtype, *rest) in zip(stores, self.uses, strict=True)])
        scalars = tuple([_new(Scalar, (*number, value))
                         for number, value in zip(self.numbers, values, strict=True)]) if values else ()
        return _new(IndexTask, (self.operation, self.signature, self.shape, accesses, scalars,
                                decomposition or self.decomposition, where))


Recorded = tuple[Template, tuple[int, ...], tuple[Any, ...], Any]
"""One operation of the program: its template, the ids of its stores in the order of the template's uses, the
values of its scalars, and its place in the program, the same object for equal places.  A plain tuple costs a
fourth of a named one."""


def template(task: IndexTask) -> Template:
    """The template of an index task: everything except its stores, its scalars and its place in the
    program."""
    uses = tuple([Use(a.store.shape, a.store.dtype, located(a.map, a.store, task.shape), *a[2:])
                  for a in task.accesses])
    numbers = tuple([(scalar.position, scalar.dtype) for scalar in task.scalars])
    return Template(task.operation, task.signature, task.shape, uses, numbers, task.decomposition)


def recorded(task: IndexTask, made: Template) -> Recorded:
    """The parts of an index task that are not in its template."""
    values = tuple([scalar.value for scalar in task.scalars])
    return made, tuple([access.store.id for access in task.accesses]), values, task.where


def overlap(view: View, other: View) -> str:
    """The relation of two views of one store: they are the "same", or "apart", or they "overlap"."""
    if view == other and view.shape == other.shape and view.dtype == other.dtype:
        return "same"
    uses = [Template("", (), each.shape, (Use.of(each, Privilege.READ),)).under(ONE).uses[0]
            for each in (view, other)]
    meeting = relation(uses[0].access(-1), uses[1].access(-1), ONE.domain)
    return "apart" if meeting is Relation.APART else "overlap"
