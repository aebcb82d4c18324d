"""What moves when tasks run under some choice, followed box by box as ranks follow it.

The tables of a search know one place for each array.  Here ranks hold what they wrote and received until
somebody writes it again, as they do when the region runs; and a call of a host function that the stream
itself would cut in one of several ways is cut in the way that moves least just then.  So this tells what the
stream would do, and is what the answer of a search and the stream's own cuts are compared by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from diffuse.ir import ITEMSIZE, Point, Privilege, volume
from diffuse.ir.bounded import Bounded
from diffuse.kernels.body import operations
from diffuse.movement.boxes import Box, Holding, Layout, remove, size
from diffuse.movement.direct import exchange
from diffuse.planning.tables import Tables, runs

if TYPE_CHECKING:
    from diffuse.planning.states import State
    from diffuse.planning.windows import Search

TURNS = 3
"""After so many turns of a region that comes again the next ones are alike."""
MOST_BOXES = 64
"""With more boxes on a rank copies that other ranks also have are forgotten."""
KNOWN = 1 << 12


Wanted = dict[int, tuple[Layout, Layout]]
"""For arrays of which something moves what ranks had, and what they lack."""


class Turn(NamedTuple):
    """One turn of a region."""

    states: tuple[int, ...]
    """The state of each task."""
    bytes: float
    """What all ranks receive."""
    moving: float
    """The seconds in which it moves."""
    seconds: float
    """The seconds of the turn, work included."""


class Replay:
    """The turns of one region."""

    def __init__(self, search: Search, tables: Tables) -> None:
        self.search, self.tables = search, tables
        self._uses: list[list[tuple[int, int, bool]]] = [[] for _ in search.tasks]
        """For each task the arrays that it uses, with the number of the use, and whether it writes them
        whole."""
        for number, array in enumerate(search.arrays):
            for task, k, whole in array.uses:
                self._uses[task].append((number, k, whole))
        for uses in self._uses:
            uses.sort(key=lambda use: use[1])
        self._boxes: dict[tuple[int, int, bytes], Layout] = {}
        self._lacking: dict[tuple[Layout, Layout], Layout] = Bounded(KNOWN)
        self._pairs: dict[tuple[Layout, Layout], frozenset[tuple[int, int]]] = Bounded(KNOWN)

    def usual(self) -> Turn:
        """A turn as the stream itself would cut its tasks."""
        return self._run(None)

    def under(self, states: Sequence[int]) -> Turn:
        """A turn in which each task has this state."""
        return self._run(states)

    def _run(self, states: Sequence[int] | None) -> Turn:
        search = self.search
        have: list[Layout] = []
        for array in search.arrays:
            everywhere = ((tuple(map(range, array.frame.shape)),),) * search.ranks
            have.append(everywhere if array.have is None else tuple(map(tuple, array.have)))
        begun = list(have)
        again = bool(search.back) or any(search.lasting)
        for _ in range(TURNS if again else 1):
            turn = self._turn(states, have)
            for number, array in enumerate(search.arrays):
                if not array.given:
                    have[number] = begun[number]
            for last, begin in search.returning:
                have[begin] = self._last[last]
        return turn

    def _turn(self, states: Sequence[int] | None, have: list[Layout]) -> Turn:
        """One turn, which changes what ranks have."""
        search, tables = self.search, self.tables
        taken, total, moving, seconds = [], 0.0, 0.0, 0.0
        launch: object = None
        wanted: Wanted = {}
        for task, every in enumerate(search.states):
            if not every:
                taken.append(0)
                continue
            at = self._cheapest(task, have) if states is None else states[task]
            state = every[at]
            taken.append(at)
            if (now := self._launch(task, state)) is None or now != launch:
                moving += tables.moving(0.0, self._messages(wanted))
                launch, wanted = now, {}
            total += state.beside
            moving += tables.beside(state)
            seconds += tables.alone(state) - tables.beside(state)
            for number, k, _ in self._uses[task]:
                pieces = self._lacked(task, state, number, k, have)
                if any(pieces):
                    moved = sum(map(size, pieces)) * search.arrays[number].itemsize
                    total += moved
                    moving += tables.moving(moved, 0.0)
                    seconds += tables.unfused(task, number)
                    had, before = wanted.get(number, (have[number], ((),) * search.ranks))
                    wanted[number] = had, _joined(before, pieces)
                    have[number] = _bounded(_joined(have[number], pieces))
            for number, k, whole in self._uses[task]:
                if search.tasks[task][0].uses[k].privilege is not Privilege.READ:
                    have[number] = _written(have[number], self._touched(task, state, number, k), whole)
        moving += tables.moving(0.0, self._messages(wanted))
        self._last = list(have)
        return Turn(tuple(taken), total, moving, seconds + moving)

    def _messages(self, wanted: Wanted) -> int:
        """The messages that the busiest rank sends or receives before a launch: one for each other rank."""
        pairs: set[tuple[int, int]] = set()
        for key in wanted.values():
            found = self._pairs.get(key)
            if found is None:
                found = self._pairs[key] = frozenset([
                    (sender, receiver) for receiver, pieces in enumerate(exchange(*key).arrivals)
                    for sender, _ in pieces])
            pairs |= found
        return max([count for side in (0, 1) for count in Counter([pair[side] for pair in pairs]).values()],
                   default=0)

    def _launch(self, task: int, state: State) -> object:
        """What tasks have in common that may be one launch, whose messages travel together."""
        template = state.template
        known = template is not None and operations.known(template.operation)
        return template.decomposition if known and template is not None else None

    def _cheapest(self, task: int, have: Sequence[Layout]) -> int:
        """The way that the stream takes: of several that are usual the one that moves least now."""
        search = self.search
        every = search.states[task]
        usual = [k for k, state in enumerate(every) if state.usual] or [0]
        if len(usual) == 1:
            return usual[0]
        return min(usual, key=lambda k: (sum([
            sum(map(size, self._lacked(task, every[k], number, use, have))) * search.arrays[number].itemsize
            for number, use, _ in self._uses[task]]), k))

    def _lacked(self, task: int, state: State, number: int, k: int, have: Sequence[Layout]) -> Layout:
        """What each rank has to receive for a use of an array."""
        if self.search.tasks[task][0].uses[k].privilege in (Privilege.WRITE, Privilege.REDUCE):
            return ((),) * self.search.ranks
        key = have[number], self._touched(task, state, number, k)
        found = self._lacking.get(key)
        if found is None:
            found = self._lacking[key] = tuple([tuple(remove(wanted, held))
                                                for held, wanted in zip(*key, strict=True)])
        return found

    def _touched(self, task: int, state: State, number: int, k: int) -> Layout:
        """What each rank touches of an array, in the array's own shape."""
        boxes, use = state.boxes[k], self.search.tasks[task][0].uses[k]
        frame = self.search.arrays[number].frame
        steps = () if use.frame != frame.shape else tuple([
            abs(terms[0][1]) if len(terms) == 1 and use.map.shape[terms[0][0]] > 1 else 1
            for _, terms in use.map.rows])
        name = task, k, boxes.tobytes()
        found = self._boxes.get(name)
        if found is None:
            if (use.frame, use.dtype) == (frame.shape, frame.dtype):
                found = tuple([_box(box, steps) for box in boxes.tolist()])
            else:
                item = ITEMSIZE[frame.dtype]
                found = tuple([_line(int(low) // item, -(-int(high) // item), frame.shape) for low, high in
                               runs(boxes, use.frame, volume(frame.shape) * item).tolist()])
            self._boxes[name] = found
        return found


def _joined(one: Layout, other: Layout) -> Layout:
    return tuple([(*a, *b) for a, b in zip(one, other, strict=True)])


def _box(box: Sequence[Sequence[int]], steps: Sequence[int]) -> Holding:
    """The elements within bounds, along dimensions that are gone through in such steps."""
    if any([low >= high for low, high in box]):
        return ()
    return (tuple([range(low, high, max(1, step)) for (low, high), step in zip(box, steps, strict=True)]),)


def _line(low: int, high: int, shape: Point) -> Holding:
    """The least box around a run of elements in an array's order."""
    if low >= high:
        return ()
    box: list[range] = []
    for d in range(len(shape)):
        pitch = prod(shape[d + 1:])
        box.append(range(low // pitch, -(-high // pitch)))
        if len(box[-1]) > 1:
            return ((*box, *map(range, shape[d + 1:])),)
        low, high = low % pitch, high - low // pitch * pitch
    return (tuple(box),)


def _written(have: Layout, by: Layout, whole: bool) -> Layout:
    """What ranks have after each wrote these boxes: what others wrote it has no more."""
    if whole:
        return by
    every = list(dict.fromkeys([box for boxes in by for box in boxes]))
    return _bounded([(*remove(held, every), *boxes) for held, boxes in zip(have, by, strict=True)])


def _bounded(have: Sequence[Holding]) -> Layout:
    """What ranks have; where that is many boxes, each element only on the first rank that has it."""
    if max(map(len, have)) <= MOST_BOXES:
        return tuple(have)
    found: list[Holding] = []
    taken: list[Box] = []
    for held in have:
        found.append(tuple(remove(held, taken)))
        taken += found[-1]
    return tuple(found)
