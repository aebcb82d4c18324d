"""Replays: a plan applied to the views and extents of one trail, down to the values of a launch.

A plan contains no views and no extents; a trail (memo.py) determines them.  Of a kernel's block, only
addresses and numbers change from one iteration of a loop to the next; the rest is laid out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from diffuse.ir import ITEMSIZE, Access, Frame, volume
from diffuse.ir.template import Recorded
from diffuse.ir.view import View, shown
from diffuse.kernels.body import abi
from diffuse.kernels.body.compose import Composition
from diffuse.runtime.base import Layout
from diffuse.settings import config
from diffuse.stream.blocking import Tasks, pieces
from diffuse.stream.plan import Plan, congruent

CACHED = 16 << 20
"""Bytes of operands from which on they come from memory: few shared caches are much larger."""


def traffic(views: Sequence[View]) -> int:
    """The work of a launch due to reading and writing operands, in operations times elements: one thread
    moves three bytes of memory in the time of two operations."""
    nbytes = sum([ITEMSIZE[view.dtype] * prod([n for n, s in zip(view.shape, view.strides, strict=True) if s])
                  for view in views])
    return 2 * nbytes // 3 if nbytes >= CACHED else 0


PICKED = 64
"""The work of reading an element at random from memory, which takes some four nanoseconds."""


class Skeleton(NamedTuple):
    """What all replays of a plan have in common, because it depends neither on views nor on extents."""

    used: tuple[int, ...]
    """Slots of the stores that the kernel reads or writes, each once."""
    words: abi.Words
    addresses: tuple[tuple[int, int], ...]
    """For each argument the word of its address, and the position of its slot in `used`."""
    numbers: tuple[tuple[int, int, int, bool], ...]
    """For each scalar its word, task and position there, and whether it takes two words."""
    picks: tuple[tuple[int, int], ...]
    """For each op that reads elements through indices a task with its iteration space, and its argument."""
    tail: tuple[int, ...]
    """The words of the block after the arguments, without numbers and partials."""

    @staticmethod
    def of(plan: Plan, tasks: Tasks, slots: dict[int, int]) -> Skeleton:
        """The skeleton of a plan; `tasks` and `slots` are those of any group that it was made for."""
        composition = plan.composition
        body, words = composition.body, abi.words(composition.body)
        slotted = [slots[tasks[t].accesses[k].store.id] for t, k in composition.arguments]
        used = tuple(dict.fromkeys(slotted))
        scalars = zip(words.scalars, composition.scalars, body.scalars, strict=True)
        numbers = [(word, plan.origin(t), k, dtype.startswith("complex")) for word, (t, k), dtype in scalars]
        picks = [(composition.spaces[loop.space], op.attribute)
                 for loop in body.loops for op in loop.ops if op.kind == "pick"]
        blank = sum([2 if two else 1 for *_, two in numbers])
        return Skeleton(
            used, words,
            tuple([(word, used.index(slot)) for word, slot in zip(words.arguments, slotted, strict=True)]),
            tuple(numbers), tuple(picks), (0,) * blank + abi.ALL_ROWS * len(body.split))

    def picked(self, tasks: Tasks, arguments: Sequence[Access]) -> int:
        """The work of a launch due to elements that it reads through indices from arrays in memory."""
        reads = [(prod(tasks[space].shape), arguments[argument].store) for space, argument in self.picks]
        return PICKED * sum([count for count, store in reads
                             if prod(store.shape) * ITEMSIZE[store.dtype] >= CACHED])


class Replay:
    """A plan for the views and extents of one trail."""

    __slots__ = ("plan", "points", "partials", "pieces", "used", "shared", "donations", "work", "frames",
                 "layout", "partners", "_skeleton", "_fixed", "_fine")

    def __init__(self, plan: Plan, tasks: Tasks, slots: dict[int, int]) -> None:
        composition, skeleton = plan.composition, plan.skeleton
        if skeleton is None:
            skeleton = plan.skeleton = Skeleton.of(plan, tasks, slots)
        elif config.check and skeleton != Skeleton.of(plan, tasks, slots):
            raise RuntimeError(f"DIFFUSE_CHECK: two groups of one plan have other slots: {plan.text}")
        self.plan, self._skeleton = plan, skeleton
        self.points = volume(tasks[0].domain)
        self.partials = plan.partial_bytes(tasks)
        """Bytes of the partials of each reduction."""
        self.used = skeleton.used
        homes = dict(_slots(plan.shared, tasks, slots))
        self.shared = tuple([homes.get(slot, slot) for slot in skeleton.used])
        """The slots of `used`, with those of outputs replacing temporaries that use their memory."""
        self.donations = tuple(_slots(plan.donations, tasks, slots))
        """The plan's donations, as slots, for these views."""
        self.frames: tuple[Frame, ...] = ()
        """The memory of the arguments in the last launch, on runtimes that place it themselves."""
        self.layout: Layout | None = None
        """The layout of that launch (layout.py)."""
        self.partners: dict[tuple[Any, ...], Any] = {}
        """The forms of passes with replays that follow (pairs.py)."""
        arguments = [tasks[t].accesses[k] for t, k in composition.arguments]
        views = [shown(access) for access in arguments]
        self.work = plan.cost(tasks) + traffic(views)
        if skeleton.picks:
            self.work += skeleton.picked(tasks, arguments)
        self._fixed = _block(composition, tasks, views, skeleton.tail)
        """The block, with offsets in place of addresses and 0 in place of numbers."""
        self._fine = self._fixed
        """The block of a launch in pieces."""
        found = pieces(composition, tasks)
        self.pieces = self.points if found is None else found[0]
        """The points of a launch in which the loops of the kernel take turns on pieces that stay in cache."""
        if found is not None:
            self._fine = self._fixed.copy()
            for word, space in zip(skeleton.words.spaces, composition.body.spaces, strict=True):
                if space.axes[0] >= 0:
                    self._fine[word] = found[1]
            self._fine[0] = found[0]

    def places(self) -> list[int]:
        """The word of the block with the address of each slot, for a kernel that has one argument a slot."""
        return [word for _, word in sorted([(self.used[store], word)
                                            for word, store in self._skeleton.addresses])]

    def numbers(self) -> dict[int, str]:
        """The words of the block with the numbers of the first task, in their order, and the type of each."""
        found = zip(self._skeleton.numbers, self.plan.composition.body.scalars, strict=True)
        words = sorted([(k, word, dtype) for (word, _, k, _), dtype in found])
        return {word: dtype for _, word, dtype in words}

    def values(self, recorded: Sequence[Recorded], addresses: Sequence[int], partials: Sequence[int],
               fine: bool = False) -> tuple[Any, ...]:
        """The kernel's block for these tasks, in the order of `abi.layout`; `addresses` are those of `used`.
        `fine`: for a launch in pieces."""
        values = self._fine.copy() if fine else self._fixed.copy()
        for word, store in self._skeleton.addresses:
            values[word] += addresses[store]
        for word, task, k, two in self._skeleton.numbers:
            value = recorded[task][2][k]
            if two:
                values[word], values[word + 1] = value.real, value.imag
            else:
                values[word] = value
        values += partials
        return tuple(values)


def _block(composition: Composition, tasks: Tasks, views: Sequence[View], tail: tuple[int, ...]) -> list[Any]:
    """The block of a launch in the order of `abi.layout`, without addresses and partials; `tail` follows the
    arguments."""
    domain = tasks[0].domain
    found: list[Any] = [*domain]
    for number, space in zip(composition.spaces, composition.body.spaces, strict=True):
        task = tasks[number]
        tiles = [split.tile for split in task.splits] if task.domain == domain else [0] * len(domain)
        found += tiles
        found += task.shape
        if space.begins:
            found += [split.begin or 0 for split in task.splits]
    for view in views:
        found.append(view.offset)
        found += view.strides
    found += tail
    return found


def _slots(pairs: Sequence[tuple[tuple[int, int], tuple[int, int]]], tasks: Tasks, slots: dict[int, int]
           ) -> list[tuple[int, int]]:
    """The slots of pairs of accesses, which are given by task and number: of those that may have one memory
    with the views of these tasks, too, as the plan was made for others."""
    accesses = [(tasks[t].accesses[k], tasks[u].accesses[m]) for (t, k), (u, m) in pairs]
    return [(slots[one.store.id], slots[other.store.id]) for one, other in accesses if congruent(one, other)]
