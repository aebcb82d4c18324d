"""The validity map: which rank holds valid copies of which elements of a store.

Every rank knows it for all ranks, as a function of what was submitted, so that senders and receivers of an
exchange find the same messages without asking each other.  States are interned: a loop returns to the same
object, which is the key of cached results.  These are pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

from diffuse.bounded import Bounded
from diffuse.ir import Point
from diffuse.movement.boxes import Box, Holding, Layout, remove, size, volume

MOST_BOXES = 24
"""The most boxes per rank; with more, copies that other ranks also have are forgotten."""
MOST_STATES = 1 << 14


class Validity:
    """Where the valid elements of a store are.  Equal states are mostly one object."""

    __slots__ = ("shape", "itemsize", "have", "touched", "bytes", "stale", "whole")

    shape: Point
    itemsize: int
    have: Layout
    """The elements that each rank holds.  Elements that were never written are undefined, and all ranks hold
    them."""
    touched: Layout
    """Where each rank has touched memory: what it wrote or received since the store was made."""
    bytes: tuple[int, ...]
    """Bytes of touched memory on each rank."""
    stale: int
    """The most bytes of touched memory without valid data on any rank."""
    whole: bool
    """Does every rank hold everything?"""

    def received(self, want: Layout) -> Validity:
        """The state after each rank received the boxes that it wants."""
        have = _each(_added, self.have, want)
        return made(self.shape, self.itemsize, have, _reach(self.touched, want))

    def trimmed(self, kept: Layout) -> Validity:
        """The state after each rank returned all touched memory except `kept`."""
        return made(self.shape, self.itemsize, self.have, kept)

    def written(self, by: Layout) -> Validity:
        """The state after each rank wrote these boxes: only the writer of an element holds it then."""
        if not any(by):
            return self
        every = tidy([box for boxes in by for box in boxes])
        have = _each(lambda held, boxes: _held(held, boxes, remove(every, boxes)), self.have, by)
        return made(self.shape, self.itemsize, have, _reach(self.touched, by))


_states: dict[tuple[object, ...], Validity] = Bounded(MOST_STATES)


def made(shape: Point, itemsize: int, have: Iterable[Holding], touched: Iterable[Holding]) -> Validity:
    """The interned state with these boxes."""
    held = tuple(have)
    if any(len(boxes) > MOST_BOXES for boxes in held):
        held = _alone(held)
    key = shape, itemsize, held, tuple(touched)
    found = _states.get(key)
    if found is None:
        found = _states[key] = Validity()
        found.shape, found.itemsize, found.have, found.touched = shape, itemsize, held, key[3]
        found.bytes = tuple([size(boxes) * itemsize for boxes in key[3]])
        found.stale = max([total - size(boxes) * itemsize
                           for total, boxes in zip(found.bytes, held, strict=True)])
        found.whole = all(size(boxes) == prod(shape) for boxes in held)
    return found


def fresh(shape: Point, itemsize: int, ranks: int) -> Validity:
    """The state of a store that was never written."""
    return made(shape, itemsize, (all_of(shape),) * ranks, ((),) * ranks)


def everywhere(shape: Point, itemsize: int, ranks: int) -> Validity:
    """The state of a store that every rank holds as a whole."""
    return made(shape, itemsize, (all_of(shape),) * ranks, (all_of(shape),) * ranks)


def all_of(shape: Point) -> Holding:
    """A holding of all elements."""
    return (tuple(map(range, shape)),) if prod(shape) else ()


def _each(join: Callable[[Holding, Holding], Holding], one: Layout, other: Layout) -> list[Holding]:
    """Join two holdings of each rank; equal pairs are joined once."""
    known: dict[tuple[Holding, Holding], Holding] = {}
    found = []
    for pair in zip(one, other, strict=True):
        joined = known.get(pair)
        if joined is None:
            joined = known[pair] = join(*pair)
        found.append(joined)
    return found


def _added(before: Holding, boxes: Holding) -> Holding:
    """A holding with the elements of more boxes.  If it has them already its boxes stay as they are: a loop
    that writes rows and columns in turn would otherwise cut them into ever more boxes."""
    return tidy([*before, *boxes]) if remove(boxes, before) else before


def _held(before: Holding, boxes: Holding, others: list[Box]) -> Holding:
    """The valid elements on a rank after it wrote these boxes, and other ranks wrote `others`."""
    kept = tuple(remove(before, others))
    return _added(before, boxes) if kept == before else tidy([*kept, *boxes])


def _reach(touched: Layout, more: Layout) -> list[Holding]:
    """The touched memory after ranks touched `more`; too many boxes are replaced by their bounding box."""
    return _each(_reached, touched, more)


def _reached(before: Holding, boxes: Holding) -> Holding:
    after = _added(before, boxes)
    if len(after) > MOST_BOXES:
        after = (tuple([range(min(r.start for r in ranges), max(r.stop for r in ranges))
                        for ranges in zip(*after, strict=True)]),)
    return after


def _alone(have: Layout) -> Layout:
    """Keep only one holder of each element: the one that has the fewest boxes."""
    found: dict[int, Holding] = {}
    taken: list[Box] = []
    for rank in sorted(range(len(have)), key=lambda rank: len(have[rank])):
        found[rank] = tidy(remove(have[rank], taken))
        taken += found[rank]
    return tuple([found[rank] for rank in range(len(have))])


def tidy(boxes: Iterable[Box]) -> Holding:
    """Normalise boxes: disjoint, merged with neighbours, in a fixed order."""
    lined = _lined(boxes)
    if len(lined) < 2:
        return tuple(lined)
    found: list[Box] = []
    for box in sorted(lined, key=volume, reverse=True):  # a box that contains others stays one
        found += remove([box], found)
    before = 0
    while len(found) > 1 and len(found) != before:
        before = len(found)
        for d in range(len(found[0])):
            found = _merged(found, d, _joined)
    return tuple(sorted(found, key=_order))


def _lined(boxes: Iterable[Box]) -> list[Box]:
    """Merge boxes that differ in one dimension only, where they touch or overlap.  It reduces the tiles of
    many points to few boxes before boxes are compared pairwise."""
    found = list(dict.fromkeys([tuple(map(_plain, box)) for box in boxes if volume(box)]))
    for d in range(len(found[0]) if len(found) > 2 else 0):
        found = _merged(found, d, _united)
    return found


def _merged(boxes: Sequence[Box], d: int, merge: Callable[[list[range]], list[range]]) -> list[Box]:
    """Merge boxes along one dimension, where they are equal in all others."""
    lines: dict[Box, list[range]] = {}
    for box in boxes:
        lines.setdefault((*box[:d], *box[d + 1:]), []).append(box[d])
    return [(*rest[:d], r, *rest[d:]) for rest, ranges in lines.items() for r in merge(ranges)]


def _united(ranges: list[range]) -> list[range]:
    """Merge overlapping ranges of step 1; ranges with other steps stay as they are."""
    if len(ranges) == 1:
        return ranges
    found: list[range] = []
    for r in sorted([r for r in ranges if r.step == 1], key=lambda r: r.start):
        if found and r.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, r.stop))
        else:
            found.append(r)
    return found + [r for r in ranges if r.step != 1]


def _order(box: Box) -> list[tuple[int, int, int]]:
    return [(r.start, r.stop, r.step) for r in box]


def _plain(r: range) -> range:
    """Give a range its canonical end, one past its last number."""
    return range(r[0], r[-1] + 1, r.step if len(r) > 1 else 1)


def _joined(ranges: Sequence[range]) -> list[range]:
    """Merge adjacent ranges, and strided ranges that interleave."""
    if len(ranges) == 1:
        return [_plain(ranges[0])]
    found: list[range] = []
    for r in _woven(sorted(map(_plain, ranges), key=lambda r: r.start)):
        last = found[-1] if found else range(0)
        if last and last.stop == r.start and last.step == r.step == 1:
            found[-1] = range(last.start, r.stop)
        else:
            found.append(r)
    return found


def _woven(ranges: list[range]) -> list[range]:
    """Replace interleaved strided ranges that fill each other's gaps by one range of step 1."""
    known = {(r.start, r.step): r for r in ranges if r.step > 1}
    for r in list(known.values()):
        parts = [known.get((r.start + k, r.step)) for k in range(r.step)]
        end = r.start + sum([len(part) for part in parts if part is not None])
        if all([part == range(r.start + k, end, r.step) for k, part in enumerate(parts)]):
            for part in parts:
                assert part is not None
                ranges.remove(part)
                del known[part.start, part.step]
            ranges.append(range(r.start, end))
    return sorted(ranges, key=lambda r: r.start)
