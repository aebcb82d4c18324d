"""Schedules: grids of ranks that the program itself names for the operations of a block or a function."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ContextDecorator
from math import prod
from operator import index
from typing import Any, SupportsIndex

from diffuse.ir import ITEMSIZE, ONE, Decomposition, Point, Split
from diffuse.ir.template import Recorded, Template
from diffuse.kernels.body import operations
from diffuse.observe import trace
from diffuse.runtime.base import Runtime
from diffuse.stream.decompose import constraints, refusal, unit
from diffuse.stream.engine import current
from diffuse.stream.group import Group
from diffuse.stream.memo import Trail
from diffuse.stream.regions import called, crossing, cuts, grid, loops, under


class schedule(ContextDecorator):
    """Sets the grid of ranks over which the operations recorded in a `with` block, or in a function, are
    cut::

        with diffuse.schedule(grid=(2, 2)):     # the first two loops of each operation, by two ranks each
            c = a @ b
        with diffuse.schedule(i=2, j=2):        # the same by name: c[i, j] = sum of a[i, k] * b[k, j] over k
            c = a @ b

        @diffuse.schedule(j=4)                  # for all calls of a function
        def columns(a): ...

    The loops of an operation are called `i`, `j`, `k`, ...: they are the dimensions of its result, and behind
    them those that a product sums over; of a fold, such as `sum`, they are the dimensions of its operand.
    What is not named has one point.  The results are the same as without a schedule: where the grid cuts the
    loop that a product of two matrices sums over, ranks add up their parts in the order of BLAS, and what
    BLAS adds up in one piece is added up by the rank on which that begins.

    Operations on single numbers have no loops, and are not cut.

    A grid has to divide the extents that it cuts.  With `uneven` it need not: tiles are then as long as is
    needed, multiples of a leaf of the reduction tree if they are longer or fold it, and the last ones shorter
    or empty.  The loop that a product sums over is divided in any case.

    Raises ValueError for a grid that is none or has more points than there are ranks, and at the call of an
    operation for one that names a loop which that has not or cannot cut, or does not divide its extents.  A
    program on one rank is checked but for the number of points, and is not cut.  A product whose blocks would
    have other bits than the whole (BLAS decides) is computed whole.
    """

    def __init__(self, grid: Sequence[int] | None = None, *, uneven: bool = False, **points: int) -> None:
        if grid is None and not points:
            raise ValueError("schedule: name the points of each loop, as in grid=(2, 2) or i=2, j=2")
        if grid is not None and not isinstance(grid, Sequence):
            raise TypeError(f"schedule: the grid {grid!r} is no sequence of whole numbers, one a loop; "
                            f"write grid=({grid!r},), or i={grid!r}, for the first loop alone")
        named = dict(zip("ijklmnopqrstuvwxyz", grid or (), strict=False))
        for name, n in points.items():
            if name in named:
                raise ValueError(f"schedule: loop {name} has {n} points and, by the grid {grid}, "
                                 f"{named[name]}; name each loop once")
            named[name] = n
        for name, n in named.items():
            if not isinstance(n, SupportsIndex):
                raise TypeError(f"schedule: loop {name} has {n!r} points; give it a whole number")
            if index(n) < 1:
                raise ValueError(f"schedule: loop {name} has {n} points; give it at least 1")
        self.points = {name: index(n) for name, n in named.items()}
        self.uneven = uneven
        self._before: list[tuple[Any, Any]] = []

    def __str__(self) -> str:
        words = [*[f"{name}={n}" for name, n in self.points.items()], *["uneven=True"] * self.uneven]
        return f"schedule({', '.join(words)})"

    def _recreate_cm(self) -> schedule:
        return self  # each call of a decorated function enters once more

    def __enter__(self) -> schedule:
        engine = current()
        runtime = engine.runtime
        if runtime.ranks > 1 and prod(self.points.values()) > runtime.ranks:
            raise ValueError(f"{self} has {prod(self.points.values())} points, and there are {runtime.ranks} "
                             "ranks: name fewer points, or start more ranks")
        window = engine.window
        outer = window.region
        if outer is not None and hasattr(outer, "by_hand"):
            self._before.append((outer, outer.by_hand))
            outer.by_hand, window.asks = self, self.asks
        else:
            self._before.append((None, engine.turn_to(self)))
        return self

    def __exit__(self, *error: object) -> None:
        outer, before = self._before.pop()
        if outer is not None:
            outer.by_hand, current().window.asks = before, None if before is None else before.asks
        else:
            current().turn_to(before)

    # -- what the window asks ------------------------------------------------------------------------------

    def asks(self, recorded: Recorded) -> None:
        """Raise ValueError for an operation that cannot be cut over this grid."""
        if (sentence := self._refused(recorded)) is not None:
            raise ValueError(f"{self}: {recorded[0].operation} {sentence}")

    def _refused(self, recorded: Recorded) -> str | None:
        """Return the reason why an operation cannot be cut over this grid, as the end of a sentence; None if
        it can."""
        template, function = recorded[0], called(recorded)
        extents, summed = loops(recorded), _summed(recorded)
        cut = {name: n for name, n in self.points.items() if n > 1}
        extents |= summed
        if not extents:
            return None
        there = ", ".join(f"{name} ({n})" for name, n in extents.items())
        for name, n in self.points.items():
            if name not in extents:
                return f"has no loop {name}; it has {there}"
            if n > 1 and name in summed and (function is None or function.folds is None):
                return (f"adds up along loop {name}, which can be cut in products of two arrays of at most "
                        "two dimensions with contiguous rows or columns only: leave it at 1")
            if extents[name] % n and n > 1 and (not self.uneven or name in summed):
                return f"has {extents[name]} indices along {name}, which {n} points do not divide"
        if template.decomposition is not None and cut:
            return "brings its own grid: record it outside of the schedule"
        if not operations.known(template.operation):
            possible = [name for name, _ in cuts(recorded)]
            if any(name not in possible and name not in summed for name in cut):
                return f"can be cut along {', '.join(possible) or 'no loop'} only: the rest runs whole"
            order = tuple([possible.index(name) for name in cut if name in possible])
            if function is not None and order and not crossing(function, order):
                return f"cannot be cut along {' and '.join(cut)} at once"
            return None
        if not cut:
            return None
        found = self._cut(template, current().runtime)
        decomposition = found.decomposition or ONE
        if (sentence := refusal(template, decomposition)) is not None:
            return sentence
        return (None if template.fits(decomposition)
                else "would have elements that several points write: cut other loops")

    def _cut(self, template: Template, runtime: Runtime) -> Template:
        names = list(loops((template, (), (), None)))
        return under(template, tuple([(names.index(name), n, self._tile(template, names.index(name), n))
                                      for name, n in self.points.items() if n > 1]), runtime)

    def _tile(self, template: Template, axis: int, points: int) -> int:
        """The length of the tiles along a dimension."""
        tile, leaf = -(-template.shape[axis] // points), unit(template.shape, axis)
        whole = self.uneven and (tile > leaf or axis == constraints(template)[1])
        return -(-tile // leaf) * leaf if whole else tile

    def start(self, before: Group) -> Trail:
        return current().window.memo.begin((self.uneven, *self.points.items()))

    def holds(self, recorded: Recorded) -> bool:
        return False

    def chosen(self, number: int, recorded: Recorded) -> Template | None:
        template, runtime = recorded[0], current().runtime
        cut = {name: n for name, n in self.points.items() if n > 1}
        if runtime.ranks == 1:
            return None
        if not cut or not loops(recorded):
            return template.under(ONE)
        if operations.known(template.operation):
            return self._cut(template, runtime)
        nbytes = max([prod(use.frame) * ITEMSIZE[use.dtype] for use in template.uses], default=0)
        if not runtime.in_parts(nbytes):
            return template.under(ONE)
        names = [name for name, _ in cuts(recorded)]
        parts = tuple([cut.get(name, 1) for name in names])
        order = tuple([names.index(name) for name in cut if name in names])
        added = [cut[name] for name in _summed(recorded) if name in cut]
        found = _adding(recorded, (*parts, *added), order) if added else grid(recorded, parts, order)
        if found is None:
            trace.event("decompose", lambda: f"{template.operation} is computed whole: blocks by {self} "
                                             "would have other bits")
            return template.under(ONE)
        return found

    def settle(self) -> None:
        """Do nothing: a schedule keeps no tasks back."""

    def mend(self) -> None:
        """Do nothing: there is no state to restore."""

    def forget(self) -> None:
        """Do nothing: no decisions are kept."""


def _summed(recorded: Recorded) -> dict[str, int]:
    """Return the loops along which a host function adds up, by name, and their extents."""
    extent = recorded[0].uses[0].map.shape[-1:] if recorded[0].uses else ()
    return {name: extent[0] for name, n in loops(recorded).items() if n == -1 and extent}


def _adding(recorded: Recorded, parts: Point, order: Point) -> Template | None:
    """The template of a call on a grid of blocks that also cuts the loop along which the function adds up:
    `parts` along each cut and along that loop, which is the last launch dimension.  The cuts of `order` come
    first.  None if it would not have the bits of the whole."""
    function = called(recorded)
    if function is None or function.folds is None or function.folds(parts) is None:
        return None
    extents = *[n for _, n in cuts(recorded)], *_summed(recorded).values()
    rest = [n for n in range(len(parts)) if n not in order]
    splits = tuple([Split(n, extents[n] // parts[n]) for n in (*order, *rest)])
    return recorded[0].called(Decomposition(tuple([parts[split.axis] for split in splits]), splits))
