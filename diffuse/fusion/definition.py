"""Definitions of the analyses, point by point and element by element, against which they are tested.

Slow on purpose, and for small extents only: everything that `constraints`, `temporaries` and `ir.alias`
derive from descriptions is enumerated here (papers/003, definitions 1 to 3, figure 4 and section 5.1).  An
element is identified by its place in memory, so that frames of one store, even of other element types,
compare exactly.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import product

from diffuse.ir import Access, IndexTask, Partition, Point, Privilege, Replicated, Store, is_epilogue

Elements = frozenset[tuple[int, int]]
"""(store id, byte) pairs."""

SIZES = {"bool": 1, "float16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
         **{f"{sign}int{8 * size}": size for sign in ("", "u") for size in (1, 2, 4, 8)}}


def points(domain: Point) -> Iterator[Point]:
    """All points of a launch domain or indices of an iteration space, in row-major order."""
    return product(*map(range, domain))


def indices(task: IndexTask, point: Point) -> Iterator[Point]:
    """The iteration indices that a point runs."""
    for index in points(task.shape):
        if all(split.axis < 0 or index[split.axis] in range(*split.range(p, n, task.shape[split.axis]))
               for p, n, split in zip(point, task.domain, task.splits, strict=True)):
            yield index


def place(store: Store, coordinates: Point) -> Elements:
    """The memory of one element of a row-major store."""
    flat = 0
    for i, n in zip(coordinates, store.shape, strict=True):
        flat = flat * n + i
    size = SIZES[store.dtype]
    return frozenset((store.id, byte) for byte in range(flat * size, (flat + 1) * size))


def elements(task: IndexTask, access: Access, point: Point) -> Elements:
    """The elements that a point accesses: the image of its indices."""
    found: set[tuple[int, int]] = set()
    for index in indices(task, point):
        for coordinates in image(access, index):
            found |= place(access.store, coordinates)
    return frozenset(found)


def image(access: Access, index: Point) -> Iterator[Point]:
    """The coordinates that one iteration may access: one element, or all where a coordinate is
    data-dependent."""
    extents = dict(access.map.turned)
    for turn in product(*map(range, extents.values())):
        shifted = dict(zip(extents, turn, strict=True))
        at = access.map(tuple([shifted.get(k, i) for k, i in enumerate(index)]))
        yield from product(*(range(size) if d in access.map.free else (i,)
                             for d, (i, size) in enumerate(zip(at, access.store.shape, strict=True))))


def sub_store(partition: Partition, store: Store, point: Point) -> frozenset[Point]:
    """The coordinates that a partition gives to a point, if no split has a `begin`: the meaning of `Tiling`'s
    fields."""
    if isinstance(partition, Replicated):
        return frozenset(points(store.shape))
    runs = []
    for d, coordinate in enumerate(partition.projection(point)):
        start = coordinate * partition.tile[d] + partition.offset[d]
        low, high = partition.bounds[d]
        run = range(start, start + partition.extent[d], partition.stride[d])
        runs.append([i for i in run if low <= i < high])
    return frozenset(product(*runs))


def conflict(a: Access, b: Access) -> bool:
    """Does order matter between an access and a later one to the same element?  (Definition 1.)"""
    if a.privilege is Privilege.REDUCE and b.privilege is Privilege.REDUCE:
        return a.operator != b.operator
    return not (a.privilege is Privilege.READ and b.privilege is Privilege.READ)


def depends(t1: IndexTask, p: Point, t2: IndexTask, q: Point) -> bool:
    """Does point q of t2 depend on point p of t1, which was issued before?  (Definition 1.)"""
    return any(
        a.store.id == b.store.id and conflict(a, b) and bool(elements(t1, a, p) & elements(t2, b, q))
        for a in t1.accesses for b in t2.accesses)


def dependence_map(t1: IndexTask, t2: IndexTask) -> dict[Point, set[Point]]:
    """Definition 2: the points of t2 that depend on each point of t1."""
    return {p: {q for q in points(t2.domain) if depends(t1, p, t2, q)} for p in points(t1.domain)}


def incomplete(t1: IndexTask, t2: IndexTask) -> bool:
    """Do the tasks share an element that only one of them reduces, over several points?  The partial results
    of such a reduction are combined after all points: not even the same point may access the element
    before."""
    several = max(t1.domain, default=1) > 1
    return several and any(
        a.store.id == b.store.id and conflict(a, b) and Privilege.REDUCE in (a.privilege, b.privilege)
        and bool(touched(t1, a) & touched(t2, b))
        for a in t1.accesses for b in t2.accesses)


def touched(task: IndexTask, access: Access) -> Elements:
    """The elements that all points together access."""
    return frozenset().union(*(elements(task, access, p) for p in points(task.domain)))


def fusible(window: Sequence[IndexTask]) -> bool:
    """Definition 3: one launch domain, and every dependence map is point-wise.  The epilogue of a group that
    reduces runs after all points, and may depend on any of them."""
    main = list(window)
    while len(main) > 1 and is_epilogue(main[-1]) and main[-1].domain != main[0].domain:
        main.pop()
    if len(main) < len(window) and any(a.privilege is Privilege.REDUCE for t in main for a in t.accesses):
        window = main
    for j, later in enumerate(window):
        for earlier in window[:j]:
            if earlier.domain != later.domain or incomplete(earlier, later):
                return False
            if any(qs - {p} for p, qs in dependence_map(earlier, later).items()):
                return False
    return True


def racy(task: IndexTask) -> bool:
    """Do two points of one task conflict with each other?  Such a task is undefined, alone or fused."""
    return any(
        p != q and a.store.id == b.store.id and conflict(a, b)
        and bool(elements(task, a, p) & elements(task, b, q))
        for a in task.accesses for b in task.accesses
        for p in points(task.domain) for q in points(task.domain))


def same(t1: IndexTask, a: Access, t2: IndexTask, b: Access) -> bool:
    """`Relation.SAME`: on one point, equal iterations of both tasks access the same elements."""
    return all(
        list(indices(t1, p)) == list(indices(t2, p))
        and all(set(image(a, i)) == set(image(b, i)) for i in indices(t1, p))
        for p in points(t1.domain)) and aligned(t1, a, t2, b)


def apart(t1: IndexTask, a: Access, t2: IndexTask, b: Access) -> bool:
    """`Relation.APART`: no element is accessed by both."""
    return not touched(t1, a) & touched(t2, b)


def aligned(t1: IndexTask, a: Access, t2: IndexTask, b: Access) -> bool:
    """`Relation.ALIGNED`: common elements are accessed by one point only."""
    return not any(
        p != q and elements(t1, a, p) & elements(t2, b, q)
        for p in points(t1.domain) for q in points(t2.domain))


def temporaries(prefix: Sequence[IndexTask], pending: Sequence[IndexTask] = (),
                live: Container[int] = ()) -> set[int]:
    """The stores whose every byte read in the prefix was written there before by the point that reads it, and
    which no later task reads or reduces."""
    written: dict[Point, set[tuple[int, int]]] = {}
    outputs: set[int] = set()
    visible: set[int] = set()
    for task in prefix:
        for access in task.accesses:
            for p in points(task.domain):
                if access.privilege.reads and not elements(task, access, p) <= written.get(p, set()):
                    visible.add(access.store.id)
            if access.privilege is Privilege.REDUCE:
                visible.add(access.store.id)
        for access in task.accesses:
            if access.privilege.writes:
                outputs.add(access.store.id)
                for p in points(task.domain):
                    written.setdefault(p, set()).update(elements(task, access, p))
    for task in pending:
        visible.update(a.store.id for a in task.accesses if a.privilege is not Privilege.WRITE)
    return {id for id in outputs - visible if id not in live}
