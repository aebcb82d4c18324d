"""Counts how often the program waits for a single operation, a single library call, or a short chain.

A library computes at once what the program waits for alone (numpy/ops/single.py), according to the counts
kept here: `Template.alone`, and `alone` of the lines of the program that it names.  The operations of a chain
count as waited for alone, too, if NumPy takes less time for the whole chain than recording and waiting take,
and if nothing in it has to be recorded.
"""

from __future__ import annotations

from typing import Any

from diffuse.ir import ITEMSIZE, Privilege
from diffuse.ir.template import Recorded, Template
from diffuse.kernels.body import operations
from diffuse.kernels.body.expr import STRUCTURAL
from diffuse.observe import trace
from diffuse.stream.pace import lengthy
from diffuse.stream.window import CHAIN, Window

LIGHT = 600_000
"""The most bytes that each task of a short chain may read and write."""
BRIEF = 5_000_000
"""The most bytes per group that all tasks may read and write if one has more than `LIGHT`: NumPy takes less
time for these than launching a group and waiting for it."""
MOST = 64
"""The most calls that are recorded between two waits."""


class Waits:
    """Records the first library calls since the program last waited."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: list[tuple[Any, int, int]] = []
        """For each call its place, the number of tasks that it recorded, and the number recorded in all by
        then."""

    def called(self, place: Any, tasks: int, begun: int) -> None:
        """Record a call at this place that recorded so many tasks; calls from number `begun` on were part of
        it."""
        del self.calls[begun:]
        if len(self.calls) < MOST:
            self.calls.append((place, tasks, trace.counters["recorded"]))

    def note(self, window: Window, idle: bool) -> None:
        """Note that the program waits for the tasks of a window and, if `idle`, for nothing else."""
        calls, self.calls = self.calls, []
        now = window.held, trace.counters["recorded"]
        for place, *seen in calls:
            place.alone = place.alone + 1 if idle and len(calls) == 1 and (*seen,) == now else 0
        if 0 < window.held <= CHAIN:
            groups = [group.recorded for group in (*window.closed, window.open) if group.recorded]
            tasks = [task for recorded in groups for task in recorded]
            chain = [made for made, *_ in tasks]
            if idle and (len(chain) == 1 or light(chain, len(groups))):
                times = min([made.alone for made in chain]) + 1
                for made in chain:  # all alike: otherwise what uses one's result would be recorded as a task
                    made.alone = times
            elif len(chain) > 1:
                for made in begun(tasks):
                    made.alone = 0


def begun(tasks: list[Recorded]) -> list[Template]:
    """The operations of a chain that use none of its results.  The other operations read a pending result, so
    that they are recorded in any case; whether the program waits for them elsewhere is not known here."""
    found: list[Template] = []
    written: set[int] = set()
    for made, stores, *_ in tasks:
        uses = list(zip(made.uses, stores, strict=True))
        if written.isdisjoint([store for use, store in uses if use.privilege is Privilege.READ]):
            found.append(made)
        written.update([store for use, store in uses if use.privilege is not Privilege.READ])
    return found


def light(chain: list[Template], groups: int) -> bool:
    """Would NumPy compute all tasks of a short chain in less time than waiting for its groups takes?"""
    sizes = [size(made) for made in chain]
    return max(sizes) <= LIGHT or sum(sizes) <= BRIEF * groups


def size(made: Template) -> int:
    """The bytes that a task reads and writes if NumPy may compute it without a slow routine; else a very
    large number.  Reductions at hand are computed at once in any case."""
    found = made.moved
    if found is None:
        name, types = made.operation, made.signature[:-1]
        row = operations.find(name) if operations.known(name) else None
        exact = (row is not None and (row.name == name or row.elementwise)
                 and operations.exact(row.name, types))
        reduces = any([use.operator is not None for use in made.uses])
        found = made.elements * sum([ITEMSIZE[use.dtype] for use in made.uses])
        if not (exact or reduces or name in STRUCTURAL) or lengthy(name, types, made.elements):
            found = MANY
        made.moved = found
    return found


MANY = 1 << 62
