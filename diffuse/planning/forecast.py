"""Predicts the bytes and the time of a region under some choice of states, launch by launch.

The tables of a search know one layout for each array, and count each task by itself.  Here the stream
divides the tasks into launches (stream/ahead.py), those of small tasks and borders included, and the runtime
tells what each launch moves by its own rules (`foresight`): a rank holds what it wrote and received until it
is written again.  A host function that the stream may cut in several ways is cut in the one that moves least
just then.  The answer of a search and the stream's own choice are compared by these predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from diffuse.ir import Privilege
from diffuse.kernels.body import operations
from diffuse.planning.states import OperationState, named
from diffuse.planning.tables import Tables
from diffuse.runtime.base import Moved
from diffuse.stream.ahead import PredictedLaunch, Stream, Ways

if TYPE_CHECKING:
    from diffuse.planning.windows import Search

TURNS = 3
"""The number of turns of a repeated region after which further turns move the same."""


class Turn(NamedTuple):
    """One turn of a region: a choice, and what it costs."""

    states: tuple[int, ...]
    """The state of each task."""
    bytes: float
    """The bytes that all ranks receive."""
    moving: float
    """The seconds of communication."""
    seconds: float
    """The seconds of communication and computation."""


class Forecast:
    """Predicts turns of one region."""

    def __init__(self, search: Search, tables: Tables) -> None:
        self.search, self.tables = search, tables
        self._stream = Stream(search.window)
        self._others: dict[tuple[int, Any], OperationState] = {}
        """States of tasks under decompositions of the stream that the search does not consider."""
        self._reads: list[list[int]] = [[] for _ in search.tasks]
        """For each task the arrays that it reads and that another task of the region writes."""
        self._made: dict[int, int] = {}
        """For each array the task that writes it first."""
        for number, array in enumerate(search.arrays):
            for task, k, whole in array.uses:
                use = search.tasks[task][0].uses[k]
                if use.privilege is not Privilege.READ:
                    self._made.setdefault(number, task)
                elif number in self._made and not whole:
                    self._reads[task].append(number)

    def usual(self) -> Turn:
        """Predict a turn in which the stream decomposes each task, as without a plan."""
        return self._run(None)

    def under(self, states: Sequence[int]) -> Turn:
        """Predict a turn in which each task has this state."""
        return self._run(states)

    def _run(self, states: Sequence[int] | None) -> Turn:
        search = self.search
        runtime: Any = search.window.stores.runtime
        stores = search.window.stores
        launches = self._stream.launches(search.tasks, [self._ways(task, states) for task in range(
            len(search.tasks))])
        ahead = runtime.foresight(stores.instances, stores.storages, stores.outside(list(stores.shown)))
        returning = [(search.arrays[last].store, search.arrays[begin].store)
                     for last, begin in search.returning]
        new = {store for task in search.tasks for store in task[1] if store not in stores.instances}
        again = bool(search.back) or any(search.lasting)
        for turn in range(TURNS if again else 1):
            if turn:
                ahead.turn(returning, new)
            found = self._turn(launches, ahead, states)
        return found

    def _ways(self, task: int, states: Sequence[int] | None) -> Ways:
        """Return the templates that a task may run as: by these states, or as the stream cuts it for None."""
        search = self.search
        every = search.states[task]
        if not every:
            return (None,)
        if states is not None:
            return (every[states[task]].template,)
        if search.streams(task):
            return (None,)
        if search.by_hand[task]:
            return (every[0].template,)
        return tuple([state.template for state in every if state.usual]) or (every[0].template,)

    def _turn(self, launches: Sequence[PredictedLaunch], ahead: Any, states: Sequence[int] | None) -> Turn:
        """Predict one turn; `ahead` keeps track of what ranks hold."""
        search, tables = self.search, self.tables
        taken = [0] * len(search.tasks) if states is None else [*states]
        total = moving = seconds = 0.0
        place: dict[int, int] = {}
        for number, launch in enumerate(launches):
            moved, way = _foreseen(launch, ahead)
            total += moved.bytes
            moving += tables.busy(moved)
            lost: set[int] = set()
            for task, cut in launch.tasks:
                place[task] = number
                every = search.states[task]
                if not every:
                    continue
                if states is None:
                    taken[task] = self._number(task, cut, way)
                state = self._state(task, cut, taken[task])
                seconds += tables.work(state)
                if launch.called:
                    total += state.beside
                    moving += tables.beside(state)
                lost.update([array for array in self._reads[task] if place[self._made[array]] != number])
            seconds += sum([tables.unfused(launch.tasks[0][0], array) for array in lost])
        return Turn(tuple(taken), total, moving, seconds + moving)

    def _state(self, task: int, cut: Any, number: int) -> OperationState:
        """Return the state of a task by its number, or a new one if the stream decomposes it otherwise."""
        state, recorded = self.search.states[task][number], self.search.tasks[task]
        if cut is None or state.template is None or state.template.decomposition == cut:
            return state
        found = self._others.get((task, cut))
        if found is None:
            found = self._others[task, cut] = named(recorded, recorded[0].under(cut), self.search.ranks)
        return found

    def _number(self, task: int, cut: Any, way: int) -> int:
        """Return the number of the state with this decomposition or, for host functions, of this way."""
        every = self.search.states[task]
        if operations.known(self.search.tasks[task][0].operation):
            return next((k for k, state in enumerate(every)
                         if state.template is not None and state.template.decomposition == cut), 0)
        usual = [k for k, state in enumerate(every) if state.usual]
        return usual[way] if way < len(usual) else 0


def _foreseen(launch: PredictedLaunch, ahead: Any) -> tuple[Moved, int]:
    """Return what a launch or call moves, and the number of the way in which a host function is called."""
    stores, way = [store for store, _ in launch.stores], 0
    if not launch.layouts:
        moved = ahead.whole(stores)
    elif launch.together:
        moved = ahead.together(launch.layouts[0], stores)
    elif launch.called:
        way, moved = ahead.parts(launch.layouts, stores)
    else:
        moved = ahead.launch(launch.layouts[0], stores)
    if launch.called and not launch.layouts:
        ahead.wrote([store for store, written in launch.stores if written])
    return moved, way
