"""Loop fusion: which fragments of one body share a loop, and what a shared loop no longer needs.

Task fusion asked whether *points* communicate; this asks whether *elements* do.  Two fragments may share a
loop when every pair of conflicting accesses is the same element at the same iteration (SAME) or never meets
(APART).  Inside a loop, stored values are forwarded to later loads, equal expressions are computed once,
overwritten and unread stores vanish: a temporary is a name that loses its subscript.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffuse.ir import Relation
from diffuse.kernels.body.compose import Fragment, Nest, Reference, Window
from diffuse.kernels.body.expr import Op


class Draft:
    """A loop being filled, with what its fragments touch."""

    def __init__(self, space: int, scans: bool) -> None:
        self.space = space
        self.scans = scans
        self.fragments: list[Fragment] = []
        self.reads: set[tuple[int, int]] = set()
        self.writes: set[tuple[int, int]] = set()
        self.reduces: set[tuple[int, int]] = set()
        self.slots: set[int] = set()

    def add(self, fragment: Fragment) -> None:
        self.fragments.append(fragment)
        for mine, theirs in ((self.reads, fragment.reads), (self.writes, fragment.writes),
                             (self.reduces, fragment.reduces)):
            mine.update((r.slot, r.view) for r in theirs)
            self.slots.update(r.slot for r in theirs)


def fuse(window: Window, fragments: list[Fragment], temporaries: frozenset[int]) -> list[Nest]:
    """Group fragments into loops, in an order that respects every dependence; then clean each loop."""
    drafts: list[Draft] = []
    for fragment in fragments:
        home = None
        for draft in reversed(drafts):
            meets, blocks = _conflict(window, draft, fragment)
            if not blocks and draft.space == fragment.space and not draft.scans and not fragment.scans:
                home = draft
                break
            if meets:
                break
        if home is None:
            home = Draft(fragment.space, fragment.scans)
            drafts.append(home)
        home.add(fragment)
    uses: dict[int, int] = {}
    for draft in drafts:
        for slot in draft.slots:
            uses[slot] = uses.get(slot, 0) + 1
    dead = _unread(drafts, temporaries)
    lists = []
    for draft in drafts:
        inner = {s for s in temporaries if uses.get(s) == 1 and not _reduced(draft, s)}
        lists.append((draft.space, _clean(draft, inner | dead)))
    return [(space, ops) for space, ops in lists if ops]


def _conflict(window: Window, draft: Draft, fragment: Fragment) -> tuple[bool, bool]:
    """(do any elements meet, does any meeting forbid sharing the loop)"""
    references = (*fragment.reads, *fragment.writes, *fragment.reduces)
    if draft.slots.isdisjoint(r.slot for r in references):
        return False, False
    meets = blocks = False
    pairs: Sequence[tuple[set[tuple[int, int]], list[Reference], bool]] = (
        (draft.writes, fragment.reads, False), (draft.writes, fragment.writes, False),
        (draft.writes, fragment.reduces, True), (draft.reads, fragment.writes, False),
        (draft.reads, fragment.reduces, True), (draft.reduces, fragment.reads, True),
        (draft.reduces, fragment.writes, True), (draft.reduces, fragment.reduces, True))
    for earlier, later, never in pairs:
        for r in later:
            for slot, view in earlier:
                if slot != r.slot:
                    continue
                found = Relation.SAME if view == r.view else window.relation(slot, view, r.view)
                if found is Relation.APART:
                    continue
                meets = True
                blocks = blocks or never or found is not Relation.SAME or draft.space != r.space
    return meets, blocks


def _reduced(draft: Draft, slot: int) -> bool:
    return any(s == slot for s, _ in draft.reduces)


def _unread(drafts: list[Draft], temporaries: frozenset[int]) -> set[int]:
    """Temporaries that no loop reads: dead, nothing is stored or reduced into them."""
    return set(temporaries) - {slot for d in drafts for slot, _ in d.reads}


def _clean(draft: Draft, registers: set[int]) -> list[Op]:
    """One op list for a loop: loads forwarded, expressions shared, dead ops gone, stores last."""
    ops: list[Op] = []
    known: dict[Op, int] = {}
    current: dict[tuple[int, int], int] = {}
    stores: dict[tuple[int, int], tuple[Reference, int]] = {}
    reduces: list[Op] = []

    def emit(op: Op) -> int:
        value = known.get(op)
        if value is None:
            ops.append(op)
            value = known[op] = len(ops) - 1
        return value

    for fragment in draft.fragments:
        names: list[int] = []
        for op in fragment.ops:
            args = tuple(names[a] for a in op.args)
            if op.kind == "load":
                place = (op.attribute.slot, op.attribute.view)
                value = current.get(place)
                if value is None:
                    value = current[place] = emit(op)
                names.append(value)
            elif op.kind == "store":
                place = (op.attribute.slot, op.attribute.view)
                current[place] = args[0]
                stores.pop(place, None)
                stores[place] = (op.attribute, args[0])
                names.append(-1)
            elif op.kind == "reduce":
                reduces.append(op._replace(args=args))
                names.append(-1)
            else:
                names.append(emit(op._replace(args=args)))
    tail = [Op("store", ops[v].dtype, (v,), r) for r, v in stores.values() if r.slot not in registers]
    tail += [op for op in reduces if op.attribute[1].slot not in registers]
    return _live(ops, tail)


def _live(ops: list[Op], tail: list[Op]) -> list[Op]:
    """Drop the ops that no store or reduction needs; renumber the rest."""
    wanted = [False] * len(ops)
    for op in tail:
        for a in op.args:
            wanted[a] = True
    for number in range(len(ops) - 1, -1, -1):
        if wanted[number]:
            for a in ops[number].args:
                wanted[a] = True
    names: dict[int, int] = {}
    kept: list[Op] = []
    for number, op in enumerate(ops):
        if wanted[number]:
            names[number] = len(kept)
            kept.append(op._replace(args=tuple(names[a] for a in op.args)))
    return kept + [op._replace(args=tuple(names[a] for a in op.args)) for op in tail]
