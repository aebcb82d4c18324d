"""The ways in which ranks can share out a recorded operation, and what each rank then touches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from math import prod
from typing import NamedTuple

import numpy as np

from diffuse.ir import (
    ITEMSIZE,
    ONE,
    Decomposition,
    Point,
    Privilege,
    Split,
    first_points,
    tile_length,
    volume,
)
from diffuse.ir.loops import roots
from diffuse.ir.template import Recorded, Template
from diffuse.kernels.body import abi, operations
from diffuse.movement.folded import at_one, rounds
from diffuse.planning.boxes import Boxes, everything, touched
from diffuse.runtime.independent import Independent
from diffuse.settings import config
from diffuse.stream.blocks import factors
from diffuse.stream.decompose import constraints, refusal, unit
from diffuse.stream.engine import current
from diffuse.stream.parts import part_lengths
from diffuse.stream.regions import LETTERS, called, crossing, cuts, grid, under
from diffuse.stream.window import Window

MOST_CUT = 3
"""The most loops that are cut at once."""


class OperationState(NamedTuple):
    """One way to share out an operation."""

    template: Template | None
    """The template, decomposed; None where the stream chooses as elsewhere."""
    boxes: tuple[Boxes, ...]
    """For each use of a store what each rank touches of it."""
    grid: str
    """The grid in words, as `i:2 j:2`."""
    results: float
    """Bytes of results that the rank with the largest share computes."""
    multiplied: float = 0.0
    """Multiplications and additions in that share of a product."""
    beside: float = 0.0
    """Bytes that move beside the operands."""
    messages: float = 0.0
    """Messages of the busiest rank for that."""
    chain: float = 0.0
    """How many of these bytes move from rank to rank, each after the one before it."""
    usual: bool = False
    """May the stream itself choose this way, because none moves less?"""


def states(recorded: Recorded, window: Window) -> list[OperationState]:
    """The ways to share out an operation, the stream's own first.  None for one that is too small to matter:
    ranks do not share it, or it is at a border."""
    template = recorded[0]
    ranks = window.stores.runtime.ranks
    if not operations.known(template.operation):
        return _calls(recorded, window)
    most = template.elements // config.min_chunk
    if most < 2:
        return []
    default = window.decomposed(template)
    if template.decomposition is not None:
        return [_state(default, ranks, True)]
    found = [default] if volume(default.domain) > 1 else []
    whole, _ = constraints(template)
    allowed = [d not in whole and n > 1 for d, n in enumerate(template.shape)]
    for cut in _grids(min(ranks, most), allowed):
        made = _under(template, cut, window)
        if made is not None and made not in found:
            found.append(made)
    if not found:
        return [OperationState(None, _alone(template, ranks), "one rank", _results(template, ONE, 1),
                               usual=True)]
    return [_state(made, ranks, k == 0) for k, made in enumerate(found)]


def _grids(points: int, allowed: Sequence[bool]) -> Iterator[tuple[tuple[int, int], ...]]:
    """The grids of so many points: (dimension, parts) for each launch dimension, in every order."""
    for parts in factors(points, list(allowed)):
        some = [(d, n) for d, n in enumerate(parts) if n > 1]
        if 0 < len(some) <= MOST_CUT:
            yield from permutations(some)


def _under(template: Template, cut: tuple[tuple[int, int], ...], window: Window) -> Template | None:
    """A template over a grid, cut where the largest arrays are that it uses nearly all of."""
    shapes = window.learned
    root = template.shape if shapes is None else shapes.root(template.shape)
    _, leaves = constraints(template)
    tiles = []
    for d, parts in cut:
        length = unit(template.shape, d) if d == leaves else 1
        tile = tile_length(root[d], parts, length)
        if (parts - 1) * tile >= template.shape[d]:
            return None
        tiles.append((d, parts, tile))
    made = under(template, tuple(tiles), window.stores.runtime)
    assert made.decomposition is not None
    fits = template.fits(made.decomposition) and refusal(template, made.decomposition) is None
    return made if fits else None


def _state(made: Template, ranks: int, usual: bool = False) -> OperationState:
    domain = made.domain
    boxes = [touched(use.partition, domain, use.frame, ranks) for use in made.uses]
    beside = messages = 0.0
    result = made.uses[-1]
    kept = tuple([d for d in range(len(made.shape)) if result.map.follows(d)])
    if result.privilege is Privilege.REDUCE and any([s.axis not in kept for s in made.splits if s.axis >= 0]):
        partial = prod([made.shape[d] for d in kept]) * _partials(made, kept) * ITEMSIZE[result.dtype]
        heavy = at_one(partial, ranks)
        beside = partial * (ranks - 1) / (ranks if heavy else 1)
        messages = float((0 if heavy else len(rounds(ranks))) or ranks - 1)
        boxes[-1] = everything(result.frame, ranks, 1 if heavy else None)
    return OperationState(made, tuple(boxes), _words(made),
                          _results(made, made.decomposition or ONE, ranks), 0.0, beside, messages,
                          usual=usual)


def _partials(made: Template, kept: Point) -> int:
    """The number of partial results that the points leave for one element of a reduction: where the leaves of
    a point are contiguous, the roots of the subtrees that it has reduced; otherwise all leaves."""
    shape, count = made.shape, abi.leaves(made.shape, kept)
    reduced = [d for d in range(len(shape)) if d not in kept]
    if len(made.splits) != 1 or made.splits[0].axis != reduced[0]:
        return count
    length = shape[reduced[0]] if len(reduced) > 1 else count * unit(shape, reduced[0])
    tile = made.splits[0].tile * count // length
    return sum([len(roots(low, min(low + tile, count), count)) for low in range(0, count, max(1, tile))])


def _words(made: Template) -> str:
    return " ".join([f"{'ijklmnopqrstuvwxyz'[split.axis]}:{n}" for n, split in
                     zip(made.domain, made.splits, strict=True) if split.axis >= 0]) or "one rank"


def _results(template: Template, decomposition: Decomposition, ranks: int) -> float:
    """The bytes of results of the largest share of the iterations."""
    cut = {split.axis: split.tile for split in decomposition.splits}
    each = prod([min(cut.get(d, n), n) for d, n in enumerate(template.shape)])
    return -(-volume(decomposition.domain) // ranks) * each * ITEMSIZE[template.uses[-1].dtype]


def _alone(template: Template, ranks: int | None, some: int | None = 1) -> tuple[Boxes, ...]:
    return tuple([everything(use.frame, ranks or 1, some) for use in template.uses])


def _calls(recorded: Recorded, window: Window) -> list[OperationState]:
    """The ways to share out a call of a host function: grids of as many ranks as can be, and each cut by
    itself, of which the runtime takes the one that moves least."""
    template, function = recorded[0], called(recorded)
    ranks = window.stores.runtime.ranks
    if max([volume(use.map.shape) for use in template.uses], default=0) // config.min_chunk < 2:
        return []
    whole = OperationState(None, _alone(template, ranks, None), "whole on every rank",
                  *_call_work(recorded, (), ranks), usual=True)
    if function is None:
        return [whole]
    extents = cuts(recorded)
    usual = 1 if function.blocks is not None and len(template.uses[-1].map.shape) <= 2 else len(extents)
    found: dict[tuple[tuple[int, int], ...], OperationState] = {}
    summed = _summed(recorded, function, ranks)
    if summed is not None and summed.usual:
        usual = 0
    for number, (_, n) in enumerate(extents):
        order = ((number, min(n, ranks)),)
        state = _shared(recorded, function, extents, order, ranks, number < usual) if n > 1 else None
        found |= {} if state is None else {order: state}
    for count in range(ranks, 1, -1):  # a short axis has less parts than there are ranks
        before = len(found)
        for some in _grids(count, [n > 1 for _, n in extents]):
            if some not in found:
                state = _shared(recorded, function, extents, some, ranks)
                found |= {} if state is None else {some: state}
        if len(found) > before or any(prod([n for _, n in order]) == count for order in found):
            break
    return [*found.values(), *([] if summed is None else [summed])] or [whole]


def _summed(recorded: Recorded, function: Independent, ranks: int) -> OperationState | None:
    """A call of which ranks add up the parts along a folded axis where they have them."""
    sums = None if function.sums is None else function.sums()
    if sums is None:
        return None
    template, (cut,) = recorded[0], sums.call.cuts
    views = [use.map for use in template.uses]
    lengths = [0 if axis is None else view.shape[axis] for view, axis in zip(views, cut, strict=True)]
    tiles = part_lengths(lengths, views, current().runtime.points)
    domain = max([-(-n // tile) for n, tile in zip(lengths, tiles, strict=True)]),
    if domain[0] < 2:
        return None
    moved = sums.moved(tuple([tuple([min(first * tile, n) for first in first_points(domain[0], ranks)])
                              for n, tile in zip(lengths, tiles, strict=True)]))
    made = template.called(Decomposition(domain, (Split(len(function.cuts), tiles[0]),)))
    splits = [(Split(-1 if axis is None else axis, tile),) for axis, tile in zip(cut, tiles, strict=True)]
    boxes = tuple([touched(use.map.partition(use.access(-1).store, split), domain, use.frame, ranks)
                   for use, split in zip(template.uses, splits, strict=True)])
    results, multiplied = _call_work(recorded, (), ranks)
    name = LETTERS[len(views[-1].shape)]
    return OperationState(made, boxes, f"{name}:{domain[0]}", results, multiplied * moved.share, moved.bytes,
                 moved.messages, moved.chain, sums.usual)


def _shared(recorded: Recorded, function: Independent, extents: list[tuple[str, int]],
            order: tuple[tuple[int, int], ...], ranks: int, usual: bool = False) -> OperationState | None:
    """A call on the grid that has so many parts of these cuts, in this order; None if there is none."""
    if not crossing(function, tuple([n for n, _ in order])) or any(n > extents[k][1] for k, n in order):
        return None
    parts = [1] * len(extents)
    for number, n in order:
        parts[number] = n
    made = grid(recorded, tuple(parts), tuple([number for number, _ in order]))
    return None if made is None else _call_state(recorded, made, extents, ranks, usual)


def _call_state(recorded: Recorded, made: Template, extents: list[tuple[str, int]], ranks: int,
                usual: bool = False) -> OperationState:
    function = called(recorded)
    assert function is not None
    domain = tuple([-(-extents[split.axis][1] // split.tile) for split in made.splits])
    boxes = []
    for k, use in enumerate(made.uses):
        axes = [function.cuts[split.axis][k] for split in made.splits]
        splits = tuple([Split(-1 if axis is None else axis, 0 if axis is None else split.tile)
                        for axis, split in zip(axes, made.splits, strict=True)])
        boxes.append(touched(use.map.partition(use.access(-1).store, splits), domain, use.frame, ranks))
    words = " ".join([f"{extents[split.axis][0]}:{n}" for n, split in zip(domain, made.splits, strict=True)])
    return OperationState(made, tuple(boxes), words, *_call_work(recorded, domain, ranks), usual=usual)


def _call_work(recorded: Recorded, domain: Point, ranks: int) -> tuple[float, float]:
    """The bytes of results of the largest share of a call, and its multiplications and additions."""
    template, function = recorded[0], called(recorded)
    result = template.uses[-1]
    share = -(-volume(domain) // ranks) / volume(domain) if domain else 1.0
    elements = share * volume(result.map.shape)
    folded = template.uses[0].map.shape[-1] if function is not None and function.folded else 0
    return elements * ITEMSIZE[result.dtype], 2.0 * elements * folded


def named(recorded: Recorded, made: Template, ranks: int) -> OperationState:
    """The state of an operation whose grid the program itself names."""
    function = called(recorded)
    if function is not None and made.splits and made.splits[-1].axis == len(function.cuts):
        return _adding(recorded, function, made, ranks)
    if function is not None and volume(made.domain) > 1:
        return _call_state(recorded, made, cuts(recorded), ranks, True)
    return _state(made, ranks, True)


def _adding(recorded: Recorded, function: Independent, made: Template, ranks: int) -> OperationState:
    """The state of a call on a grid of blocks over which the program cuts the folded axis, too: the last of
    the ranks that add up a block has it."""
    parts, domain = [1] * len(made.splits), made.domain
    for n, split in zip(domain, made.splits, strict=True):
        parts[split.axis] = n
    sums = None if function.folds is None else function.folds(tuple(parts))
    assert sums is not None
    every, boxes = (*function.cuts, *sums.call.cuts), []
    for k, use in enumerate(made.uses):
        axes = [every[split.axis][k] for split in made.splits]
        splits = tuple([Split(-1, 0) if axis is None else Split(axis, split.tile)
                        for axis, split in zip(axes, made.splits, strict=True)])
        boxes.append(touched(use.map.partition(use.access(-1).store, splits), domain, use.frame, ranks))
    firsts = np.array(first_points(volume(domain), ranks)[:-1])
    boxes[-1][firsts % domain[-1] < domain[-1] - 1] = 0
    moved = sums.moved(())
    results, multiplied = _call_work(recorded, (), ranks)
    words = " ".join([f"{LETTERS[split.axis]}:{n}" for n, split in zip(domain, made.splits, strict=True)
                      if n > 1])
    return OperationState(made, tuple(boxes), words, results, multiplied * moved.share, moved.bytes,
                          moved.messages, moved.chain, usual=True)
