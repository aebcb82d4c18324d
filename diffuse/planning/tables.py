"""The seconds that each choice for a region costs, as tables over its tasks and arrays.

A task costs what the largest share of it takes to compute, and what its partial results take to be added up.
A use of an array costs the bytes and messages that move between where the array lies and where the task
touches it; where any move, the task cannot fuse with the one that makes the array, which then is written to
memory and read again.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from diffuse.ir import ITEMSIZE, Privilege, volume
from diffuse.kernels.body import operations
from diffuse.movement.machine import Machine
from diffuse.planning.boxes import Boxes, common, crossed, held, hull, lacked, volumes
from diffuse.planning.problem import Problem
from diffuse.planning.states import State
from diffuse.runtime.base import Moved

if TYPE_CHECKING:
    from diffuse.planning.windows import Array, Search

LASTING = 0.125
"""What it weighs that a constant of a region moves, once it is known that the region comes again: its copies
stay where they are."""
TIE = 1e-13
"""What a state costs by its number, in seconds: of equal ones the first is taken."""


class Tables:
    """The costs of one region on one machine."""

    def __init__(self, search: Search, machine: Machine) -> None:
        self.search, self.machine, self.ranks = search, machine, search.ranks
        left = {array for _, array in search.left}
        self._fusible = [not array.given for array in search.arrays]
        """May a reader of an array fuse with the task that makes it?"""
        self._kept = [k in left for k in range(len(search.arrays))]
        """Does the program look at an array later, so that it is written to memory in any case?"""
        self._stacked: dict[int, Boxes] = {}
        self._same: dict[object, Boxes] = {}
        self._counts: dict[object, tuple[Any, Any]] = {}
        """For each kind of use the bytes that all ranks receive, and the messages of the busiest one."""

    def problem(self, latency: bool = True) -> tuple[Problem, dict[int, int]]:
        """The tables of seconds, with messages or without, and the variables of tasks; arrays have variables,
        too.  Messages of one launch travel together, which tables do not see, and so count too many."""
        search = self.search
        variables: dict[int, int] = {}
        tasks: dict[int, int] = {}
        sizes: list[int] = []
        for number, found in enumerate(search.states):
            if found:
                tasks[number] = len(sizes)
                sizes.append(len(found))
        for number in range(len(search.arrays)):
            at = search.variable(number)
            if at not in variables and search.arrays[at].layouts:
                variables[at] = len(sizes)
                sizes.append(len(search.arrays[at].layouts))
        tables: dict[tuple[int, ...], Any] = {}

        def count(key: tuple[int, ...], table: Any) -> None:
            tables[key] = tables[key] + table if key in tables else table

        for number, v in tasks.items():
            count((v,), np.array([self.alone(state) + TIE * k for k, state in enumerate(
                search.states[number])]))
        for number, array in enumerate(search.arrays):
            place = variables.get(search.variable(number))
            if place is None:
                continue
            weight = LASTING if search.lasting[number] else 1.0
            if array.have is not None and number not in search.back:
                count((place,), weight * self._moving(self._entry(array), 0.0))
            names = _reads(search, array)
            alike = Counter(names)
            for name, (task, k, whole) in zip(names, array.uses, strict=True):
                share = weight / alike[name]
                count((tasks[task], place), share * self._used(task, k, number, whole, latency))
        return Problem(sizes, list(tables.items())), tasks

    # -- in seconds ----------------------------------------------------------------------------------------

    def alone(self, state: State) -> float:
        """The seconds that a state costs wherever arrays lie."""
        return self.work(state) + self.beside(state)

    def work(self, state: State) -> float:
        """The seconds in which a state is computed, and its partial results are added up."""
        machine = self.machine
        return (max(state.results / machine.compute, state.multiplied / machine.products)
                + state.beside / self.ranks / machine.reduction)

    def least(self) -> float:
        """The seconds that remain if nothing moves, and each task is shared out as evenly as can be."""
        return sum([min(map(self.work, found)) for found in self.search.states if found])

    def _moving(self, moved: Any, messages: Any) -> Any:
        """The seconds in which all ranks together receive so many bytes, and the busiest one so many
        messages."""
        return moved / (self.ranks * self.machine.bandwidth) + messages * self.machine.latency

    def busy(self, moved: Moved) -> float:
        """The seconds in which the busiest rank sends or receives what a launch moves."""
        return self.machine.seconds(moved.messages, moved.busiest)

    def beside(self, state: State) -> float:
        """The seconds in which a state moves what it moves beside operands."""
        rest = max(0.0, state.beside - state.chain)
        return float(self._moving(rest, state.messages)) + state.chain / self.machine.bandwidth

    def unfused(self, task: int, number: int) -> float:
        """The seconds that it costs if a task that reads this array cannot fuse with the one that makes
        it."""
        array = self.search.arrays[number]
        if not self._fusible[number] or not operations.known(self.search.tasks[task][0].operation):
            return 0.0
        passes = 1 if self._kept[number] else 2
        return passes * volume(array.frame.shape) * array.itemsize / (self.ranks * self.machine.memory)

    # -- in bytes ------------------------------------------------------------------------------------------

    def _entry(self, array: Array) -> Any:
        """The bytes that move until an array from outside lies somewhere, by layouts."""
        lies = np.stack(array.layouts)
        there = sum([common(lies, layer[None]) for layer in held(array.have, len(array.frame.shape))])
        return array.itemsize * (volumes(lies) - there).sum(-1)

    def _used(self, task: int, k: int, number: int, whole: bool, latency: bool) -> Any:
        """The seconds of one use of an array, by states of the task and layouts."""
        search, array = self.search, self.search.arrays[number]
        use = search.tasks[task][0].uses[k]
        lies = self._lies(search.variable(number))
        key = id(search.states[task]), k, array.frame, id(lies), whole
        found = self._counts.get(key)
        if found is None:
            touched = np.stack([state.boxes[k] for state in search.states[task]])
            moved = self._moved(touched, lies, use, array, whole)
            alike = (use.frame, use.dtype) == (array.frame.shape, array.frame.dtype)
            found = self._counts[key] = moved, np.where(
                moved > 0, crossed(touched, lies) if alike else 1.0, 0.0)
        moved, messages = found
        makes = whole or use.privilege is Privilege.READ
        lost = self.unfused(task, number) if makes and use.frame == array.frame.shape else 0.0
        return self._moving(moved, messages if latency else 0.0) + np.where(moved > 0, lost, 0.0)

    def _lies(self, variable: int) -> Boxes:
        """The layouts of an array, as one object for all arrays with the same."""
        found = self._stacked.get(variable)
        if found is None:
            made = np.stack(self.search.arrays[variable].layouts)
            found = self._stacked[variable] = self._same.setdefault((made.shape, made.tobytes()), made)
        return found

    def _moved(self, touched: Boxes, lies: Boxes, use: Any, array: Array, whole: bool) -> Any:
        """The bytes that all ranks receive for one use of an array, by states of the task and layouts."""
        if (use.frame, use.dtype) != (array.frame.shape, array.frame.dtype):
            return _elsewhere(touched, lies, array, use).sum(-1)
        share = _share(use) * array.itemsize
        if use.privilege is Privilege.READ:
            return share * lacked(touched, lies).sum(-1)
        written = np.stack([hull(boxes) for boxes in touched])
        wanted = common(written[:, None], lies[None]) if not whole else np.broadcast_to(
            volumes(lies)[None], (len(touched), *lies.shape[:2]))
        return share * np.maximum(wanted - common(touched[:, None], lies[None]), 0.0).sum(-1)


def _share(use: Any) -> float:
    """The share of the elements within its bounds that a use with steps touches."""
    steps = [abs(step) for _, terms in use.map.rows for _, step in terms if step]
    return float(prod([1.0 / step for step in steps]))


def _reads(search: Search, array: Array) -> list[Any]:
    """For each use of an array what it reads of it, and after how many writes: what is alike a rank receives
    once."""
    found, writes = [], 0
    for task, k, _ in array.uses:
        use = search.tasks[task][0].uses[k]
        if use.privilege is not Privilege.READ:
            writes += 1
        found.append((writes, use.map if use.privilege is Privilege.READ else None))
    return found


def _elsewhere(touched: Boxes, lies: Boxes, array: Array, use: Any) -> Any:
    """The bytes that each rank receives for a use that sees the memory of an array in another shape: in runs
    of memory."""
    total = volume(array.frame.shape) * array.itemsize
    one = runs(touched, use.frame, total)
    other = runs(lies, array.frame.shape, total)
    shared = np.maximum(np.minimum(one[:, None, :, 1], other[None, :, :, 1])
                        - np.maximum(one[:, None, :, 0], other[None, :, :, 0]), 0.0)
    parts = volumes(touched) * ITEMSIZE[use.dtype]
    return np.maximum(parts[:, None] - shared, 0.0)


def runs(boxes: Boxes, shape: tuple[int, ...], total: int) -> Any:
    """Boxes as runs of bytes of an array's memory, from the first to the last that they touch."""
    pitch = np.append(np.cumprod(np.array(shape[::-1], np.float64))[::-1], 1.0)[1:]
    item = total / max(1, volume(shape))
    low, high = (boxes[..., 0] * pitch).sum(-1), ((boxes[..., 1] - 1) * pitch).sum(-1) + 1
    empty = volumes(boxes) == 0
    return np.stack([np.where(empty, 0.0, low), np.where(empty, 0.0, high)], -1) * item
