"""From the tasks of a region to the partition of each that moves the fewest bytes.

Every task that is large enough has states, the ways in which ranks can share it out; so has every array, or
each version of one that a task writes as a whole: where its elements lie.  What moves is counted between the
two, box by box and rank by rank, as the runtime will count it.  An array that goes into the region again as
it comes out of it is one variable at both ends, so that what is chosen is best for a loop around the region.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from diffuse.ir import ITEMSIZE, ONE, Frame, Privilege, covers, volume
from diffuse.ir.template import Recorded, Template
from diffuse.planning.boxes import Boxes, common, extended, held, hull, lacked, volumes
from diffuse.planning.eliminate import TooWide, eliminate
from diffuse.planning.integer import integer_program
from diffuse.planning.memory import Memory
from diffuse.planning.problem import Problem
from diffuse.planning.states import State, named, states
from diffuse.settings import config
from diffuse.stream.window import Window

MOST_LAYOUTS = 32
"""The most places in which the elements of one array may lie, of those that tasks ask for."""
HEAVY, HEAVIEST = 1.0 / 64, 1 << 12
"""What a byte of memory costs at first, in bytes that move, where a plan needs too much of it; and from where
on no dearer one is tried."""
TRIALS = 4000
"""How many choices are tried to lower the memory of one."""
LASTING = 0.125
"""What it weighs that a constant of a region moves, once it is known that the region comes again: its copies
stay where they are."""
MARGIN = 0.02
"""The share of its cost by which what the stream would do has to be bettered: small tasks are not counted."""
TIE = 1e-3
"""What a state costs by its number, in bytes: of equal ones the first is taken."""


@dataclass
class Array:
    """A version of a store in the region."""

    store: int
    frame: Frame
    given: bool
    """Does it come from outside?"""
    uses: list[tuple[int, int, bool]] = field(default_factory=list)
    """Task, use, and whether it is written whole there or anew: every use in order."""
    have: Any = None
    """What each rank holds of it before the region, if that is known and is not everything."""
    layouts: list[Boxes] = field(default_factory=list)

    @property
    def itemsize(self) -> int:
        return ITEMSIZE[self.frame.dtype]


class Chosen(NamedTuple):
    """What was chosen for a region."""

    templates: tuple[Template | None, ...]
    """For each task how it is cut; None where the stream decides as elsewhere."""
    bytes: float
    """What ranks receive in one turn of the region, by the count of the search."""
    default: float
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
        known: dict[Any, list[State]] = {}
        self.states: list[list[State]] = []
        for number, recorded in enumerate(tasks):
            hand = fixed[number] if fixed else None
            if hand is not None:
                self.states.append([named(recorded, hand, self.ranks)])
                continue
            key = recorded[0], (recorded[2] if recorded[2] and callable(recorded[2][0]) else None)
            if key not in known:
                known[key] = states(recorded, window)
            self.states.append(known[key])
        self.arrays: list[Array] = []
        self.now: dict[int, int] = {}
        """The last version of each store."""
        for number in range(len(tasks)):
            self._add(number)
        self.given = tuple([(a.store, k) for k, a in enumerate(self.arrays) if a.given])
        alive = window.stores.alive
        self.left = tuple([(store, k) for store, k in self.now.items() if store in alive])
        self.same = list(range(len(self.arrays)))
        first = dict(self.given)
        inside = [(k, first[store]) for store, k in self.left if store in first]
        self.back: set[int] = set()
        """Arrays from outside that the region itself left behind before."""
        for last, begin in (*[pair for pair in inside if pair[0] != pair[1]], *links):
            if self.arrays[last].frame == self.arrays[begin].frame:
                self._join(last, begin)
                self.back.add(begin)
        self.written = frozenset([k for k, a in enumerate(self.arrays) if a.given and any(
            [tasks[task][0].uses[use].privilege is not Privilege.READ for task, use, _ in a.uses])])
        self.lasting = [bool(links) and a.given and k not in self.written and k not in self.back
                        for k, a in enumerate(self.arrays)]
        """For each array: does it stay as it is, while the region comes again and again?"""
        self._lay_out()

    def _add(self, number: int) -> None:
        """Note what a task does with stores."""
        template, stores, *_ = self.tasks[number]
        frames = self.window.stores.storages
        for k, (use, store) in enumerate(zip(template.under(ONE).uses, stores, strict=True)):
            frame = frames[store]
            if volume(frame.shape) < 2 * config.min_chunk:
                continue
            whole = (use.privilege is not Privilege.READ and (use.frame, use.dtype) == frame
                     and covers(use.access(store)))
            if whole and use.privilege is not Privilege.READ_WRITE:
                self.now[store] = len(self.arrays)
                self.arrays.append(Array(store, frame, False))
            elif store not in self.now:
                self.now[store] = len(self.arrays)
                instance: Any = self.window.stores.instances.get(store)
                state = getattr(instance, "state", None)
                have = None if state is None or state.whole or state.shape != frame.shape else state.have
                self.arrays.append(Array(store, frame, True, have=have))
            if self.states[number]:
                self.arrays[self.now[store]].uses.append((number, k, whole))

    def _join(self, one: int, other: int) -> None:
        """Let two arrays be one variable."""
        low, high = sorted((self._variable(one), self._variable(other)))
        self.same[high] = low

    def _variable(self, array: int) -> int:
        while self.same[array] != array:
            array = self.same[array]
        return array

    def _lay_out(self) -> None:
        """Find the places in which arrays may lie: where tasks want them or make them in parts."""
        found: list[dict[bytes, Boxes]] = [{} for _ in self.arrays]
        for number, array in enumerate(self.arrays):
            mine, full = found[self._variable(number)], volume(array.frame.shape)
            for task, k, _ in array.uses:
                use = self.tasks[task][0].uses[k]
                if (use.frame, use.dtype) != (array.frame.shape, array.frame.dtype):
                    continue
                for state in self.states[task]:
                    boxes = extended(state.boxes[k], array.frame.shape)
                    if volumes(boxes).sum() == full:
                        mine.setdefault(boxes.tobytes(), boxes)
            if array.given and array.have is not None:
                layers = held(array.have, len(array.frame.shape))
                if len(layers) == 1 and volumes(layers[0]).sum() == full:
                    mine.setdefault(layers[0].tobytes(), layers[0])
        for number, array in enumerate(self.arrays):
            array.layouts = list(found[self._variable(number)].values())[:MOST_LAYOUTS]

    # -- the problem ---------------------------------------------------------------------------------------

    def problem(self, weights: Sequence[float] = (), lasting: float = LASTING
                ) -> tuple[Problem, dict[int, int], dict[int, int]]:
        """The tables of bytes, and the variables of arrays and tasks that have any.  `weights` multiply what
        moves of each array, `lasting` what moves of those that stay as they are."""
        variables: dict[int, int] = {}
        tasks: dict[int, int] = {}
        sizes: list[int] = []
        for number, found in enumerate(self.states):
            if found:
                tasks[number] = len(sizes)
                sizes.append(len(found))
        for number in range(len(self.arrays)):
            at = self._variable(number)
            if at not in variables and self.arrays[at].layouts:
                variables[at] = len(sizes)
                sizes.append(len(self.arrays[at].layouts))
        tables: dict[tuple[int, ...], Any] = {}

        def count(key: tuple[int, ...], table: Any) -> None:
            tables[key] = tables[key] + table if key in tables else table

        for number, v in tasks.items():
            count((v,), np.array([state.cost + TIE * k for k, state in enumerate(self.states[number])]))
        for number, array in enumerate(self.arrays):
            place = variables.get(self._variable(number))
            if place is None:
                continue
            weight = (weights[number] if weights else 1.0) * (lasting if self.lasting[number] else 1.0)
            if array.have is not None and number not in self.back:
                count((place,), weight * self._entry(array))
            names = self._reads(array)
            alike = Counter(names)
            for name, (task, k, whole) in zip(names, array.uses, strict=True):
                share = weight / alike[name]
                count((tasks[task], place), share * self._moved(task, k, array, whole).sum(-1))
        return Problem(sizes, list(tables.items())), tasks, variables

    def _reads(self, array: Array) -> list[Any]:
        """For each use of an array what it reads of it, and after how many writes: what is alike a rank
        receives once."""
        found, writes = [], 0
        for task, k, _ in array.uses:
            use = self.tasks[task][0].uses[k]
            if use.privilege is not Privilege.READ:
                writes += 1
            found.append((writes, use.map if use.privilege is Privilege.READ else None))
        return found

    def _entry(self, array: Array) -> Any:
        """The bytes that move until an array from outside lies somewhere, by layouts."""
        lies = np.stack(array.layouts)
        there = sum([common(lies, layer[None]) for layer in held(array.have, len(array.frame.shape))])
        return array.itemsize * (volumes(lies) - there).sum(-1)

    def _moved(self, task: int, k: int, array: Array, whole: bool) -> Any:
        """The bytes that each rank receives for one use of an array, by states of the task and layouts."""
        use = self.tasks[task][0].uses[k]
        touched = np.stack([state.boxes[k] for state in self.states[task]])
        lies = np.stack(array.layouts)
        if (use.frame, use.dtype) != (array.frame.shape, array.frame.dtype):
            return self._elsewhere(touched, lies, array, use)
        steps = [abs(step) for _, terms in use.map.rows for _, step in terms if step]
        sparse = float(np.prod([1.0 / step for step in steps])) if steps else 1.0
        if use.privilege is Privilege.READ:
            return sparse * array.itemsize * lacked(touched, lies)
        written = np.stack([hull(boxes) for boxes in touched])
        wanted = common(written[:, None], lies[None]) if not whole else np.broadcast_to(
            volumes(lies)[None], (len(touched), *lies.shape[:2]))
        return sparse * array.itemsize * np.maximum(wanted - common(touched[:, None], lies[None]), 0.0)

    def _elsewhere(self, touched: Boxes, lies: Boxes, array: Array, use: Any) -> Any:
        """The same for a use that sees the memory of an array in another shape: in runs of memory."""
        total = volume(array.frame.shape) * array.itemsize
        one = _run(touched, use.frame, total)
        other = _run(lies, array.frame.shape, total)
        shared = np.maximum(np.minimum(one[:, None, :, 1], other[None, :, :, 1])
                            - np.maximum(one[:, None, :, 0], other[None, :, :, 0]), 0.0)
        parts = volumes(touched) * ITEMSIZE[use.dtype]
        return np.maximum(parts[:, None] - shared, 0.0)

    # -- the answer ----------------------------------------------------------------------------------------

    def solve(self, memory: int | None = None) -> Chosen:
        """Choose for the fewest bytes, within so many bytes of memory on each rank.

        MemoryError, with the least that was found to do, if no plan needs so little.
        """
        problem, tasks, _ = self.problem()
        default = self._default(problem, tasks)
        choice = _solved(problem)
        usual = problem.cost(default)
        if problem.cost(choice) >= usual - max(1.0, MARGIN * usual):
            choice = default
        footprint = Memory(self, self.gone)
        least, best = footprint.peak(self._states(choice, tasks)), choice
        heavy = HEAVY
        while memory is not None and least > memory and heavy < HEAVIEST:
            choice, heavy = _solved(self._weighed(problem, tasks, heavy)), 4.0 * heavy
            peak = footprint.peak(self._states(choice, tasks))
            if peak < least:
                least, best = peak, choice
        if memory is not None and least > memory:
            least, best = self._lowered(least, best, tasks, footprint)
            best = self._placed(problem, tasks, best)
        if memory is not None and least > memory:
            raise MemoryError(f"no partition of these {len(self.tasks)} operations over {self.ranks} ranks "
                              f"is found within memory={memory} bytes a rank: the least that would do is "
                              f"{least}")
        return self._chosen(best, default, least, tasks)

    def _states(self, choice: Sequence[int], tasks: dict[int, int]) -> list[int]:
        """The state of each task; 0 for one that has none."""
        return [choice[tasks[number]] if number in tasks else 0 for number in range(len(self.tasks))]

    def _weighed(self, problem: Problem, tasks: dict[int, int], heavy: float) -> Problem:
        """The problem in which each byte that a task touches on a rank costs so much besides."""
        tables = []
        for number, v in tasks.items():
            uses = self.tasks[number][0].uses
            touched = [sum([volumes(boxes).max() * ITEMSIZE[use.dtype] for use, boxes in
                            zip(uses, state.boxes, strict=True)]) for state in self.states[number]]
            tables.append(((v,), heavy * self.ranks * np.array(touched)))
        return Problem(problem.sizes, [*problem.tables, *tables])

    def _lowered(self, peak: int, choice: list[int], tasks: dict[int, int], footprint: Memory
                 ) -> tuple[int, list[int]]:
        """A choice of lower peak, as far as changes of one task's state, or of those of two tasks that use
        one array, find one."""
        pairs = {(tasks[one], tasks[other]) for array in self.arrays
                 for (one, *_), (other, *_) in pairwise(array.uses) if one != other}
        moves = [*[(v,) for v in tasks.values()], *sorted(pairs)]
        sizes = {v: len(self.states[number]) for number, v in tasks.items()}
        left, again = TRIALS, True
        while again and left > 0:
            again = False
            for move in moves:
                for ways in product(*[range(sizes[v]) for v in move]):
                    trial = list(choice)
                    for v, state in zip(move, ways, strict=True):
                        trial[v] = state
                    found, left = footprint.peak(self._states(trial, tasks)), left - 1
                    if found < peak:
                        peak, choice, again = found, trial, True
                    if left <= 0:
                        return peak, choice
        return peak, choice

    def _default(self, problem: Problem, tasks: dict[int, int]) -> list[int]:
        """The best places for arrays where each task is shared out as the stream would."""
        return self._placed(problem, tasks, [0] * len(problem.sizes))

    def _placed(self, problem: Problem, tasks: dict[int, int], choice: Sequence[int]) -> list[int]:
        """The best places for arrays where each task is in this state."""
        fixed = {v: choice[v] for v in tasks.values()}
        tables = []
        for variables, table in problem.tables:
            index = tuple([slice(fixed[v], fixed[v] + 1) if v in fixed else slice(None) for v in variables])
            tables.append((variables, table[index]))
        sizes = [1 if v in fixed else n for v, n in enumerate(problem.sizes)]
        found = _solved(Problem(sizes, tables))
        return [fixed.get(v, state) for v, state in enumerate(found)]

    def _chosen(self, choice: Sequence[int], default: Sequence[int], peak: int, tasks: dict[int, int]
                ) -> Chosen:
        found: list[Template | None] = []
        words = []
        for number, every in enumerate(self.states):
            state = every[choice[tasks[number]]] if every else None
            found.append(None if state is None else state.template)
            words.append("-" if state is None else state.grid)
        turn = self.problem(lasting=0.0)[0]
        moved = [turn.cost(each) - sum([every[each[tasks[n]]].work + TIE * each[tasks[n]]
                                        for n, every in enumerate(self.states) if every])
                 for each in (choice, default)]
        slots: dict[int, int] = {}
        for task in self.tasks:
            for store in task[1]:
                slots.setdefault(store, len(slots))
        return Chosen(tuple(found), moved[0], moved[1], peak, tuple(words),
                      tuple([(slots[store], k) for store, k in self.given]),
                      tuple([(slots[store], k) for store, k in self.now.items()]), self.written)


def _run(boxes: Boxes, shape: tuple[int, ...], total: int) -> Any:
    """Boxes as runs of bytes of an array's memory, from the first to the last that they touch."""
    pitch = np.append(np.cumprod(np.array(shape[::-1], np.float64))[::-1], 1.0)[1:]
    item = total / max(1, volume(shape))
    low, high = (boxes[..., 0] * pitch).sum(-1), ((boxes[..., 1] - 1) * pitch).sum(-1) + 1
    empty = volumes(boxes) == 0
    return np.stack([np.where(empty, 0.0, low), np.where(empty, 0.0, high)], -1) * item


def _solved(problem: Problem) -> list[int]:
    if not problem.sizes:
        return []
    try:
        return eliminate(problem, 1 << 22)
    except TooWide:
        return integer_program(problem)
