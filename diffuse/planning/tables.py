"""The cost model of a planned region: tables of seconds over states of its tasks and layouts of arrays.

A task costs the time to compute its largest share and to add up its partial results.  A use of an array costs
the time of the bytes and messages between the array's layout and the elements that the task accesses.  If any
element moves, the task cannot fuse with the one that writes the array, and the time to write the array to
memory and to read it again is added.
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
from diffuse.planning.states import OperationState
from diffuse.runtime.base import Moved

if TYPE_CHECKING:
    from diffuse.planning.windows import Search, Version

LASTING = 0.125
"""The weight of the bytes of an array that a repeated region only reads: its copies stay on the ranks, so
that only the first turn moves them."""
TIE = 1e-13
"""Seconds that are added to a state for each one before it, so that of equal states the first is taken."""


class Tables:
    """Computes the costs of one region on one machine."""

    def __init__(self, search: Search, machine: Machine) -> None:
        self.search, self.machine, self.ranks = search, machine, search.ranks
        left = {array for _, array in search.left}
        self._fusible = [not array.given for array in search.arrays]
        """For each array: may a task that reads it fuse with the one that writes it?"""
        self._kept = [k in left for k in range(len(search.arrays))]
        """For each array: does the program hold it after the region, so that memory gets it anyway?"""
        self._stacked: dict[int, Boxes] = {}
        self._same: dict[object, Boxes] = {}
        self._counts: dict[object, tuple[Any, Any]] = {}
        """For each kind of use the bytes that all ranks receive, and the messages of the busiest one."""

    def problem(self, latency: bool = True) -> tuple[Problem, dict[int, int]]:
        """Return the problem of least time, and the variable of each task; the other variables are arrays.

        `latency`: messages count.  They count too much, since the tables count the messages of each use,
        while those of one launch travel together.
        """
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

    def alone(self, state: OperationState) -> float:
        """Return the seconds that a state takes, whatever the layouts of arrays."""
        return self.work(state) + self.beside(state)

    def work(self, state: OperationState) -> float:
        """Return the seconds to compute a state's largest share, and to add up its partial results."""
        machine = self.machine
        return (max(state.results / machine.compute, state.multiplied / machine.products)
                + state.beside / self.ranks / machine.reduction)

    def least(self) -> float:
        """Return the seconds of a region in which nothing moves and each task is shared out most evenly."""
        return sum([min(map(self.work, found)) for found in self.search.states if found])

    def _moving(self, moved: Any, messages: Any) -> Any:
        """Convert the bytes that all ranks receive, and the messages of the busiest rank, to seconds."""
        return moved / (self.ranks * self.machine.bandwidth) + messages * self.machine.latency

    def busy(self, moved: Moved) -> float:
        """Return the seconds in which the busiest rank sends or receives its messages of a launch."""
        return self.machine.seconds(moved.messages, moved.busiest)

    def beside(self, state: OperationState) -> float:
        """Return the seconds in which a state moves what are no operands, such as partial results."""
        rest = max(0.0, state.beside - state.chain)
        return float(self._moving(rest, state.messages)) + state.chain / self.machine.bandwidth

    def unfused(self, task: int, number: int) -> float:
        """Return the seconds that are lost if a task that reads this array does not fuse with the one that
        writes it."""
        array = self.search.arrays[number]
        if not self._fusible[number] or not operations.known(self.search.tasks[task][0].operation):
            return 0.0
        passes = 1 if self._kept[number] else 2
        return passes * volume(array.frame.shape) * array.itemsize / (self.ranks * self.machine.memory)

    # -- in bytes ------------------------------------------------------------------------------------------

    def _entry(self, array: Version) -> Any:
        """Return the bytes that bring an array from outside into each of its layouts."""
        lies = np.stack(array.layouts)
        there = sum([common(lies, layer[None]) for layer in held(array.have, len(array.frame.shape))])
        return array.itemsize * (volumes(lies) - there).sum(-1)

    def _used(self, task: int, k: int, number: int, whole: bool, latency: bool) -> Any:
        """Return the seconds of one use of an array, by states of the task and layouts of the array."""
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
        """Return the layouts of an array as boxes: one object for all arrays with equal layouts."""
        found = self._stacked.get(variable)
        if found is None:
            made = np.stack(self.search.arrays[variable].layouts)
            found = self._stacked[variable] = self._same.setdefault((made.shape, made.tobytes()), made)
        return found

    def _moved(self, touched: Boxes, lies: Boxes, use: Any, array: Version, whole: bool) -> Any:
        """Return the bytes that all ranks receive for one use of an array, by states and layouts."""
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
    """Return the share of elements within its bounds that a use with steps accesses."""
    steps = [abs(step) for _, terms in use.map.rows for _, step in terms if step]
    return float(prod([1.0 / step for step in steps]))


def _reads(search: Search, array: Version) -> list[Any]:
    """Return for each use of an array a key: the number of writes before it, and the view that it reads.

    A rank receives the data of uses with equal keys once.
    """
    found, writes = [], 0
    for task, k, _ in array.uses:
        use = search.tasks[task][0].uses[k]
        if use.privilege is not Privilege.READ:
            writes += 1
        found.append((writes, use.map if use.privilege is Privilege.READ else None))
    return found


def _elsewhere(touched: Boxes, lies: Boxes, array: Version, use: Any) -> Any:
    """Return the bytes that each rank receives for a use that views an array's memory in another shape.

    They are counted as runs of memory.
    """
    total = volume(array.frame.shape) * array.itemsize
    one = runs(touched, use.frame, total)
    other = runs(lies, array.frame.shape, total)
    shared = np.maximum(np.minimum(one[:, None, :, 1], other[None, :, :, 1])
                        - np.maximum(one[:, None, :, 0], other[None, :, :, 0]), 0.0)
    parts = volumes(touched) * ITEMSIZE[use.dtype]
    return np.maximum(parts[:, None] - shared, 0.0)


def runs(boxes: Boxes, shape: tuple[int, ...], total: int) -> Any:
    """Convert boxes to runs of bytes of an array's memory, from their first element to their last."""
    pitch = np.append(np.cumprod(np.array(shape[::-1], np.float64))[::-1], 1.0)[1:]
    item = total / max(1, volume(shape))
    low, high = (boxes[..., 0] * pitch).sum(-1), ((boxes[..., 1] - 1) * pitch).sum(-1) + 1
    empty = volumes(boxes) == 0
    return np.stack([np.where(empty, 0.0, low), np.where(empty, 0.0, high)], -1) * item
