"""Replays: a plan applied to the views and extents of one trail, down to the values of a launch.

A plan contains no views and no extents; a trail (memo.py) determines them.  Of a kernel's block, only
addresses and numbers change from one iteration of a loop to the next; the rest is laid out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from diffuse.ir import ITEMSIZE, Access, Frame, volume
from diffuse.ir.template import Recorded
from diffuse.ir.view import View, shown
from diffuse.kernels.body import abi
from diffuse.kernels.body.compose import Composition
from diffuse.runtime.base import Layout
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


def picked(composition: Composition, tasks: Tasks, arguments: Sequence[Access]) -> int:
    """The work of a launch due to elements that it reads through indices from arrays in memory."""
    reads = [(prod(tasks[composition.spaces[loop.space]].shape), arguments[op.attribute].store)
             for loop in composition.body.loops for op in loop.ops if op.kind == "pick"]
    return PICKED * sum([count for count, store in reads
                         if prod(store.shape) * ITEMSIZE[store.dtype] >= CACHED])


class Replay:
    """A plan for the views and extents of one trail."""

    __slots__ = ("plan", "points", "partials", "pieces", "used", "shared", "donations", "work", "frames",
                 "layout", "partners", "_fixed", "_fine", "_addresses", "_numbers")

    def __init__(self, plan: Plan, tasks: Tasks, slots: dict[int, int]) -> None:
        composition = plan.composition
        self.plan = plan
        self.points = volume(tasks[0].domain)
        self.partials = plan.partial_bytes(tasks)
        """Bytes of the partials of each reduction."""
        arguments = [tasks[t].accesses[k] for t, k in composition.arguments]
        used = [slots[access.store.id] for access in arguments]
        self.used = tuple(dict.fromkeys(used))
        """Slots of the stores that the kernel reads or writes, each once."""
        homes = dict(_slots(plan.shared, tasks, slots))
        self.shared = tuple([homes.get(slot, slot) for slot in self.used])
        """The slots of `used`, with those of outputs replacing temporaries that use their memory."""
        self.donations = tuple(_slots(plan.donations, tasks, slots))
        """The plan's donations, as slots."""
        self.frames: tuple[Frame, ...] = ()
        """The memory of the arguments in the last launch, on runtimes that place it themselves."""
        self.layout: Layout | None = None
        """The layout of that launch (layout.py)."""
        self.partners: dict[tuple[Any, ...], Any] = {}
        """The forms of passes with replays that follow (pairs.py)."""
        self.work = (plan.cost(tasks) + traffic([shown(access) for access in arguments])
                     + picked(composition, tasks, arguments))
        self._fixed = _block(composition, tasks, arguments)
        """The block, with offsets in place of addresses and 0 in place of numbers."""
        words = abi.words(composition.body)
        self._fine = self._fixed
        """The block of a launch in pieces."""
        found = pieces(composition, tasks)
        self.pieces = self.points if found is None else found[0]
        """The points of a launch in which the loops of the kernel take turns on pieces that stay in cache."""
        if found is not None:
            self._fine = self._fixed.copy()
            for word in (0, *[word for word, space in zip(words.spaces, composition.body.spaces, strict=True)
                              if space.axes[0] >= 0]):
                self._fine[word] = found[word > 0]
        self._addresses = tuple([(word, self.used.index(slot))
                                 for word, slot in zip(words.arguments, used, strict=True)])
        dtypes = composition.body.scalars
        self._numbers = tuple([(word, plan.origin(t), k, dtype.startswith("complex"))
                               for word, (t, k), dtype
                               in zip(words.scalars, composition.scalars, dtypes, strict=True)])

    def places(self) -> list[int]:
        """The word of the block with the address of each slot, for a kernel that has one argument a slot."""
        return [word for _, word in sorted([(self.used[store], word) for word, store in self._addresses])]

    def numbers(self) -> dict[int, str]:
        """The words of the block with the numbers of the first task, in their order, and the type of each."""
        found = zip(self._numbers, self.plan.composition.body.scalars, strict=True)
        words = sorted([(k, word, dtype) for (word, _, k, _), dtype in found])
        return {word: dtype for _, word, dtype in words}

    def values(self, recorded: Sequence[Recorded], addresses: Sequence[int], partials: Sequence[int],
               fine: bool = False) -> tuple[Any, ...]:
        """The kernel's block for these tasks, in the order of `abi.layout`; `addresses` are those of `used`.
        `fine`: for a launch in pieces."""
        values = self._fine.copy() if fine else self._fixed.copy()
        for word, store in self._addresses:
            values[word] += addresses[store]
        for word, task, k, two in self._numbers:
            value = recorded[task][2][k]
            if two:
                values[word], values[word + 1] = value.real, value.imag
            else:
                values[word] = value
        values += partials
        return tuple(values)


def _block(composition: Composition, tasks: Tasks, arguments: Sequence[Access]) -> list[Any]:
    """The block of a launch in the order of `abi.layout`, without addresses, numbers and partials."""
    domain = tasks[0].domain
    found: list[Any] = [*domain]
    for number, space in zip(composition.spaces, composition.body.spaces, strict=True):
        task = tasks[number]
        tiles = [split.tile for split in task.splits] if task.domain == domain else [0] * len(domain)
        found += (*tiles, *task.shape)
        if space.begins:
            found += [split.begin or 0 for split in task.splits]
    for access in arguments:
        view = shown(access)
        found += (view.offset, *view.strides)
    for dtype in composition.body.scalars:
        found += [0, 0] if dtype.startswith("complex") else [0]
    found += abi.ALL_ROWS * len(composition.body.split)
    return found


def _slots(pairs: Sequence[tuple[tuple[int, int], tuple[int, int]]], tasks: Tasks, slots: dict[int, int]
           ) -> list[tuple[int, int]]:
    """The slots of pairs of accesses, which are given by task and number: of those that may have one memory
    with the views of these tasks, too, as the plan was made for others."""
    accesses = [(tasks[t].accesses[k], tasks[u].accesses[m]) for (t, k), (u, m) in pairs]
    return [(slots[one.store.id], slots[other.store.id]) for one, other in accesses if congruent(one, other)]
