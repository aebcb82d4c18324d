"""The ways in which ranks can share out a recorded operation, and what each rank then touches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from math import prod
from typing import NamedTuple

from diffuse.ir import ITEMSIZE, ONE, Decomposition, Point, Privilege, Split, volume
from diffuse.ir.template import Recorded, Template
from diffuse.kernels.body import abi, operations
from diffuse.planning.boxes import Boxes, everything, touched
from diffuse.runtime.independent import Independent
from diffuse.settings import config
from diffuse.stream.blocks import factors
from diffuse.stream.decompose import constraints, refusal, unit
from diffuse.stream.regions import called, crossing, cuts, grid, under
from diffuse.stream.window import Window

MOVED = 4
"""The time to move an element, in that of computing one."""
HEAVY = 1 << 16
"""Bytes of partial results, of all ranks together, from which on one rank combines them."""
MOST_CUT = 3
"""The most loops that are cut at once."""


class State(NamedTuple):
    """One way to share out an operation."""

    template: Template | None
    """The template, decomposed; None where the stream chooses as elsewhere."""
    boxes: tuple[Boxes, ...]
    """For each use of a store what each rank touches of it."""
    grid: str
    """The grid in words, as `i:2 j:2`."""
    work: float
    """What the largest share takes to compute, as bytes."""
    beside: float = 0.0
    """Bytes that move beside the operands."""

    @property
    def cost(self) -> float:
        """All that the state itself costs, as bytes."""
        return self.work + self.beside


def states(recorded: Recorded, window: Window) -> list[State]:
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
        return [_state(default, ranks)]
    found = [default] if volume(default.domain) > 1 else []
    whole, _ = constraints(template)
    allowed = [d not in whole and n > 1 for d, n in enumerate(template.shape)]
    for cut in _grids(min(ranks, most), allowed):
        made = _under(template, cut, window)
        if made is not None and made not in found:
            found.append(made)
    if not found:
        return [State(None, _alone(template, ranks), "one rank", ranks * _work(template, ONE, 1))]
    return [_state(made, ranks) for made in found]


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
        tile = -(-(-(-root[d] // parts)) // length) * length
        if (parts - 1) * tile >= template.shape[d]:
            return None
        tiles.append((d, parts, tile))
    made = under(template, tuple(tiles), window.stores.runtime)
    assert made.decomposition is not None
    return made if made.valid and refusal(template, made.decomposition) is None else None


def _state(made: Template, ranks: int) -> State:
    domain = made.domain
    boxes = [touched(use.partition, domain, use.frame, ranks) for use in made.uses]
    beside = 0.0
    result = made.uses[-1]
    if result.privilege is Privilege.REDUCE:
        kept = tuple([d for d in range(len(made.shape)) if result.map.follows(d)])
        partial = prod([made.shape[d] for d in kept]) * abi.leaves(made.shape, kept) * ITEMSIZE[result.dtype]
        heavy = ranks * partial > HEAVY
        beside = partial * (ranks - 1) / (ranks if heavy else 1)
        boxes[-1] = everything(result.frame, ranks, 1 if heavy else None)
    return State(made, tuple(boxes), _words(made), ranks * _work(made, made.decomposition or ONE, ranks),
                 beside)


def _words(made: Template) -> str:
    return " ".join([f"{'ijklmnopqrstuvwxyz'[split.axis]}:{n}" for n, split in
                     zip(made.domain, made.splits, strict=True) if split.axis >= 0]) or "one rank"


def _work(template: Template, decomposition: Decomposition, ranks: int) -> float:
    """What the largest share of the iterations costs, as bytes."""
    cut = {split.axis: split.tile for split in decomposition.splits}
    each = prod([min(cut.get(d, n), n) for d, n in enumerate(template.shape)])
    return -(-volume(decomposition.domain) // ranks) * each * ITEMSIZE[template.uses[-1].dtype] / MOVED


def _alone(template: Template, ranks: int | None, some: int | None = 1) -> tuple[Boxes, ...]:
    return tuple([everything(use.frame, ranks or 1, some) for use in template.uses])


def _calls(recorded: Recorded, window: Window) -> list[State]:
    """The ways to share out a call of a host function."""
    template, function = recorded[0], called(recorded)
    ranks = window.stores.runtime.ranks
    if max([volume(use.map.shape) for use in template.uses], default=0) // config.min_chunk < 2:
        return []
    whole = State(None, _alone(template, ranks, None), "whole on every rank", _call_work(template, (), ranks))
    if function is None:
        return [whole]
    extents = cuts(recorded)
    for count in range(ranks, 1, -1):  # a short axis has less parts than there are ranks
        found = _shared(recorded, function, extents, count, ranks)
        if found:
            return found
    return [whole]


def _shared(recorded: Recorded, function: Independent, extents: list[tuple[str, int]], count: int, ranks: int
            ) -> list[State]:
    """The ways to share out a call among so many of the ranks, the stream's own first: that cuts one way."""
    found = []
    for order in sorted(_grids(count, [n > 1 for _, n in extents]), key=lambda order: order != ((0, count),)):
        if not crossing(function, tuple([n for n, _ in order])):
            continue
        parts = [1] * len(extents)
        for number, n in order:
            parts[number] = n
        if all([n <= extents[number][1] for number, n in order]):
            made = grid(recorded, tuple(parts), tuple([number for number, _ in order]))
            if made is not None:
                found.append(_call_state(made, function.cuts, extents, ranks))
    return found


def _call_state(made: Template, ways: Sequence[tuple[int | None, ...]], extents: list[tuple[str, int]],
                ranks: int) -> State:
    domain = tuple([-(-extents[split.axis][1] // split.tile) for split in made.splits])
    boxes = []
    for k, use in enumerate(made.uses):
        axes = [ways[split.axis][k] for split in made.splits]
        splits = tuple([Split(-1 if axis is None else axis, 0 if axis is None else split.tile)
                        for axis, split in zip(axes, made.splits, strict=True)])
        boxes.append(touched(use.map.partition(use.access(-1).store, splits), domain, use.frame, ranks))
    words = " ".join([f"{extents[split.axis][0]}:{n}" for n, split in zip(domain, made.splits, strict=True)])
    return State(made, tuple(boxes), words, _call_work(made, domain, ranks))


def _call_work(template: Template, domain: Point, ranks: int) -> float:
    result = template.uses[-1]
    share = -(-volume(domain) // ranks) / volume(domain) if domain else 1.0
    return ranks * share * volume(result.map.shape) * ITEMSIZE[result.dtype] / MOVED


def named(recorded: Recorded, made: Template, ranks: int) -> State:
    """The state of an operation whose grid the program itself names."""
    function = called(recorded)
    if function is not None and volume(made.domain) > 1:
        return _call_state(made, function.cuts, cuts(recorded), ranks)
    return _state(made, ranks)
