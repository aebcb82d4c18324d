"""Boxes of an array, possibly with steps, and the boxes that partitions give to ranks.

A box is one `range` per dimension (with a positive step), so that slices with steps are boxes, too; the
intersection of two boxes is a box, and their difference a few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import gcd, prod

from diffuse.ir import Partition, Point, Replicated

Box = tuple[range, ...]
Holding = tuple[Box, ...]
"""What one rank holds of an array, or wants of it: the elements of all its boxes."""
Layout = tuple[Holding, ...]
"""The holdings of all ranks."""


def volume(box: Box) -> int:
    """Return the number of elements in a box."""
    return prod(map(len, box))


def size(holding: Holding) -> int:
    """Return the number of elements of disjoint boxes."""
    return sum(map(volume, holding))


def common(a: range, b: range) -> range:
    """Return the numbers that are in both ranges."""
    low, high = max(a.start, b.start), min(a.stop, b.stop)
    if a.step == b.step == 1:
        return range(low, max(low, high))
    divisor = gcd(a.step, b.step)
    if (b.start - a.start) % divisor:
        return range(0)
    period = b.step // divisor
    turns = (b.start - a.start) // divisor * pow(a.step // divisor, -1, period) % period
    step = a.step * period
    first = a.start + turns * a.step
    first += -((first - low) // step) * step  # the first one that is not below either start
    return range(first, max(first, high), step)


def intersection(a: Box, b: Box) -> Box | None:
    """Return the elements that are in both boxes; None if there are none."""
    found = []
    for x, y in zip(a, b, strict=True):
        both = x if x == y else common(x, y)
        if not both:
            return None
        found.append(both)
    return tuple(found)


def _without(a: range, inner: range) -> Iterable[range]:
    """Yield the parts of a range outside another one that lies within it."""
    yield range(a.start, inner[0], a.step)
    if len(inner) > 1:
        for between in range(a.step, inner.step, a.step):
            yield range(inner[0] + between, inner[-1], inner.step)
    yield range(inner[-1] + a.step, a.stop, a.step)


def difference(a: Box, b: Box) -> list[Box]:
    """Return disjoint boxes of the elements that are in `a` and not in `b`."""
    inner = intersection(a, b)
    if inner is None:
        return [a] if volume(a) else []
    return [(*inner[:d], rest, *a[d + 1:])
            for d in range(len(a)) for rest in _without(a[d], inner[d]) if rest]


def remove(boxes: Iterable[Box], taken: Iterable[Box]) -> list[Box]:
    """Return the boxes without the elements of others."""
    rest = [box for box in boxes if volume(box)]
    for each in taken:
        rest = [piece for box in rest for piece in difference(box, each)]
    return rest


def tile(partition: Partition, point: Point, shape: Point) -> Box:
    """Return the elements of an array that a partition gives to one launch point."""
    if isinstance(partition, Replicated):
        return tuple(map(range, shape))
    starts = (c * t + o for c, t, o in zip(partition.projection(point), partition.tile, partition.offset,
                                          strict=True))
    found = []
    for start, stride, extent, (low, high) in zip(starts, partition.stride, partition.extent,
                                                  partition.bounds, strict=True):
        first = start + max(0, -((start - low) // stride)) * stride
        found.append(range(first, max(first, min(start + extent, high)), stride))
    return tuple(found)


def layout(partition: Partition, domain: Point, shape: Point, ranks: int,
           owner: Callable[[int], int] | None = None) -> Layout:
    """Return what each rank sees of an array through a partition.

    Launch points are numbered in row-major order and divided evenly among ranks, unless `owner` gives the
    rank of a point.  A rank without points, or whose tiles are clipped away, has no boxes.
    """
    points = list(product(*map(range, domain)))
    found: list[list[Box]] = [[] for _ in range(ranks)]
    for number, point in enumerate(points):
        box = tile(partition, point, shape)
        held = found[owner(number) if owner else number * ranks // len(points)]
        held += remove([box], held)
    return tuple(map(tuple, found))


def placed(offsets: Iterable[Point], tile: Point) -> Layout:
    """Return the layout in which each rank holds one tile of this shape."""
    boxes: dict[Point, Holding] = {}
    for offset in (every := list(offsets)):
        if offset not in boxes:
            boxes[offset] = (tuple([range(begin, begin + n) for begin, n in zip(offset, tile, strict=True)]),)
    return tuple([boxes[offset] for offset in every])


def even(found: Layout, shape: Point) -> tuple[Point, tuple[Point, ...]] | None:
    """Return the parts that an even layout cuts each dimension into, and where each rank's tile begins.

    A layout is even if every rank has one tile, all have one shape, and they cover every element equally
    often, as in a well-formed distributed type (lemmas 4.1 and 4.2 of the paper).  None for other layouts.
    """
    if any(len(holding) != 1 for holding in found):
        return None
    first = tuple(map(len, found[0][0]))
    if any(not n or size % n for n, size in zip(first, shape, strict=True)):
        return None
    for d, n in enumerate(first):
        for r in {box[d] for (box,) in found}:
            if len(r) != n or r.start % n or (n > 1 and r.step != 1):
                return None
    offsets = [tuple([r.start for r in box]) for (box,) in found]
    held = Counter(offsets)
    parts = tuple(size // n for n, size in zip(first, shape, strict=True))
    if len(held) != prod(parts) or len(set(held.values())) != 1:
        return None
    return parts, tuple(offsets)


def describe(found: Layout, shape: Point) -> str:
    """Return a layout as text, in the notation of distributed types with the number of parts for the axes:
    `[32{16}512, 128]`.  If parts are unequal, the largest one is given."""
    texts = []
    boxes = [box for holding in found for box in holding]
    for d, total in enumerate(shape):
        ranges = {box[d] for box in boxes}
        longest = max(map(len, ranges), default=0)
        whole = len(ranges) == 1 and longest == total
        texts.append(str(total) if whole else f"{longest}{{{len(ranges)}}}{total}")
    return f"[{', '.join(texts)}]"


def total(held: Sequence[Holding]) -> int:
    """Return the most elements that a rank holds."""
    return max(map(size, held), default=0)
