"""Chooses how ranks share out each task of a planned region, so that the region takes the least time.

Each task that is large enough is a variable: its states are the ways in which ranks can share it out.  So is
each array, or each version of an array that a task overwrites: its states are layouts, which say where
elements lie.  The costs of both are tables (tables.py).  The choice of least cost is compared with what the
stream would do (forecast.py), and taken if it is better.  An array that enters the region again as it left it
is one variable at both ends, so that the choice is the best for a loop around the region.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from diffuse.ir import ITEMSIZE, ONE, Frame, Privilege, covers, volume
from diffuse.ir.template import Recorded, Template
from diffuse.movement.choice import DEFAULT
from diffuse.movement.machine import Machine
from diffuse.planning.boxes import Boxes, extended, held, volumes
from diffuse.planning.eliminate import solve
from diffuse.planning.forecast import Forecast, Turn
from diffuse.planning.memory import Footprint
from diffuse.planning.problem import Problem
from diffuse.planning.states import OperationState, named, states
from diffuse.planning.tables import Tables
from diffuse.settings import config
from diffuse.stream.regions import called
from diffuse.stream.window import Window

MOST_LAYOUTS = 32
"""The most layouts of one array, of those that tasks access it in."""
HEAVY, HEAVIEST = 1e-12, 1e-6
"""The seconds that a byte of memory costs in the first search for a plan that needs less, and in the last."""
WIDEST = 1 << 22
"""The most entries of a table of the elimination."""
TRIALS = 4000
"""The number of changes that are tried to lower the memory of a choice."""
ERROR, SURE, WORTH = 0.08, 0.12, 0.02
"""The shares of the time by default that a plan has to save, or else the stream's own choice stays: one that
moves about as many bytes, one that moves more, and one that moves far fewer, as bytes are certain.  The first
is the model's error: on two ranks of two cores attention promised 4 percent with 9 percent fewer bytes, and
took 4 percent longer.  Where far fewer bytes moved it was on the safe side: products promised 3 and 9 percent
on two and four ranks and saved 10 and 28, attention on four ranks promised 3 and saved 9."""
FEWER = 0.75
"""Up to this share of the bytes that move by default are far fewer."""
ALIKE = 1.02
"""Of plans whose times are within this factor of the least the one that moves least is taken."""


@dataclass
class Version:
    """A version of a store in the region."""

    store: int
    frame: Frame
    given: bool
    """Was it made before the region?"""
    uses: list[tuple[int, int, bool]] = field(default_factory=list)
    """Every use in order: the task, the number of its use, and whether it overwrites the whole array."""
    have: Any = None
    """What each rank holds of it before the region; None if that is unknown, or everything."""
    layouts: list[Boxes] = field(default_factory=list)
    """The boxes of each layout that it may have."""

    @property
    def itemsize(self) -> int:
        return ITEMSIZE[self.frame.dtype]

    @property
    def large(self) -> bool:
        """Is it large enough that ranks share it?  The search chooses no layouts for smaller ones."""
        return volume(self.frame.shape) >= 2 * config.min_chunk


class RegionPlan(NamedTuple):
    """The partition of a region that a search has chosen."""

    templates: tuple[Template | None, ...]
    """Each task as it is cut; None where the stream decides as elsewhere."""
    bytes: float
    """The bytes that ranks receive in one turn of the region."""
    default: float
    """The same if the stream decided."""
    seconds: float
    """The time of a turn, by the model of the machine."""
    usual: float
    """The same if the stream decided."""
    peak: int
    """The bytes of arrays of the region, copies included, that a rank has at most."""
    words: tuple[str, ...]
    """Each task's grid, in words."""
    given: tuple[tuple[int, int], ...]
    """Stores that come from outside, numbered by first use, with the numbers of their arrays."""
    last: tuple[tuple[int, int], ...]
    """All stores, with the numbers of their last arrays."""
    written: frozenset[int]
    """The arrays from outside that tasks write in part."""
    left: bool
    """Is everything left to the stream, which does as well?"""


class Search:
    """The search for the partition of one list of tasks."""

    def __init__(self, tasks: Sequence[Recorded], window: Window, fixed: Sequence[Template | None] = (),
                 links: Collection[tuple[int, int]] = (), gone: Mapping[int, int] | None = None) -> None:
        """`fixed` are templates that the program itself named a grid for; `links` pairs of arrays, of which
        the first, at the end of the region, is the second at its beginning when it comes again; `gone` the
        stores that the program let go of, with the number of the tasks before."""
        self.gone = gone or {}
        self.tasks, self.window = tasks, window
        self.ranks = window.stores.runtime.ranks
        hands = fixed or [None] * len(tasks)
        self.by_hand = [hand is not None for hand in hands]
        self.states = self._states_of_tasks(hands)
        """For each task the ways to share it out."""
        self.arrays: list[Version] = []
        self.now: dict[int, int] = {}
        """The last version of each store."""
        self._changed: set[int] = set()
        """The arrays that tasks write."""
        for number in range(len(tasks)):
            self._add(number)
        self.given = tuple([(a.store, k) for k, a in enumerate(self.arrays) if a.given])
        alive = window.stores.alive
        self.left = tuple([(store, k) for store, k in self.now.items() if store in alive])
        self.same = list(range(len(self.arrays)))
        self.returning = self._returning(links)
        """Pairs of arrays that are one variable: the first at the end of the region, the second at its
        beginning."""
        self.back = {begin for _, begin in self.returning}
        """Arrays that the region itself left behind in an earlier turn."""
        for pair in self.returning:
            self._join(*pair)
        self.written = frozenset([k for k in self._changed if self.arrays[k].given])
        self.lasting = [bool(links) and a.given and k not in self.written and k not in self.back
                        for k, a in enumerate(self.arrays)]
        """For each array: does it stay as it is, while the region comes again and again?"""
        self._lay_out()

    def _states_of_tasks(self, hands: Sequence[Template | None]) -> list[list[OperationState]]:
        """The states of each task: one if the program named its grid, and otherwise the same list for equal
        tasks."""
        found, known = [], dict[Any, list[OperationState]]()
        for recorded, hand in zip(self.tasks, hands, strict=True):
            if hand is not None:
                found.append([named(recorded, hand, self.ranks)])
                continue
            key = recorded[0], (recorded[2] if recorded[2] and callable(recorded[2][0]) else None)
            if key not in known:
                known[key] = states(recorded, self.window)
            found.append(known[key])
        return found

    def _returning(self, links: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
        """The pairs of arrays of which the first enters the region again as the second: those of one store,
        and `links`."""
        first = dict(self.given)
        inside = [(k, first[store]) for store, k in self.left if store in first and first[store] != k]
        return [(last, begin) for last, begin in (*inside, *links)
                if self.arrays[last].frame == self.arrays[begin].frame]

    def streams(self, task: int) -> bool:
        """Does the stream itself cut a task that is recorded here as it would elsewhere?  Not one that the
        program cuts by hand, and no product, which is recorded otherwise in a region."""
        function = called(self.tasks[task])
        return not self.by_hand[task] and (function is None or function.blocks is None)

    def _add(self, number: int) -> None:
        """Add the arrays that a task writes or is the first to read, and its uses of arrays."""
        template, stores, *_ = self.tasks[number]
        frames = self.window.stores.storages
        for k, (use, store) in enumerate(zip(template.under(ONE).uses, stores, strict=True)):
            frame = frames[store]
            whole = (use.privilege is not Privilege.READ and (use.frame, use.dtype) == frame
                     and covers(use.access(store)))
            if whole and use.privilege is not Privilege.READ_WRITE:
                self.now[store] = len(self.arrays)
                self.arrays.append(Version(store, frame, False))
            elif store not in self.now:
                self.now[store] = len(self.arrays)
                instance: Any = self.window.stores.instances.get(store)
                state = getattr(instance, "state", None)
                have = None if state is None or state.whole or state.shape != frame.shape else state.have
                self.arrays.append(Version(store, frame, True, have=have))
            if use.privilege is not Privilege.READ:
                self._changed.add(self.now[store])
            if self.states[number] and self.arrays[self.now[store]].large:
                self.arrays[self.now[store]].uses.append((number, k, whole))

    def _join(self, one: int, other: int) -> None:
        """Make two arrays one variable."""
        low, high = sorted((self.variable(one), self.variable(other)))
        self.same[high] = low

    def variable(self, array: int) -> int:
        while self.same[array] != array:
            array = self.same[array]
        return array

    def _lay_out(self) -> None:
        """Find the layouts of each array: those in which the states of tasks access or write it in parts."""
        found: list[dict[bytes, Boxes]] = [{} for _ in self.arrays]
        for number, array in enumerate(self.arrays):
            mine, full = found[self.variable(number)], volume(array.frame.shape)
            for task, k, _ in array.uses:
                use = self.tasks[task][0].uses[k]
                if (use.frame, use.dtype) != (array.frame.shape, array.frame.dtype):
                    continue
                for state in self.states[task]:
                    boxes = extended(state.boxes[k], array.frame.shape)
                    if volumes(boxes).sum() == full:
                        mine.setdefault(boxes.tobytes(), boxes)
            if array.large and array.given and array.have is not None:
                layers = held(array.have, len(array.frame.shape))
                if len(layers) == 1 and volumes(layers[0]).sum() == full:
                    mine.setdefault(layers[0].tobytes(), layers[0])
        for number, array in enumerate(self.arrays):
            array.layouts = list(found[self.variable(number)].values())[:MOST_LAYOUTS]

    # -- the answer ----------------------------------------------------------------------------------------

    def solve(self, memory: int | None = None, machine: Machine = DEFAULT) -> RegionPlan:
        """Choose for the least time on a machine, within so many bytes of memory on each rank; the stream's
        own choice, unless a plan saves more than the model may err by.

        MemoryError, with the least that was found to do, if no plan needs so little.
        """
        tables = Tables(self, machine.over(self.ranks))
        forecast = Forecast(self, tables)
        best = default = forecast.usual()
        if default.seconds - tables.least() > WORTH * default.seconds:
            found = [tables.problem(latency) for latency in (True, False)]
            best = preferred(default, [forecast.under(self._states(_solved(problem), tasks))
                                       for problem, tasks in found])
        footprint = Footprint(self, self.gone)
        least = footprint.peak(best.states)
        if memory is not None and least > memory:
            least, fitting = self._fitting(memory, *tables.problem(), footprint, least, best.states)
            best = forecast.under(fitting)
        return self._chosen(best, default, least)

    def _fitting(self, memory: int, problem: Problem, tasks: dict[int, int], footprint: Footprint, least: int,
                 best: Sequence[int]) -> tuple[int, Sequence[int]]:
        """Return the peak and the states of a choice that needs no more than so much memory."""
        heavy = HEAVY
        while least > memory and heavy < HEAVIEST:
            found = self._states(_solved(self._weighed(problem, tasks, heavy)), tasks)
            peak, heavy = footprint.peak(found), 4.0 * heavy
            if peak < least:
                least, best = peak, found
        if least > memory:
            least, best = self._lowered(least, list(best), tasks, footprint)
        if least > memory:
            raise MemoryError(f"no partition of these {len(self.tasks)} operations over {self.ranks} ranks "
                              f"is found within memory={memory} bytes a rank: the least that would do is "
                              f"{least}")
        return least, best

    def _states(self, choice: Sequence[int], tasks: dict[int, int]) -> list[int]:
        """Return the state of each task; 0 for a task that has no states."""
        return [choice[tasks[number]] if number in tasks else 0 for number in range(len(self.tasks))]

    def _weighed(self, problem: Problem, tasks: dict[int, int], heavy: float) -> Problem:
        """Return the problem with so many seconds added for each byte that a task accesses on a rank."""
        tables = []
        for number, v in tasks.items():
            uses = self.tasks[number][0].uses
            touched = [sum([volumes(boxes).max() * ITEMSIZE[use.dtype] for use, boxes in
                            zip(uses, state.boxes, strict=True)]) for state in self.states[number]]
            tables.append(((v,), heavy * np.array(touched)))
        return Problem(problem.sizes, [*problem.tables, *tables])

    def _lowered(self, peak: int, choice: list[int], tasks: dict[int, int], footprint: Footprint
                 ) -> tuple[int, list[int]]:
        """Lower the peak by changes of one task's state, or of the states of two tasks that use one array, as
        long as any helps; returns the peak and the states."""
        pairs = {(one, other) for array in self.arrays
                 for (one, *_), (other, *_) in pairwise(array.uses) if one != other}
        left, again = TRIALS, True
        while again and left > 0:
            again = False
            for move in [*[(task,) for task in tasks], *sorted(pairs)]:
                for ways in product(*[range(len(self.states[task])) for task in move]):
                    trial = list(choice)
                    for task, state in zip(move, ways, strict=True):
                        trial[task] = state
                    found, left = footprint.peak(trial), left - 1
                    if found < peak:
                        peak, choice, again = found, trial, True
                    if left <= 0:
                        return peak, choice
        return peak, choice

    def _chosen(self, best: Turn, default: Turn, peak: int) -> RegionPlan:
        taken = [every[state] if every else None
                 for every, state in zip(self.states, best.states, strict=True)]
        slots: dict[int, int] = {}
        for task in self.tasks:
            for store in task[1]:
                slots.setdefault(store, len(slots))
        left = [best is default and self.streams(task) for task in range(len(self.tasks))]
        return RegionPlan(tuple([None if state is None or stream else state.template
                             for state, stream in zip(taken, left, strict=True)]),
                      best.bytes, default.bytes, best.seconds, default.seconds, peak,
                      tuple(["-" if state is None else state.grid for state in taken]),
                      tuple([(slots[store], k) for store, k in self.given]),
                      tuple([(slots[store], k) for store, k in self.now.items()]), self.written,
                      best is default and not any(self.by_hand))


def preferred(default: Turn, found: Sequence[Turn]) -> Turn:
    """Choose among the turns that were found and the stream's own."""
    better = [turn for turn in found if default.seconds - turn.seconds > needed(default, turn)]
    bound = ALIKE * min([turn.seconds for turn in better], default=0.0)
    return min([turn for turn in better if turn.seconds <= bound], key=lambda turn: turn.bytes,
               default=default)


def needed(default: Turn, turn: Turn) -> float:
    """Return the seconds that a turn has to save to be preferred to the stream's own."""
    share = (SURE if turn.bytes > default.bytes else
             ERROR if turn.bytes >= FEWER * default.bytes else WORTH)
    return max(1e-9, share * default.seconds)


def _solved(problem: Problem) -> list[int]:
    return solve(problem, WIDEST) if problem.sizes else []
