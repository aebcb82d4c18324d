"""Computes how much memory the arrays of a region take on each rank, for one state of each task.

A rank's memory for an array is what it writes of the array and what it receives, which stays where it was
received.  It takes this memory from the first task that touches the elements until no later task uses the
array and the program has dropped it.  Tasks that are cut alike may become one launch: the arrays that they
find, and the results of folds, then keep their memory until the last of them.  The memory of the program's
other arrays, and what arrays had before the region, counts throughout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from diffuse.bounded import Bounded
from diffuse.ir import ITEMSIZE, Frame, volume
from diffuse.kernels.body import operations
from diffuse.planning.boxes import Boxes, around, volumes
from diffuse.planning.boxes import held as layers

if TYPE_CHECKING:
    from diffuse.planning.windows import Search

KNOWN = 1 << 14
"""Arrays under choices whose memory is remembered."""


class Stored(NamedTuple):
    """One store that the region uses."""

    frame: Frame
    uses: tuple[tuple[int, int], ...]
    """Tasks, and their uses of it."""
    before: Any
    """The bytes that each rank has of it before the region."""
    there: list[Boxes]
    """Where these are."""
    end: int
    """The first task before which the program has let go of it."""


class Footprint:
    """The memory that one region takes under some choice of states."""

    def __init__(self, search: Search, gone: Mapping[int, int]) -> None:
        """`gone` are stores that the program let go of, with the number of the tasks before."""
        self.search = search
        instances, none = search.window.stores.instances, np.zeros(search.ranks)
        self.besides = sum([held(instance, search.ranks)[0] for instance in instances.values()], none)
        """The bytes of arrays before the region."""
        uses: dict[int, list[tuple[int, int]]] = {}
        for array in search.arrays:
            uses.setdefault(array.store, []).extend([(task, k) for task, k, _ in array.uses])
        frames = search.window.stores.storages
        self.stores = [
            Stored(frames[store], tuple(found), *held(instances.get(store), search.ranks),
                   len(search.tasks) if store in instances else gone.get(store, len(search.tasks)))
            for store, found in uses.items() if found]
        self.small: dict[int, tuple[int, int, int]] = {}
        """New stores that ranks do not share: their first task, the one after the last, and their bytes."""
        for number, task in enumerate(search.tasks):
            for store in task[1]:
                if not uses.get(store) and store not in instances:
                    first = self.small[store][0] if store in self.small else number
                    frame = frames[store]
                    self.small[store] = (first, max(number + 1, gone.get(store, len(search.tasks))),
                                         volume(frame.shape) * ITEMSIZE[frame.dtype])
        self._vanishes = [operations.known(name := template.operation) and operations.find(name).elementwise
                          for template, *_ in search.tasks]
        """May what a task makes be a temporary of a launch, without memory?"""
        self._known: dict[tuple[int, tuple[int, ...]], list[tuple[int, Any]]] = Bounded(KNOWN)

    def peak(self, states: Sequence[int]) -> int:
        """Return the most bytes that a rank has at any task, where each task is in this state."""
        total = np.zeros((len(self.search.tasks) + 1, self.search.ranks)) + self.besides
        for first, end, nbytes in self.small.values():
            total[first:end] += nbytes
        runs = self._runs(states)
        for number, stored in enumerate(self.stores):
            key = number, tuple([states[task] for task, _ in stored.uses])
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = self._taken(stored, states)
            (first, _), (last, _) = stored.uses[0], stored.uses[-1]
            low, high = runs[last]
            stays = first < low or stored.before.any() or not self._vanishes[first]
            end = max(stored.end, last + 1, high if stays else 0)
            for task, more in found:
                total[task:end] += more
        return int(np.ceil(total.max()))

    def _runs(self, states: Sequence[int]) -> list[tuple[int, int]]:
        """Return for each task the run of neighbouring tasks that are cut as it is: its first task, and the
        one after its last."""
        found: list[tuple[int, int]] = []
        before: object = None
        first = 0
        for number, every in enumerate(self.search.states):
            template = every[states[number]].template if every else None
            now = None if template is None else template.decomposition
            if every and now != before:
                found += [(first, number)] * (number - first)
                first, before = number, now
        return found + [(first, len(self.search.states))] * (len(self.search.states) - first)

    def _taken(self, stored: Stored, states: Sequence[int]) -> list[tuple[int, Any]]:
        """Return the tasks before which a store takes more memory, and how much more on each rank."""
        search, frame = self.search, stored.frame
        item, found = ITEMSIZE[frame.dtype], []
        full, now = volume(frame.shape) * item, stored.before
        touched: dict[Any, Boxes] = {}
        apart = np.zeros(search.ranks)
        alike = True
        for task, k in stored.uses:
            use, boxes = search.tasks[task][0].uses[k], search.states[task][states[task]].boxes[k]
            if (name := (use.frame, boxes.tobytes())) in touched:
                continue
            touched[name] = boxes
            alike = alike and (use.frame, use.dtype) == (frame.shape, frame.dtype)
            apart = apart + volumes(boxes) * ITEMSIZE[use.dtype]
            within = volumes(around([*stored.there, *touched.values()])) * item if alike else full
            after = np.maximum(now, np.minimum(np.minimum(stored.before + apart, within), full))
            if (after > now).any():
                found.append((task, after - now))
                now = after
        return found


def held(instance: Any, ranks: int) -> tuple[Any, list[Boxes]]:
    """Return the bytes of memory that each rank has touched of a store, and the boxes of these elements."""
    state = getattr(instance, "state", None)
    if state is None:
        return np.zeros(ranks), []
    return np.array(state.bytes, np.float64), layers(state.touched, len(state.shape))
