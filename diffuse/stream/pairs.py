"""Pairs of fused tasks that run as one pass over rows, and the distance that their rows must keep.

Task fusion refuses a stencil and its write-back, as points of one read what other points of the other
overwrite.  The distance of that dependence is bounded, though, and known from the two access maps.  If only
the second task reads what the first one writes, the pair runs as a pipeline (kernels/llvm/pipeline.py): same
operations on the same values, so the same bits, without the store between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple

from diffuse.bounded import Bounded
from diffuse.ir import ITEMSIZE, Access, IndexTask, Privilege, Relation, covers, relation
from diffuse.ir.kinds import form
from diffuse.ir.partition import Rows
from diffuse.ir.view import shown
from diffuse.kernels.body import abi
from diffuse.kernels.llvm import pipeline
from diffuse.stream.cuts import PASSING
from diffuse.stream.group import Group
from diffuse.stream.layout import Composed
from diffuse.stream.plan import Plan
from diffuse.stream.replay import Replay

CACHE = 1 << 19
"""The bytes of all rows in flight that a chunk aims at: half of a common second-level cache."""
CHUNKS = (4, 64)
"""The fewest and the most rows of a chunk."""

PARTNERS = 64
"""The most forms that a replay keeps."""

ALIGNED = 64
"""The alignment of ring and border buffers, in bytes."""
ONE_POINT = (1,)

HEADER = Struct(f"<{len(pipeline.FIELDS)}q")
FIRST, SECOND, SCRATCH, BORDER = map(pipeline.FIELDS.index, ("first", "second", "scratch", "border"))


class Stage(NamedTuple):
    """One argument of a kernel, divided into rows."""

    access: Access
    stored: bool
    row: int | None
    """The store row of iteration row 0; None if iteration dimension 0 does not advance store dimension 0 row
    by row."""
    pitch: int
    """Bytes from one iteration row to the next."""
    width: int | None
    """Bytes of one row if it is contiguous, else None."""
    view: Any


class Geometry(NamedTuple):
    """The division of a pair into rows: see `pipeline.FIELDS`."""

    rows_first: int
    rows_second: int
    tile: int
    chunk: int
    reach: int
    low: int
    high: int
    below: int
    above: int
    kinds: tuple[tuple[int, ...], tuple[int, ...]]
    """The kinds of the arguments of the first and of the second kernel."""
    divides: bool
    """Can processes run some of the points, each on memory of its own?  Not if a kernel reads arrays at
    places that depend on data."""
    rings: tuple[tuple[int, int, int], ...]
    """(index of the store among the first kernel's arguments, bytes between rows, store row of its row 0)."""
    run: Rows
    """The rows of the first kernel that each point runs."""


Tasks = Mapping[int, IndexTask]
"""The index tasks of a group, by number, that determine how its plan is divided into rows: those of
`Plan.telling`."""

_known: dict[tuple[Any, ...], Geometry | None] = Bounded(1 << 10)


def pair(first: Composed, one: Tasks, second: Composed, two: Tasks) -> Geometry | None:
    """The geometry of the pair if it can run as one pass, else None.  The caller has checked that no other
    task uses what the first one writes."""
    ids: dict[int, int] = {}
    key: list[Any] = [first, second]
    for plan, tasks in ((first, one), (second, two)):
        key += (tasks[number].splits for number in plan.composition.spaces)
        for number, position in plan.composition.arguments:
            access = tasks[number].accesses[position]
            view, place = shown(access), ids.setdefault(access.store.id, len(ids))
            key += (view, view.shape, view.strides, place)
    name = tuple(key)
    if name not in _known:
        _known[name] = _geometry(first, one, second, two)
    return _known[name]


def _geometry(first: Composed, one: Tasks, second: Composed, two: Tasks) -> Geometry | None:
    a, b = _stages(first, one), _stages(second, two)
    upper, lower = _rows(first, one), _rows(second, two)
    if upper is None or lower is None or not _meet(a, b):
        return None
    made = {s.access.store.id: (k, s) for k, s in enumerate(a) if s.stored}
    if any(not covers(s.access) or _keeps(first, k) for k, s in made.values()):
        return None
    distances, before, after = [], [], []
    for s in b:
        source = made.get(s.access.store.id)
        if source is not None:
            if s.access.store != source[1].access.store:
                return None
            distances.append(_of(s) - _of(source[1]))
        elif s.stored:
            if s.width is None or _also_touched(b, s):
                return None
            for r in a:
                if r.access.store.id == s.access.store.id:
                    if r.access.store != s.access.store:
                        return None
                    before.append(_of(s) - _of(r))
                    after.append(_of(r) - _of(s))
    low, high = min(distances), max(distances)
    reach = max([high, *before])
    below, above = max([0, *(high + d for d in after)]), max([0, *(d - low for d in before)])
    (rows, tile), points = lower, two[0].domain[0]
    slack = max(below, above, reach - low)
    if slack > 16 or tile < 4 * (slack + 1) or rows - tile * (points - 1) < below + above:
        return None
    across = sum({id(s.view): abs(s.pitch) for s in (*a, *b)}.values())
    chunk = max(CHUNKS[0], slack, min(CHUNKS[1], CACHE // max(across, 1)))
    kinds = (tuple(pipeline.RING if s.stored else pipeline.PLAIN for s in a),
             tuple(pipeline.RING if s.access.store.id in made
                   else pipeline.DEFERRED if s.stored else pipeline.PLAIN for s in b))
    rings = tuple((k, s.pitch, s.row or 0) for k, s in made.values())
    divides = not any([op.kind == "spmv" for plan in (first, second) for loop in plan.composition.body.loops
                       for op in loop.ops])
    return Geometry(upper[0], rows, tile, chunk, reach, low, high, below, above, kinds, divides, rings,
                    Rows(upper[1], tile, low, high))


def _meet(a: Sequence[Stage], b: Sequence[Stage]) -> bool:
    """Does the second kernel read what the first one makes, and do both advance row by row through what one
    of them writes?  Follows from the forms of the views (ir/kinds.py) and from which arguments have the same
    store."""
    made = {s.access.store.id: s.row for s in a if s.stored}
    if sum(s.stored for s in a) != len(made) or any(not s.stored and s.access.store.id in made for s in a):
        return False
    if None in made.values() or all(s.access.store.id not in made for s in b):
        return False
    for s in b:
        if s.access.store.id in made:
            if s.stored or s.row is None:
                return False
        elif s.stored and (s.row is None or any(r.row is None and r.access.store.id == s.access.store.id
                                                for r in a)):
            return False
    return True


def _of(stage: Stage) -> int:
    """The store row of iteration row 0 of a stage that has one."""
    assert stage.row is not None
    return stage.row


def _stages(plan: Composed, tasks: Tasks) -> list[Stage]:
    found = []
    sources, arguments = plan.composition.arguments, plan.composition.body.arguments
    for (number, position), argument in zip(sources, arguments, strict=True):
        access = tasks[number].accesses[position]
        view = shown(access)
        found.append(Stage(access, argument.privilege is not Privilege.READ, _row(access), view.strides[0],
                           _width(view), view))
    return found


def _row(access: Access) -> int | None:
    """The store row of iteration row 0, if iteration dimension 0 advances only store dimension 0; else
    None."""
    rows = access.map.rows
    if any(k == 0 for k, _ in access.map.turned):
        return None
    if not rows or rows[0][1] != ((0, 1),) or any(k == 0 for _, terms in rows[1:] for k, _ in terms):
        return None
    return rows[0][0]


def _width(view: Any) -> int | None:
    item = ITEMSIZE[view.dtype]
    if len(view.shape) == 1:
        return item
    return int(view.shape[1]) * item if len(view.shape) == PASSING and view.strides[1] == item else None


def _rows(plan: Composed, tasks: Tasks) -> tuple[int, int] | None:
    """The rows of the kernel's loops, and of a point, if they are the same for all loops; else None.

    Values passed between loops then stay in one row (ir.relation), and rows may run in any chunks.
    """
    found = {(tasks[t].shape[0], tasks[t].splits[0].tile) for t in plan.composition.spaces}
    return found.pop() if len(found) == 1 else None


def _keeps(plan: Composed, argument: int) -> bool:
    """Does the kernel read the argument before it writes it?  A ring buffer starts without contents."""
    for loop in plan.composition.body.loops:
        kinds = {op.kind for op in loop.ops if op.attribute == argument and op.kind in ("load", "store")}
        if kinds:
            return "load" in kinds
    return False


def _also_touched(stages: list[Stage], written: Stage) -> bool:
    """Might the second kernel access elements of a deferred result through another argument?"""
    return any(s is not written and s.access.store.id == written.access.store.id
               and not (s.stored and relation(s.access, written.access, ONE_POINT) is Relation.APART)
               for s in stages)


def argument_stores(first: Composed, one: Group, second: Composed, two: Group) -> list[int]:
    """The stores of all arguments of the two kernels, in their order."""
    return [group.recorded[t][1][k] for plan, group in ((first, one), (second, two))
            for t, k in plan.composition.arguments]


def begins(first: Composed) -> tuple[int, int]:
    """The words of the driver's block at which the blocks of the two kernels begin."""
    start = len(pipeline.FIELDS)
    return start, start + abi.layout(first.composition.body).size // 8


class Form(NamedTuple):
    """What all launches of a pair of replays have in common, if the same arguments belong to the same
    stores."""

    shape: Geometry
    fields: tuple[int, ...]
    """The words of the header, with 0 in place of addresses."""
    scratch: int
    """Bytes of the rings of all points."""
    border: int
    """Bytes of the border buffers of all points."""
    tables: bytes
    """The tables of arguments, ring buffers and extents, which follow the argument blocks of the two kernels
    in memory."""


def formed(first: Replay, one: Group, second: Replay, two: Group, stores: Sequence[int]) -> Form | None:
    """The form of a pair's launches; None if the rows do not allow one pass.  It follows from the replays and
    from which arguments have the same one of these stores.

    Where views of these forms never allow one pass, whatever their extents and offsets, the plan remembers
    it: a loop whose views move would ask again in every turn.
    """
    places: dict[int, int] = {}
    numbers = [places.setdefault(store, len(places)) for store in stores]
    name = second, *numbers
    found: Form | None = first.partners.get(name)
    if found is not None or name in first.partners:
        return found
    upper, lower = first.plan, second.plan
    forms = [form(group.recorded[t][0].uses[k].map) for plan, group in ((upper, one), (lower, two))
             for t, k in plan.composition.arguments]
    kinds = lower, *numbers, *[each and each.number for each in forms]
    if kinds in upper.apart:
        return None
    if len(first.partners) >= PARTNERS:
        first.partners.clear()
    above, below = one.picked(upper.telling), two.picked(lower.telling)
    found = first.partners[name] = _formed(upper, above, lower, below)
    if found is None and None not in forms and not _meet(_stages(upper, above), _stages(lower, below)):
        upper.apart[kinds] = None
    return found


def _formed(first: Plan, one: Tasks, second: Plan, two: Tasks) -> Form | None:
    shape = pair(first, one, second, two)
    if shape is None:
        return None
    a, b = _stages(first, one), _stages(second, two)
    points = two[0].domain[0]
    rows = shape.chunk + shape.reach - shape.low + 1
    tables: list[int] = []
    extents: list[list[int]] = []
    scratch = border = 0
    ring_entries: dict[int, tuple[int, int, int]] = {}
    rings: list[int] = []
    for k, pitch, origin in shape.rings:
        ring_entries[a[k].access.store.id] = (scratch, pitch, origin)
        rings += (scratch, pitch)
        scratch += -(-rows * pitch // ALIGNED) * ALIGNED
    for stages, plan, kinds in ((a, first, shape.kinds[0]), (b, second, shape.kinds[1])):
        places = abi.words(plan.composition.body)
        extents.append([at + 1 for at in places.spaces])
        for word, stage, kind in zip(places.arguments, stages, kinds, strict=True):
            entry = [word, kind, stage.pitch, 0, 0, 0]
            if kind == pipeline.RING:
                entry[3:] = ring_entries[stage.access.store.id]
            elif kind == pipeline.DEFERRED:
                entry[3:] = (border, stage.width or 0, 0)
                border += -(-(shape.below + shape.above) * stage.pitch // ALIGNED) * ALIGNED
            tables += entry
    at_first, at_second = begins(first)
    words = [abi.layout(plan.composition.body).size // 8 for plan in (first, second)]
    table = at_second + words[1]
    fields = (
        0, points, 0, 0, *words, at_first, at_second, shape.chunk, shape.reach, shape.low, shape.high,
        shape.rows_first, shape.tile, shape.rows_second, 0, scratch, shape.below, shape.above, 0, border,
        len(a), len(b), len(extents[0]), len(extents[1]),
        table + len(tables) + len(rings), table + len(tables) + len(rings) + len(extents[0]), table,
        table + len(pipeline.ENTRY) * len(a), len(rings) // 2, table + len(tables), 0)
    tables += (*rings, *extents[0], *extents[1])
    return Form(shape, fields, scratch * points, border * points,
                Struct(f"<{len(tables)}q").pack(*tables))


def header(form: Form, first: Plan, second: Plan, blocks: tuple[bytes, bytes], memory: Callable[[int], int]
           ) -> bytes:
    """The driver's block.  `memory(nbytes)` allocates memory that lives as long as the launch."""
    fields = [*form.fields]
    fields[FIRST], fields[SECOND] = _address(first), _address(second)
    fields[SCRATCH] = memory(form.scratch)
    fields[BORDER] = memory(form.border) if form.border else 0
    return b"".join((HEADER.pack(*fields), *blocks, form.tables))


def _address(plan: Plan) -> int:
    """The address of a plan's machine code."""
    assert plan.kernel is not None and plan.kernel.native is not None
    address: int = plan.kernel.native.address
    return address


class Pair:
    """The kernel that the runtime launches for a pair: the driver with a complete block."""

    __slots__ = ("native",)

    def __init__(self, native: pipeline.Driver) -> None:
        self.native = native

    def pack(self, values: Any) -> Any:
        return values

    def point(self, values: Any, p: int) -> None:
        raise NotImplementedError("a pair runs compiled only: it is made when both kernels are")

    def finish(self, values: Any) -> None:
        raise NotImplementedError("a pair folds nothing")
