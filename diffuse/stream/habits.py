"""Habits: what tasks do with the arrays of one shape, as far as that decides how these are cut (shapes.py).

What several tasks do is what each of them does, joined.
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
"""The most indices by which a shape is longer than one that follows it, in any dimension; and at most a
quarter of its length."""
MOST = 64
"""Borders that are told apart: arrays with more are cut into rows."""
PART = 8
"""A view in another number of dimensions counts if it is no smaller a part of its store, and the store of the
task: one part in so many."""


class Habits(NamedTuple):
    """What tasks over one shape do, and over those that follow it."""

    units: tuple[tuple[int, int], ...] = ()
    """(dimension, unit): tiles of a dimension are multiples, for folds whose leaves lie along it."""
    offsets: tuple[tuple[int, int, int, int], ...] = ()
    """(dimension, indices left out, first offset, last offset) of views that leave out a few indices of a
    dimension: where the offsets differ, elements meet their neighbours."""
    whole: frozenset[int] = frozenset()
    """Dimensions along which whole lines are needed: no block cuts them."""
    borders: frozenset[tuple[object, int]] = frozenset()
    """Views of rows, columns or faces, and how many elements they have."""
    folds: frozenset[Point] = frozenset()
    """The dimensions that folds keep whose partial results have to travel where blocks are cut."""
    rows: bool = False
    """Is the memory also seen in other dimensions, of which blocks would be no boxes?"""

    def reach(self, rank: int) -> Point:
        """Over how many indices tasks read neighbours along each dimension; -1 where it must not be cut."""
        found = [0] * rank
        for d, _, low, high in self.offsets:
            found[d] = max(found[d], high - low)
        return tuple([-1 if d in self.whole else n for d, n in enumerate(found)])

    def more(self, shape: Point) -> int:
        """The elements that move where arrays are cut into blocks: borders to where they are computed, and
        the partial results of folds, whose leaves are no run on a rank."""
        return sum([n for _, n in self.borders]) + sum(
            [prod([shape[d] for d in kept]) * abi.leaves(shape, kept) for kept in self.folds])


NONE = Habits()


def joined(one: Habits, other: Habits) -> Habits:
    """Return what the tasks of both do."""
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
    """Is one shape as long as another one, or longer by a few rows?"""
    return len(shape) == len(longer) and all([
        n <= m <= n + min(BORDER, m // 4) for n, m in zip(shape, longer, strict=True)])


def nearly_all(shape: Point, use: Use) -> bool:
    """Does a task use all of a store but for a few rows, in the store's order?"""
    return near(shape, use.frame) and all([
        terms == ((d, 1),) or use.frame[d] == 1 for d, (_, terms) in enumerate(use.map.rows)])


def of_task(template: Template, whole: list[Use]) -> Habits:
    """Return what a task does that uses nearly all of these stores."""
    offsets = tuple([(d, m - n, use.map.rows[d][0], use.map.rows[d][0]) for use in whole
                     for d, (n, m) in enumerate(zip(template.shape, use.frame, strict=True)) if n < m])
    uncut, leaves = constraints(template)
    last = len(template.shape) - 1
    if leaves < 0:
        return joined(NONE, Habits(offsets=offsets, whole=uncut))
    if leaves == last and kept(template):  # each row folds to a number, on the rank that has all of it
        return joined(NONE, Habits(offsets=offsets, whole=uncut | {last}))
    return joined(NONE, Habits(((leaves, unit(template.shape, leaves)),), offsets, uncut))


def kept(template: Template) -> Point:
    """The dimensions that the result of a fold follows."""
    return tuple([d for d in range(len(template.shape)) if template.uses[-1].map.follows(d)])


def of_fold(template: Template) -> Habits:
    """Return what a fold moves where arrays are cut into blocks, unless it is one of rows."""
    leaves = constraints(template)[1]
    if leaves < 0 or (leaves == len(template.shape) - 1 and kept(template)):
        return NONE
    return Habits(folds=frozenset({kept(template)}))


def of_lines(shape: Point, axes: Collection[int | None]) -> Habits:
    """Return what a host function does that needs whole lines along all dimensions but these."""
    return Habits(whole=frozenset(range(len(shape))) - {*axes})


def reshaped(template: Template, use: Use, frame: Frame) -> bool:
    """Does a task see much of a store in another number of dimensions, or in another element type?"""
    if use.frame != frame.shape:
        return True
    if len(use.frame) == len(template.shape) or PART * volume(use.frame) < template.elements:
        return False
    followed = {k for _, terms in use.map.rows for k, _ in terms}
    return PART * prod([template.shape[k] for k in followed]) >= volume(use.frame)


def border(use: Use) -> Habits:
    """Return what a task does that uses a row, a column or a face of a store."""
    spans = [prod([use.map.shape[k] for k, _ in terms]) for _, terms in use.map.rows]
    long = [n for n, m in zip(spans, use.frame, strict=True) if n > BORDER]
    if not long or not any([n <= BORDER < m for n, m in zip(spans, use.frame, strict=True)]):
        return NONE
    return Habits(borders=frozenset({(use.map.rows, prod(spans))}))
