"""Divides launches among ranks: which points of a launch each rank runs, and which boxes of stores they
access.

Every box is in the coordinates of its store.  An access in other coordinates (a reshaped array, or the real
parts of a complex one) is translated if it is contiguous in memory, or if only the last dimension is counted
in parts of elements; else everything between its ends is taken.  These are pure functions over plain data,
independent of MPI.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, product
from math import prod
from types import MappingProxyType
from typing import NamedTuple

from diffuse.ir import ITEMSIZE, Point, Privilege, first_points
from diffuse.ir.loops import roots
from diffuse.movement.boxes import Box, Holding, Layout, size, tile, volume
from diffuse.runtime.base import LaunchArgument, Plane
from diffuse.runtime.base import Layout as Launched
from diffuse.runtime.mpi.validity import tidy

GAP = 1 << 13
"""The least gap in bytes between two memory ranges that is returned to the system."""
MOST_RUNS = 1 << 12
"""The most contiguous ranges of one box whose gaps are returned."""


class StoreUse(NamedTuple):
    """How a launch uses one store."""

    place: int
    """The index of the first of the launch's instances with this store."""
    reads: Layout
    """The boxes that the points of each rank read, and those that they may write incompletely."""
    writes: Layout
    every_read: Holding
    """The boxes that any point reads."""
    every_write: Holding
    late_reads: Holding
    """The elements that `finish` reads."""
    late_writes: Holding
    late_each: Layout
    """For each rank, the part of `late_writes` that follows from its own points' partial results."""

    def reading(self, more: Sequence[Layout]) -> StoreUse:
        """Add boxes that the points of each rank read."""
        if not more:
            return self
        reads = tuple([tidy([box for held in each for box in held])
                       for each in zip(self.reads, *more, strict=True)])
        return self._replace(reads=reads, every_read=tidy([box for held in reads for box in held]))


class Partials(NamedTuple):
    """An array of partial results, of which each rank's points write a part."""

    scratch: int
    """The index of the launch's scratch memory with the array."""
    offset: int
    shape: Point
    writes: Layout
    """What the points of each rank write for `finish` to combine."""
    every: Holding
    """The union over the ranks."""


class Share(NamedTuple):
    """A launch, divided among ranks."""

    points: tuple[tuple[int, int], ...]
    """For each rank, its first point and its number of points."""
    total: int
    divided: bool
    """Can each rank run its points independently?  Else one rank, or every rank, runs all of them."""
    uses: tuple[StoreUse, ...]
    partials: tuple[Partials, ...]
    words: tuple[tuple[int, int], ...]
    """The words of the block that hold an address, and the index of the instance there."""

    @property
    def folds_apart(self) -> bool:
        """Does each rank's part of what `finish` writes depend only on that rank's partial results? This
        holds for sums of rows, each of which is whole on one rank."""
        return not any(use.late_reads for use in self.uses) and all(
            _disjoint(use.late_each) for use in self.uses)

    @property
    def folds(self) -> bool:
        """Must `finish` run after the points of all ranks?"""
        return bool(self.partials) or any(use.late_reads or use.late_writes for use in self.uses)


def owned(points: int, ranks: int) -> list[tuple[int, int]]:
    """Divide points evenly: the first point of each rank, and how many."""
    return [(first, after - first) for first, after in pairwise(first_points(points, ranks))]


def groups(domain: Point, ranks: int) -> list[list[Point]]:
    """The points of a launch domain that each rank runs."""
    points = list(product(*map(range, domain)))
    return [points[first:first + number] for first, number in owned(len(points), ranks)]


def share(layout: Launched, ranks: int, known: Mapping[int, Layout] = MappingProxyType({})) -> Share:
    """Divide the points of a launch among ranks.  `known` overrides what ranks read through some
    arguments."""
    each = groups(layout.domain, ranks)
    points = [point for some in each for point in some]
    parts = owned(len(points), ranks)
    places: dict[int, int] = {}
    for k, argument in enumerate(layout.arguments):
        places.setdefault(argument.slot, k)
    uses = []
    for slot, place in places.items():
        mine = [k for k, a in enumerate(layout.arguments) if a.slot == slot]
        found = _use(place, [layout.arguments[k] for k in mine if k not in known], points, each)
        uses.append(found.reading([known[k] for k in mine if k in known]))
    partials = tuple([_partials(k, plane, _filled(plane, each))
                      for k, piece in enumerate(layout.scratch) for plane in piece.planes])
    divided = (len(points) > 1 and all(_disjoint(use.writes) for use in uses)
               and all(_disjoint(partial.writes) for partial in partials))
    words = tuple([(a.word, k) for k, a in enumerate(layout.arguments)])
    return Share(tuple(parts), len(points), divided, tuple(uses), partials, words)


def together(domain: Point, shared: Share) -> Share:
    """The share of a call that all ranks run at once: the first one writes what is not cut, also where some
    ranks have no points.  On a grid of blocks, whose last dimension is one along which ranks add up, the last
    of the ranks that have the same block writes it."""
    def one(writes: Layout) -> Layout:
        last = {boxes: rank for rank, boxes in enumerate(writes) if boxes}
        if len(domain) > 1:
            return tuple([boxes if last.get(boxes) == rank else () for rank, boxes in enumerate(writes)])
        return (*last, *[()] * (len(writes) - 1)) if len(last) == 1 else writes

    uses = tuple([use._replace(writes=one(use.writes)) for use in shared.uses])
    return shared._replace(uses=uses, divided=shared.total > 1)


def _use(place: int, arguments: Sequence[LaunchArgument], points: Sequence[Point],
         each: Sequence[Sequence[Point]]) -> StoreUse:
    late = [a for a in arguments if a.late or a.privilege is Privilege.REDUCE]
    written = [a for a in late if a.privilege is not Privilege.READ]
    rest = [a for a in arguments if not (a.late or a.privilege is Privilege.REDUCE)]
    reads, writes = [a for a in rest if _reads(a)], [a for a in rest if a.privilege is not Privilege.READ]
    return StoreUse(place, tuple([_boxes(reads, mine) for mine in each]),
                    tuple([_boxes(writes, mine) for mine in each]),
                    _boxes(reads, points), _boxes(writes, points),
                    _boxes([a for a in late if _reads(a)], points),
                    _boxes(written, points), tuple([_boxes(written, mine) for mine in each]))


def _reads(argument: LaunchArgument) -> bool:
    """Does the argument need the previous contents: because it reads them, or may write its boxes
    incompletely?"""
    map = argument.access.map
    return argument.privilege.reads or not map.simple or bool(map.free or map.turned) or (
        argument.access.store.shape, argument.access.store.dtype) != argument.storage


def _boxes(arguments: Iterable[LaunchArgument], points: Iterable[Point]) -> Holding:
    """The boxes of a store that these points access through these arguments."""
    points = list(points)
    if not points:
        return ()
    return tidy(dict.fromkeys([box for a in arguments for point in points for box in boxes(a, point)]))


def boxes(argument: LaunchArgument, point: Point) -> Holding:
    """The boxes of a store that a point accesses through an argument; a superset where they are no boxes."""
    access, (shape, dtype) = argument.access, argument.storage
    box = tile(access.partition, point, access.store.shape)
    if not volume(box):
        return ()
    if (access.store.shape, access.store.dtype) == (shape, dtype):
        return (box,)
    found = run(box, access.store.shape)
    item = ITEMSIZE[access.store.dtype]
    if found is None:
        other = scaled(box, access.store.shape, item, shape, ITEMSIZE[dtype])
        if other is not None:
            return (other,)
        (found,) = runs([box], access.store.shape)
    return spread(found[0] * item, found[1] * item, shape, ITEMSIZE[dtype])


def scaled(box: Box, seen: Point, item: int, shape: Point, itemsize: int) -> Box | None:
    """The box of a store of this shape whose elements lie under those of a box in coordinates of the shape
    `seen`, with parts of an element along the last dimension or one more, as the real parts of complex
    numbers have them; None for other coordinates."""
    if seen[:-1] == shape and seen[-1] * item == itemsize:
        return box[:-1]
    if seen[:-1] != shape[:-1] or len(seen) != len(shape) or seen[-1] * item != shape[-1] * itemsize:
        return None
    *rest, last = box
    step = last.step * item // itemsize if last.step * item % itemsize == 0 else 1
    return *rest, range(last[0] * item // itemsize, -(-(last[-1] + 1) * item // itemsize), step)


def run(box: Box, shape: Point) -> tuple[int, int] | None:
    """The elements of a box as one contiguous range (first, end); None if it is not contiguous."""
    first, length = 0, 1
    for r, n in zip(box, shape, strict=True):
        if length > 1 and len(r) < n or len(r) > 1 and r.step != 1:
            return None
        first = first * n + r.start
        length *= len(r)
    return first, first + length


def runs(boxes: Iterable[Box], shape: Point) -> list[tuple[int, int]]:
    """The contiguous element ranges that contain these boxes; gaps within a box are included."""
    found: list[tuple[int, int]] = []
    for box in boxes:
        low = high = 0
        for r, n in zip(box, shape, strict=True):
            low, high = low * n + r[0], high * n + r[-1]
        found.append((low, high + 1))
    return united(found)


def united(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge ranges that touch or overlap, in ascending order."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(runs):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return joined


def parted(box: Box, shape: Point, itemsize: int) -> list[tuple[int, int]] | None:
    """Split a box into contiguous ranges if the gaps between them are worth returning to the system; else
    None."""
    inner = len(box) - 1
    while inner >= 0 and len(box[inner]) == shape[inner]:
        inner -= 1
    if inner < 1 or any([r.step != 1 for r in box]):
        return None
    pitch = prod(shape[inner:])
    first, length = [n * prod(shape[inner + 1:]) for n in (box[inner].start, len(box[inner]))]
    if (pitch - length) * itemsize < GAP or prod(map(len, box[:inner])) > MOST_RUNS:
        return None
    found = []
    for place in product(*box[:inner]):
        low = first
        for d, k in enumerate(place):
            low += k * prod(shape[d + 1:])
        found.append((low, low + length))
    return found


def spread(low: int, high: int, shape: Point, itemsize: int) -> Holding:
    """The elements of a store that overlap a byte range."""
    low, high = low // itemsize, min(-(-high // itemsize), prod(shape))
    return tidy(_slab(low, high, shape)) if high > low else ()


def _slab(low: int, high: int, shape: Point) -> list[Box]:
    """Split a contiguous element range into boxes: the rest of a first row, whole rows, the start of a last
    row."""
    if not shape:
        return [()]
    row = prod(shape[1:])
    first, last = -(-low // row), high // row
    if first > last:
        return [(range(last, first), *box) for box in _slab(low - last * row, high - last * row, shape[1:])]
    found: list[Box] = []
    if low < first * row:
        found += [(range(first - 1, first), *box)
                  for box in _slab(low - (first - 1) * row, row, shape[1:])]
    if first < last:
        found.append((range(first, last), *map(range, shape[1:])))
    if last * row < high:
        found += [(range(last, last + 1), *box) for box in _slab(0, high - last * row, shape[1:])]
    return found


def _partials(scratch: int, plane: Plane, writes: Layout) -> Partials:
    every = tidy([box for boxes in writes for box in boxes])
    return Partials(scratch, plane.offset, plane.shape, writes, every)


def _filled(plane: Plane, each: Sequence[Sequence[Point]]) -> Layout:
    """The boxes of an array of partial results that each rank's points write."""
    tiles = {d: (launch, extent) for d, launch, extent in plane.tiles}

    def box(point: Point) -> Box:
        found = []
        for d, n in enumerate(plane.shape):
            launch, extent = tiles.get(d, (0, n))
            low = point[launch] * extent if d in tiles else 0
            found.append(range(min(low, n), min(low + extent, n)))
        return tuple(found)

    def parts(point: Point) -> Holding:
        whole = box(point)
        return tuple(_roots(plane, whole)) if plane.leaves else (whole,)

    return tuple([tidy(dict.fromkeys([part for point in points for part in parts(point)]))
                  for points in each])


def _roots(plane: Plane, whole: Box) -> Iterable[Box]:
    """The partial results of a point that `finish` reads, if the point has combined the subtrees below
    them."""
    (d, _, _), = plane.tiles
    count = plane.leaves
    pitch = plane.shape[-1] // count
    for leaf in roots(whole[d].start * count, whole[d].stop * count, plane.shape[d] * count):
        index, within = divmod(leaf, count)
        found = list(whole)
        found[d], found[-1] = range(index, index + 1), range(within * pitch, (within + 1) * pitch)
        yield tuple(found)


def _disjoint(writes: Layout) -> bool:
    return sum(map(size, writes)) == size(tidy([box for boxes in writes for box in boxes]))
