"""Habits: the uses of arrays of one shape that affect how they are cut (shapes.py).

Habits of several tasks are joined.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import NamedTuple

from diffuse.ir import Frame, Point, volume
from diffuse.ir.template import Template, Use
from diffuse.kernels.body import abi
from diffuse.stream.decompose import constraints, unit

BORDER = 8
"""The most indices by which a shape may be longer than one that follows it, in any dimension; also at most a
quarter of its length."""
MOST = 64
"""The most different borders; arrays with more are cut into rows."""
PART = 8
"""A view with another number of dimensions counts if it has at least 1 / PART of its store's elements, and
the store at least 1 / PART of the task's."""


class Habits(NamedTuple):
    """The uses of arrays by tasks over one shape, and over those that follow it."""

    units: tuple[tuple[int, int], ...] = ()
    """(dimension, unit): tile lengths of a dimension are multiples, for folds whose leaves lie along it."""
    offsets: tuple[tuple[int, int, int, int], ...] = ()
    """(dimension, omitted indices, first offset, last offset) of views that omit a few indices of a
    dimension: if the offsets differ, tasks combine neighbouring elements."""
    whole: frozenset[int] = frozenset()
    """Dimensions along which whole lines are needed, and so must not be cut."""
    borders: frozenset[tuple[object, int]] = frozenset()
    """Views of rows, columns or faces, and their numbers of elements."""
    folds: frozenset[Point] = frozenset()
    """For folds whose partial results travel between blocks, the dimensions that they keep."""
    rows: bool = False
    """Is the memory also viewed with other dimensions, in which blocks would not be boxes?"""

    def reach(self, rank: int) -> Point:
        """The number of indices over which tasks read neighbours along each dimension; -1 where it must not
        be cut."""
        found = [0] * rank
        for d, _, low, high in self.offsets:
            found[d] = max(found[d], high - low)
        return tuple([-1 if d in self.whole else n for d, n in enumerate(found)])

    def faces(self) -> int:
        """The elements of borders, which move to where they are computed if arrays are cut into blocks."""
        return sum([n for _, n in self.borders])

    def partials(self, shape: Point) -> int:
        """The partial results of folds that move if arrays are cut into blocks, as their leaves are then not
        contiguous on a rank."""
        return sum([prod([shape[d] for d in kept]) * abi.leaves(shape, kept) for kept in self.folds])


NONE = Habits()


def joined(one: Habits, other: Habits) -> Habits:
    """The union of two habits."""
    ends: dict[tuple[int, int], tuple[int, int]] = {}
    for d, missing, low, high in (*one.offsets, *other.offsets):
        first, last = ends.get((d, missing), (low, high))
        ends[d, missing] = min(first, low), max(last, high)
    borders = one.borders | other.borders
    return Habits(tuple(sorted({*one.units, *other.units})),
                  tuple([(*key, *ends[key]) for key in sorted(ends)]), one.whole | other.whole,
                  borders if len(borders) <= MOST else one.borders, one.folds | other.folds,
                  one.rows or other.rows or len(borders) > MOST)


def near(shape: Point, longer: Point) -> bool:
    """Is the second shape as long as the first one, or longer by a few rows?"""
    return len(shape) == len(longer) and all([
        n <= m <= n + min(BORDER, m // 4) for n, m in zip(shape, longer, strict=True)])


def nearly_all(shape: Point, use: Use) -> bool:
    """Does a task use a store except for a few rows, in the store's order?"""
    return near(shape, use.frame) and all([
        terms == ((d, 1),) or use.frame[d] == 1 for d, (_, terms) in enumerate(use.map.rows)])


def of_task(template: Template, whole: list[Use]) -> Habits:
    """The habits of a task that uses nearly all of these stores."""
    offsets = tuple([(d, m - n, use.map.rows[d][0], use.map.rows[d][0]) for use in whole
                     for d, (n, m) in enumerate(zip(template.shape, use.frame, strict=True)) if n < m])
    uncut, leaves = constraints(template)
    last = len(template.shape) - 1
    if leaves < 0:
        return joined(NONE, Habits(offsets=offsets, whole=uncut))
    if leaves == last and kept(template):  # each row is folded to a number, on the rank that has all of it
        return joined(NONE, Habits(offsets=offsets, whole=uncut | {last}))
    return joined(NONE, Habits(((leaves, unit(template.shape, leaves)),), offsets, uncut))


def kept(template: Template) -> Point:
    """The dimensions of a fold's result."""
    return tuple([d for d in range(len(template.shape)) if template.uses[-1].map.follows(d)])


def of_fold(template: Template) -> Habits:
    """The habits of a fold that moves partial results if arrays are cut into blocks; a fold of rows does
    not."""
    leaves = constraints(template)[1]
    if leaves < 0 or (leaves == len(template.shape) - 1 and kept(template)):
        return NONE
    return Habits(folds=frozenset({kept(template)}))


def of_lines(shape: Point, axes: Collection[int | None]) -> Habits:
    """The habits of a host function that needs whole lines along all dimensions except these."""
    return Habits(whole=frozenset(range(len(shape))) - {*axes})


def reshaped(template: Template, use: Use, frame: Frame) -> bool:
    """Does a task view much of a store with another number of dimensions, or another element type?"""
    if use.frame != frame.shape:
        return True
    if len(use.frame) == len(template.shape) or PART * volume(use.frame) < template.elements:
        return False
    followed = {k for _, terms in use.map.rows for k, _ in terms}
    return PART * prod([template.shape[k] for k in followed]) >= volume(use.frame)


def border(use: Use) -> Habits:
    """The habits of a task that uses a row, a column or a face of a store."""
    spans = [prod([use.map.shape[k] for k, _ in terms]) for _, terms in use.map.rows]
    long = [n for n, m in zip(spans, use.frame, strict=True) if n > BORDER]
    if not long or not any([n <= BORDER < m for n, m in zip(spans, use.frame, strict=True)]):
        return NONE
    return Habits(borders=frozenset({(use.map.rows, prod(spans))}))
