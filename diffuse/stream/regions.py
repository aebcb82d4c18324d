"""Regions: parts of a program in which somebody else than `decompose` decides how operations are cut.

`diffuse.schedule` is one (schedule.py), in which the program names a grid, `diffuse.plan` another
(diffuse/planning/regions.py), in which a search chooses.  The window asks the region that the program is in
where groups begin, so that what was decided there is found again as trails of its own, and for each task that
was not recorded there before how it is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from diffuse.ir import Decomposition, Point, Split, tile_length
from diffuse.ir.template import Recorded, Template
from diffuse.kernels.body import operations
from diffuse.runtime.base import Runtime
from diffuse.runtime.independent import Independent

if TYPE_CHECKING:
    from diffuse.stream.group import Group
    from diffuse.stream.memo import Trail

LETTERS = "ijklmnopqrstuvwxyzabcdefgh"
"""The names of loops, in order; no store has more dimensions."""


class Region(Protocol):
    """A part of the program that decides how its operations are cut, as the window sees it."""

    @property
    def asks(self) -> Callable[[Recorded], None] | None:
        """A function that raises ValueError for an operation that must not be recorded here; None if every
        operation may be."""

    def start(self, before: Group) -> Trail:
        """Return the place in the memo at which the group after this one begins."""

    def holds(self, recorded: Recorded) -> bool:
        """Keep a task back if it cannot be decided before the next ones are known; return whether it was."""

    def chosen(self, number: int, recorded: Recorded) -> Template | None:
        """Return the decomposed template of the region's task with this number; None if the stream has to
        choose as it does outside of regions."""

    def settle(self) -> None:
        """Add the tasks that are kept back to the window, because its open group ends."""

    def mend(self) -> None:
        """Restore consistency after an exception: nothing is kept back any more."""

    def forget(self) -> None:
        """Forget all decisions, because settings change."""


def called(recorded: Recorded) -> Independent | None:
    """Return the host function of a task if ranks may run it on parts of its arrays, else None."""
    values = recorded[2]
    return values[0] if values and type(values[0]) is Independent else None


def loops(recorded: Recorded) -> dict[str, int]:
    """Return the loops of an operation by name, with their extents: `i`, `j`, ... are the dimensions of its
    iteration space.  Those of a host function are the dimensions of its result, and loops of extent -1, along
    which it adds up."""
    template, function = recorded[0], called(recorded)
    if operations.known(template.operation):
        return dict(zip(LETTERS, template.shape, strict=False))
    shape = template.uses[-1].map.shape
    folded = (-1,) * (0 if function is None else function.folded)
    return dict(zip(LETTERS, (*shape, *folded), strict=False))


def cuts(recorded: Recorded) -> list[tuple[str, int]]:
    """Return the loop, by name, and its extent, for each way in which a host function may be cut."""
    template, function = recorded[0], called(recorded)
    if function is None:
        return []
    return [(LETTERS[axis], template.uses[-1].map.shape[axis]) for axis in
            [cut[-1] for cut in function.cuts] if axis is not None]


def under(template: Template, cut: tuple[tuple[int, int, int], ...], runtime: Runtime) -> Template:
    """The template over a grid of ranks: `cut` has, in the order of launch dimensions, the dimension, the
    number of parts, and the length of a tile.  The threads of a rank share its tile along the last dimension,
    where that divides it."""
    domain, splits = [parts for _, parts, _ in cut], [Split(axis, tile) for axis, _, tile in cut]
    threads, points = max(1, runtime.points // runtime.ranks), 1
    for parts in domain:
        points *= parts
    axis, tile, _ = splits[-1]
    if points == runtime.ranks and tile % threads == 0 and tile * domain[-1] >= template.shape[axis]:
        domain[-1] *= threads
        splits[-1] = Split(axis, tile // threads)
    found = Decomposition(tuple(domain), tuple(splits), not runtime.addressed, runtime.completes)
    return template.under(found)


def crossing(function: Independent, order: tuple[int, ...]) -> bool:
    """May a host function be cut in all of these ways at once?  It may not be cut twice along one axis of an
    array."""
    if function.indexed and len(order) > 1:
        return False
    axes = zip(*[function.cuts[n] for n in order], strict=True)
    some = [[axis for axis in each if axis is not None] for each in axes]
    return all([len(set(each)) == len(each) for each in some])


def grid(recorded: Recorded, parts: Point, order: tuple[int, ...]) -> Template | None:
    """The template of a call on a grid of blocks: `parts` along each cut, of which those of `order` are
    launch dimensions.  None if blocks would not have the bits of the whole."""
    function = called(recorded)
    assert function is not None
    unit = function.unit(parts)
    if unit == 0:
        return None
    extents = [extent for _, extent in cuts(recorded)]
    splits = tuple([Split(n, tile_length(extents[n], parts[n], unit)) for n in order])
    return recorded[0].called(Decomposition(tuple([parts[n] for n in order]), splits))

