"""A window in canonical form: rows in which stores, views and iteration spaces are numbered by first use.

Two windows with equal rows and equal liveness are isomorphic: whatever fusion, temporary elimination or
the kernel compiler decides for one holds for the other (papers/003, section 5.2).  A row therefore holds
all that such a decision depends on, and no store id, scalar value, extent or offset::

    Row    ::= operation, signature, Space, Domain, Scalars, (slot, View, privilege, operator)*
    Space  ::= number                                       seen before
             | (rank, split axes)                           new: the next number; of a flat one with `vectors`
    Domain ::= True                                         the domain of the window's first task
             | (is extent 0 one point?, ...)                the first task's, or a different one
    View   ::= Known                                        seen before in this slot and this space
             | (Known, classes)                             seen before, but not in this space
             | (number, dtype, classes, relations, frame, covers)                  new in its slot
    Known  ::= number | (number, relations)                 the latter if written for the first time

`relations` are those that can matter, as pairs (view, relation): of a view that is written, with every view
of its slot so far, itself included; of a view that is read, with the written ones.  Views that are apart are
left out, so that a row is short however many parts of a store a program looks at.  `frame` says whether its
frame is the slot's first.  The stride classes of a view depend on the iteration space, too (ir/loops.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diffuse.bounded import Recurring
from diffuse.ir import (
    Access,
    AccessMap,
    Decomposition,
    IndexTask,
    Partition,
    Point,
    Privilege,
    Relation,
    Split,
    Store,
    covers,
    relation,
)
from diffuse.ir.loops import flat, letters
from diffuse.ir.spans import Spans

Row = tuple[Any, ...]
Relations = tuple[tuple[int, Relation], ...]

_READ = Privilege.READ
# Views are interned by whoever records tasks, so the same few map and partition objects come again in every
# window.  What is found about them is kept by identity (hashing them would cost more than the answer saves);
# each entry holds the objects it is about, so that an identity is never reused while the entry stands.
_forms: dict[tuple[int, int, Point, Point | int, bool], tuple[str, bool, AccessMap, Partition]] = Recurring()


class _Slot:
    """The views of one store so far: first accesses, which of them are written, and indices to find one
    again."""

    __slots__ = ("number", "views", "written", "spans", "alike", "spaces")

    def __init__(self, number: int) -> None:
        self.number = number
        self.written: set[int] = set()
        self.spaces: set[tuple[int, int]] = set()
        """The views, each with the spaces in which it was accessed."""
        self.spans = Spans()
        self.views = self.spans.accesses
        self.alike: dict[AccessMap, list[int]] = {}
        """The views by their maps."""


class Numbering:
    """The canonical numbers of a growing window.  Asking for the row of a task appends the task."""

    __slots__ = ("slots", "stores", "spaces", "_slots", "_seen", "_numbers", "_vectors", "_domain", "_last")

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}
        """Slot of each store id."""
        self.stores: list[Store] = []
        """First frame of each slot."""
        self.spaces: list[tuple[Point, tuple[Split, ...]]] = []
        """Iteration spaces, as (shape, splits)."""
        self._slots: list[_Slot] = []
        self._seen: dict[tuple[int, int, int], tuple[_Slot, int, Store, AccessMap, Partition]] = {}
        self._numbers: dict[tuple[Point, tuple[Split, ...]], int] = {}
        self._vectors: list[int] = []
        """For each space, `flat` of its tasks."""
        self._domain: Point | None = None
        self._last: tuple[Any, Any, int] = (None, None, 0)

    @property
    def views(self) -> list[list[Access]]:
        """For each slot the first access of each of its views."""
        return [slot.views for slot in self._slots]

    def row(self, task: IndexTask) -> Row:
        """Number the stores, views and spaces that `task` is the first to use; return it in these numbers."""
        operation, signature, shape, accesses, scalars, decomposition, _ = task
        assert decomposition is not None
        domain, splits, *_ = decomposition
        last = self._last
        space: Any = last[2] if last[0] == shape and last[1] == splits else self._space(shape, decomposition)
        place: Any = True if domain == self._domain else self._place(domain)
        values = tuple([(s[0], s[1]) for s in scalars]) if scalars else ()
        row: list[Any] = [operation, signature, space, place, values]
        seen = self._seen
        for access in accesses:
            store, map, privilege, operator, partition = access
            found = seen.get((store[0], id(map), id(partition)))
            if found is None or (found[2] is not store and found[2] != store):
                row += (*self._view(access, shape, decomposition), privilege, operator)
            elif ((found[1], self._last[2]) in found[0].spaces
                  and (privilege is _READ or found[1] in found[0].written)):  # the most frequent case
                row += (found[0].number, found[1], privilege, operator)
            else:
                row += (found[0].number, self._known(found[0], found[1], access, shape, decomposition),
                        privilege, operator)
        return tuple(row)

    def relations(self, slot: int, first: int, second: int) -> Relation:
        """The relation of two views of a slot, on the domain of the first task."""
        views = self._slots[slot].views
        return relation(views[max(first, second)], views[min(first, second)], self._domain or (1,))

    def place(self, access: Access) -> tuple[int, int]:
        """The slot and the view of an access of a task that has a row."""
        slot, view, *_ = self._seen[access.store.id, id(access.map), id(access.partition)]
        return slot.number, view

    def near(self, slot: int, view: int) -> Sequence[int]:
        """The views of a slot that may overlap this one, in order."""
        found = self._slots[slot]
        return found.spans.near(found.views[view])

    def _space(self, shape: Point, decomposition: Decomposition) -> Any:
        splits = decomposition.splits
        number = self._numbers.get((shape, splits))
        entry: Any = number
        if number is None:
            number = self._numbers[shape, splits] = len(self.spaces)
            self.spaces.append((shape, splits))
            entry = (len(shape), tuple([split.axis for split in splits]))
            vectors = flat(shape, decomposition)
            self._vectors.append(vectors)
            begins = any([split.begin is not None for split in splits])
            if vectors or begins:
                entry += (vectors, begins)
        self._last = (shape, splits, number)
        return entry

    def _place(self, domain: Point) -> tuple[bool, ...]:
        if self._domain is None:
            self._domain = domain
        return tuple([extent <= 1 for extent in domain])

    def _view(self, access: Access, shape: Point, decomposition: Decomposition) -> tuple[int, Any]:
        """The slot and `View` of an access whose view was not found by identity."""
        domain = decomposition.domain
        store, map, privilege, _, partition = access
        number = self.slots.get(store[0])
        if number is None:
            number = self.slots[store[0]] = len(self.stores)
            self.stores.append(store)
            self._slots.append(_Slot(number))
        slot = self._slots[number]
        views = slot.views
        alike = slot.alike.get(map)
        if alike is None:
            alike = slot.alike[map] = []
        for known in alike:  # an equal view may be another object, while the kernel's body has one view
            other = views[known]
            if other.partition == partition and other.store == store:
                self._seen[store[0], id(map), id(partition)] = (slot, known, store, map, partition)
                return number, self._known(slot, known, access, shape, decomposition)
        mine = len(views)
        slot.spaces.add((mine, self._last[2]))
        alike.append(mine)
        self._seen[store[0], id(map), id(partition)] = (slot, mine, store, map, partition)
        slot.spans.add(access)
        if privilege is not _READ:
            relations = self._write(slot, mine, access, domain)[1]
        else:
            relations = _relations(slot, access, domain) if slot.written else ()
        classes, covered = self._form(access, shape, decomposition)
        return number, (mine, store.dtype, classes, relations, store is self.stores[number]
                        or store == self.stores[number], covered)

    def _known(self, slot: _Slot, view: int, access: Access, shape: Point, decomposition: Decomposition
               ) -> Any:
        """The `View` of an access whose view its slot knows."""
        entry: Any = view
        if access.privilege is not _READ and view not in slot.written:
            entry = self._write(slot, view, access, decomposition.domain)
        place = view, self._last[2]
        if place in slot.spaces:
            return entry
        slot.spaces.add(place)
        return entry, self._form(access, shape, decomposition)[0]

    def _form(self, access: Access, shape: Point, decomposition: Decomposition) -> tuple[str, bool]:
        """The stride classes of an access of the last task, and whether it covers its store."""
        return _form(access, shape, self._vectors[self._last[2]], decomposition.gaps)

    def _write(self, slot: _Slot, view: int, access: Access, domain: Point) -> tuple[int, Relations]:
        """Record the first write to a view; from then on its relations to all others matter."""
        slot.written.add(view)
        return view, _relations(slot, access, domain, every=True)


def _relations(slot: _Slot, access: Access, domain: Point, every: bool = False) -> Relations:
    """The relations of an access to the written views of its slot, or to `every` view."""
    found = [(k, relation(access, slot.views[k], domain)) for k in slot.spans.near(access)
             if every or k in slot.written]
    return tuple([pair for pair in found if pair[1] is not Relation.APART])


def _form(access: Access, shape: Point, flattened: int, gaps: bool) -> tuple[str, bool]:
    store, map, _, _, partition = access
    name = (id(map), id(partition), store.shape, shape if flattened else len(shape), gaps)
    found = _forms.get(name)
    if found is None:
        found = _forms[name] = (letters(access, shape, flattened, gaps), covers(access), map, partition)
    return found[0], found[1]
