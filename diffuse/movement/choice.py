"""The choice of a route: the fastest one that fits into memory.

The candidates are the direct exchange of boxes; where both layouts are even, the synthesised sequence of
collectives; and where memory allows it, gathering the whole array on every rank.
"""

from __future__ import annotations

from math import prod

from diffuse.ir import Point
from diffuse.movement.boxes import Layout, even, total
from diffuse.movement.direct import exchange
from diffuse.movement.lowering import lower
from diffuse.movement.machine import Machine
from diffuse.movement.route import Route
from diffuse.movement.search import cheapest
from diffuse.movement.weak import WeakSpace, WeakStep

DEFAULT = Machine()
TIES, TILES = 8, 512
"""Among sequences of equal cost, at most `TIES` are lowered, fewer if that is more than `TILES` ranks in all,
and the one that receives the least is taken: they differ in the permutation that they need."""


def redistribute(shape: Point, itemsize: int, have: Layout, want: Layout, machine: Machine = DEFAULT,
                 limit: int | None = None) -> Route:
    """Return the fastest route between two layouts of an array on the same ranks.

    During a step no rank needs more than `limit` bytes for what it holds before and after it together; None
    is twice the larger of both ends, which is always enough.  Raises ValueError if no rank holds a wanted
    element, and MemoryError if no route keeps to the limit.
    """
    if len(have) != len(want):
        raise ValueError(f"the array lies on {len(have)} ranks and is wanted on {len(want)}")
    bound = 2 * itemsize * max(total(have), total(want)) if limit is None else limit
    routes = [direct(shape, itemsize, have, want)]
    if routes[0].steps:
        makes = [synthesised, gathered] if itemsize * prod(shape) <= bound else [synthesised]
        routes += [route for make in makes if (route := make(shape, itemsize, have, want)) is not None]
    fitting = [route for route in routes if route.peak <= bound]
    if not fitting:
        least = min(route.peak for route in routes)
        raise MemoryError(f"the redistribution needs {least:,} bytes on a rank, which may hold {bound:,}")
    return min(fitting, key=lambda route: route.seconds(machine))


def direct(shape: Point, itemsize: int, have: Layout, want: Layout) -> Route:
    """Return the direct exchange; it has no steps if every rank holds what it wants."""
    step = exchange(have, want)
    moves = any(step.arrivals)
    return Route(shape, itemsize, have, step.held if moves else want, (step,) if moves else (), "direct")


def synthesised(shape: Point, itemsize: int, have: Layout, want: Layout) -> Route | None:
    """Return the cheapest sequence of collectives in the paper's cost; None if a layout is uneven."""
    first, last = even(have, shape), even(want, shape)
    if first is None or last is None:
        return None
    ties = max(1, min(TIES, TILES // len(have)))
    found = cheapest(WeakSpace(shape, len(have)), first[0], last[0], ties)
    lowered = (lower(shape, steps, first[1], first[0], last[1]) for steps in found.sequences)
    routes = [Route(shape, itemsize, have, want, groups, "synthesised") for groups in lowered]
    return min(routes, key=lambda route: (route.received, route.moved))


def gathered(shape: Point, itemsize: int, have: Layout, want: Layout) -> Route | None:
    """Return the route that gathers the whole array on every rank, which then keeps its part; None if a
    layout is uneven."""
    first, last = even(have, shape), even(want, shape)
    if first is None or last is None:
        return None
    groups = lower(shape, gather_and_slice(first[0], last[0]), first[1], first[0], last[1])
    return Route(shape, itemsize, have, want, groups, "gather and slice")


def gather_and_slice(have: Point, want: Point) -> tuple[WeakStep, ...]:
    """Return the sequence that gathers the whole array and slices it, equation 2 of the paper.

    Gathers go from the smallest factor to the largest, which costs least.
    """
    gathers = sorted((n, i) for i, n in enumerate(have) if n > 1)
    return (*(WeakStep(i, None, n) for n, i in gathers),
            *(WeakStep(None, j, m) for j, m in enumerate(want) if m > 1))

