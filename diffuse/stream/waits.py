"""What the program waits for: a single operation or call of a library, a short chain of them, or more.

A library that does at once what the program waits for alone (numpy/ops/single.py) learns it from the counts
that are kept here: `Template.alone`, and `alone` of the places of the program that it names.  The operations
of a chain count as waited for alone, too, where the chain is so short and light that to record it and to wait
for it takes longer than NumPy takes for all of it, and where nothing in it has to be recorded.
"""

from __future__ import annotations

from typing import Any

from diffuse.ir import ITEMSIZE
from diffuse.ir.bounded import Bounded
from diffuse.ir.template import Template
from diffuse.kernels.body import operations
from diffuse.kernels.body.expr import STRUCTURAL
from diffuse.observe import trace
from diffuse.stream.window import CHAIN, Window

LIGHT = 600_000
"""Bytes that each task of a short chain reads and writes, at most."""
BRIEF = 5_000_000
"""Bytes that all of them read and write, for each group that they make, where one task has more: NumPy is
done with these before a group is launched and waited for."""
MOST = 64
"""Calls that are noted between two waits."""


class Waits:
    """The first calls of libraries since the program last waited."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: list[tuple[Any, int, int]] = []
        """Where each was made, the tasks that it recorded, and all that were recorded by then."""

    def called(self, place: Any, tasks: int, begun: int) -> None:
        """Note that a call at this place recorded so many tasks; calls from number `begun` on were part of
        it."""
        del self.calls[begun:]
        if len(self.calls) < MOST:
            self.calls.append((place, tasks, trace.counters["recorded"]))

    def note(self, window: Window, idle: bool) -> None:
        """Note that the program waits for what a window holds; `idle`: and for nothing else."""
        calls, self.calls = self.calls, []
        now = window.held, trace.counters["recorded"]
        for place, *seen in calls:
            place.alone = place.alone + 1 if idle and len(calls) == 1 and (*seen,) == now else 0
        if 0 < window.held <= CHAIN:
            groups = [group.recorded for group in (*window.closed, window.open) if group.recorded]
            chain = [task[0] for recorded in groups for task in recorded]
            if idle and (len(chain) == 1 or light(chain, len(groups))):
                times = min([made.alone for made in chain]) + 1
                for made in chain:  # all alike: to record what uses the result of one takes a task for that
                    made.alone = times
            elif len(chain) > 1:
                for made in chain:
                    made.alone = 0


def light(chain: list[Template], groups: int) -> bool:
    """Would NumPy have done all tasks of a short chain sooner than its groups can be waited for?"""
    sizes = [size(made) for made in chain]
    return max(sizes) <= LIGHT or sum(sizes) <= BRIEF * groups


def size(made: Template) -> int:
    """Bytes that a task reads and writes, if NumPy may do it, and soon; else very many.  Reductions at hand
    are done at once in any case."""
    found = _sizes.get(made)
    if found is None:
        name, types = made.operation, made.signature[:-1]
        exact = name in operations.TABLE and operations.exact(name, types)
        reduces = any([use.operator is not None for use in made.uses])
        found = made.elements * sum([ITEMSIZE[use.dtype] for use in made.uses])
        if not (exact or reduces or name in STRUCTURAL) or operations.lengthy(name, types, made.elements):
            found = MANY
        _sizes[made] = found
    return found


MANY = 1 << 62
_sizes: dict[Template, int] = Bounded(1 << 12)
