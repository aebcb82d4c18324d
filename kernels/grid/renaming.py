"""Copies that a launch of grid kernels need not make, because a store can move to other memory.

A program that updates an array from its own neighbours keeps the old values apart, or computes the new ones
apart and copies them back::

    old = p.copy()                              new = f(p[:-2], p[2:])
    p[1:-1] = f(old[:-2], old[2:])              p[1:-1] = new

On a GPU each copy is a pass over memory.  Without the copies, `old` takes the memory of `p`, and `p` that of
`old`; or `new` is computed at its place in fresh memory, which then becomes that of `p`.  Only the elements
that are not overwritten, here those of the border, are copied.  All kernels stay what they are: they get
other addresses and strides.

An *arrangement* says all this for the extents, strides and offsets of a launch, but for no addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from diffuse.ir import ITEMSIZE, Point
from diffuse.kernels.body import abi
from diffuse.kernels.body.expr import Body
from diffuse.kernels.grid import schedule
from diffuse.kernels.grid.boxes import Box, around, joined, row_major
from diffuse.kernels.grid.schedule import GridKernel

SHARE = 8
"""The elements that are copied may be one of so many."""


class Copy(NamedTuple):
    """A loop that does nothing but copy, by the numbers of the loop and of its arguments."""

    loop: int
    pairs: tuple[tuple[int, int], ...]
    """What is copied, and where to."""
    maker: int = -1
    """The loop that computes what is copied, if that is one loop and nothing else uses it; the arguments of
    this loop's stores follow, one for each pair."""
    made: tuple[int, ...] = ()


class Moved(NamedTuple):
    """The address of an argument: in which memory it is, and how far from its beginning.  Memory is that of a
    slot before the launch, or fresh memory, which has negative numbers."""

    word: int
    memory: int
    offset: int


class Part(NamedTuple):
    """Some launches of kernels with one block of parameters: what differs from the block of the launch."""

    launches: Sequence[tuple[Any, int, int]]
    """Of kernels (`GridLaunch`), or of their names."""
    moved: tuple[Moved, ...]
    words: tuple[tuple[int, int], ...] = ()


class Arrangement(NamedTuple):
    """A launch without some of its copies."""

    parts: tuple[Part, ...]
    places: dict[int, int]
    """The memory of each slot that has moved, after the launch."""
    fresh: tuple[int, ...]
    """The bytes of fresh memory -1, -2, ..."""


class Geometry(NamedTuple):
    """The numbers of a launch that an arrangement depends on."""

    extents: tuple[Point, ...]
    """Of each space."""
    offsets: Mapping[int, int]
    """Of arguments from the beginning of their slot's memory, in bytes."""
    strides: Mapping[int, Point]
    sizes: Mapping[int, int]
    """Bytes of the memory of slots."""
    dead: frozenset[int]
    """Slots whose contents nobody needs after the launch."""


def copies(body: Body) -> list[Copy]:
    """The copies of a body that may be avoidable."""
    found = []
    for number in range(len(body.loops) - body.epilogue):
        pairs = _pairs(body, number)
        if not pairs:
            continue
        makers = [_maker(body, number, *pair) for pair in pairs]
        maker, made = makers[0][0], tuple([argument for _, argument in makers])
        if any(other != maker for other, _ in makers):
            maker = -1
        if maker >= 0 or all(any(_stores(body, later, body.arguments[source].slot)
                                 for later in range(number + 1, len(body.loops))) for source, _ in pairs):
            found.append(Copy(number, pairs, maker, made))
    return found


def _pairs(body: Body, number: int) -> tuple[tuple[int, int], ...]:
    """The arguments that a loop copies, and those that it copies them to, if it does nothing else with stores
    of its own; else none."""
    ops = body.loops[number].ops
    if not {op.kind for op in ops} == {"load", "store"}:
        return ()
    found = tuple([(ops[op.args[0]].attribute, op.attribute) for op in ops if op.kind == "store"])
    arguments = [(body.arguments[source], body.arguments[target]) for source, target in found]
    plain = all(one.dtype == other.dtype  # other classes limit the strides
                and one.classes == other.classes == "s" * (len(one.classes) - 1) + "1"
                for one, other in arguments)
    slots = [argument.slot for pair in arguments for argument in pair]
    alike = len({one.dtype for one, _ in arguments}) == 1
    return found if plain and alike and len(set(slots)) == len(slots) else ()


def _maker(body: Body, number: int, source: int, target: int) -> tuple[int, int]:
    """The loop before this one that stores all of what it copies, which nothing else uses, and the argument
    of that store; (-1, -1) if there is none, or if it or a loop behind it writes the target."""
    slot = body.arguments[source].slot
    users = [n for n in range(len(body.loops)) if _touches(body, n, slot)]
    if len(users) != 2 or users[1] != number:
        return -1, -1
    maker = users[0]
    stores = _stores(body, maker, slot)
    if len(stores) != 1 or _reads(body, maker, slot):
        return -1, -1
    made, copied = body.arguments[stores[0]], body.arguments[source]
    same = made.view == copied.view and made.classes == copied.classes and made.dtype == copied.dtype
    writes = any(_stores(body, n, body.arguments[target].slot) for n in range(maker, number))
    whole = body.loops[maker].space == body.loops[number].space
    return (maker, stores[0]) if same and whole and not writes else (-1, -1)


def slots(body: Body, found: Sequence[Copy]) -> list[int]:
    """The slots that an arrangement may move."""
    return sorted({body.arguments[a].slot for copy in found for pair in copy.pairs for a in pair})


def _touches(body: Body, number: int, slot: int) -> bool:
    return any(body.arguments[a].slot == slot for op in body.loops[number].ops for a in op.arguments)


def _stores(body: Body, number: int, slot: int) -> list[int]:
    """The arguments of a slot that a loop stores to."""
    return [op.attribute for op in body.loops[number].ops
            if op.kind == "store" and body.arguments[op.attribute].slot == slot]


def _reads(body: Body, number: int, slot: int) -> bool:
    """Does a loop access a slot in another way than by stores?"""
    return any(body.arguments[a].slot == slot for op in body.loops[number].ops
               if op.kind != "store" for a in op.arguments)


def arrange(body: Body, planned: Sequence[GridKernel], found: Sequence[Copy], geometry: Geometry
            ) -> Arrangement | None:
    """The arrangement of a launch without those of its copies that can be avoided; None if none can."""
    return _Arranging(body, planned, geometry).arranged(found)


class _Arranging:
    """An arrangement that is being made, loop by loop."""

    def __init__(self, body: Body, planned: Sequence[GridKernel], geometry: Geometry) -> None:
        self.body, self.planned, self.geometry = body, planned, geometry
        self.parts: list[Part] = []
        self.waiting: list[int] = []
        """Loops that are not in a part yet."""
        self.places: dict[int, int] = {}
        self.fresh: list[int] = []
        self.free: list[tuple[int, int]] = []
        """Memory that no slot has any more, each with its bytes."""
        begins = abi.words(body)
        self.words, self.spaces = begins.arguments, begins.spaces

    def arranged(self, found: Sequence[Copy]) -> Arrangement | None:
        copied = {copy.loop: copy for copy in found}
        made = {copy.maker: copy for copy in found if copy.maker >= 0}
        dropped: dict[int, list[int]] = {}
        for number in range(len(self.body.loops)):
            if number in dropped:
                self.write()
                self.move(copied[number], dropped[number])
            elif number in made and self.direct(made[number]):
                dropped[made[number].loop] = self.redirected(made[number])
            elif not (number in copied and copied[number].maker < 0 and self.exchanged(copied[number])):
                self.waiting.append(number)
        self.write()
        moved = {slot: memory for slot, memory in self.places.items() if memory != slot}
        return Arrangement(tuple(self.parts), moved, tuple(self.fresh)) if self.places else None

    def place(self, slot: int) -> int:
        """The memory of a slot at this point of the launch."""
        return self.places.get(slot, slot)

    def write(self, words: tuple[tuple[int, int], ...] = (), moved: tuple[Moved, ...] = ()) -> None:
        """Make a part of the loops that are waiting."""
        if not self.waiting:
            return
        kernels = [kernel for kernel in self.planned if kernel.loop in self.waiting]
        changed = [Moved(self.words[a], self.places[slot], self.geometry.offsets[a])
                   for a, slot in enumerate([x.slot for x in self.body.arguments])
                   if self.places.get(slot, slot) != slot]
        launches = schedule.launches(self.body, self.planned, self.geometry.extents, kernels)
        self.parts.append(Part(launches, (*changed, *moved), words))
        self.waiting = []

    # -- a copy that is read, of a store that is overwritten -------------------------------------------------

    def exchanged(self, copy: Copy) -> bool:
        """Exchange the memory of stores and of their copies, if most of the stores is overwritten next."""
        shape = self.geometry.extents[self.body.loops[copy.loop].space]
        whole = Box((0,) * len(shape), shape)
        kept: dict[Box, None] = {}
        for one, other in copy.pairs:
            boxes = self.overwritten(copy.loop, self.body.arguments[one].slot, shape)
            left = self.kept(whole, boxes)
            if left is None or self.box(one, shape) != whole or self.box(other, shape) != whole:
                return False
            kept |= dict.fromkeys(left)
        self.write()
        arguments = self.body.arguments
        slots = [(arguments[one].slot, arguments[other].slot) for one, other in copy.pairs]
        memory = [(self.place(one), self.place(other)) for one, other in slots]
        self.copy_boxes(copy, list(kept), memory, shape)
        for both, (before, behind) in zip(slots, memory, strict=True):
            self.places |= dict(zip(both, (behind, before), strict=True))
        return True

    def overwritten(self, number: int, slot: int, shape: Point) -> list[Box]:
        """Boxes of a slot that the loops behind this one store to before any of them reads it."""
        found: list[Box] = []
        for later in range(number + 1, len(self.body.loops)):
            if _reads(self.body, later, slot):
                break
            for argument in _stores(self.body, later, slot):
                box = self.box(argument, shape)
                found += [] if box is None else [box]
        return found

    def kept(self, whole: Box, boxes: list[Box]) -> list[Box] | None:
        """The elements of a store outside these boxes, as boxes; None if there are too many."""
        largest = max(boxes, key=lambda box: prod(box.extents), default=None)
        if largest is None:
            return None
        found = [box for box in around(whole, largest) if not any(other.contains(box) for other in boxes)]
        few = sum(prod(box.extents) for box in found) * SHARE <= prod(whole.extents)
        return found if few else None

    # -- results that are copied to their place -------------------------------------------------------------

    def direct(self, copy: Copy) -> bool:
        """Can the loop that makes what is copied write it to its place in fresh memory?"""
        arguments = self.body.arguments
        dead = all(arguments[source].slot in self.geometry.dead for source, _ in copy.pairs)
        shapes = {self.shape(target) for _, target in copy.pairs}
        return dead and len(shapes) == 1 and () not in shapes and self.around(copy, *shapes) is not None

    def shape(self, argument: int) -> Point:
        """The shape of the store of an argument, as its strides tell it; () if they do not."""
        size, found = self.geometry.sizes[self.body.arguments[argument].slot], []
        for stride in self.geometry.strides[argument]:
            if stride <= 0 or size % stride:
                return ()
            found.append(size // stride)
            size = stride
        return tuple(found) if size == ITEMSIZE[self.body.arguments[argument].dtype] else ()

    def around(self, copy: Copy, shape: Point) -> list[Box] | None:
        """The elements of the targets, which have this shape, that a copy does not write, as boxes; None if
        there are too many."""
        found: dict[Box, None] = {}
        for _, target in copy.pairs:
            box = self.box(target, shape)
            left = None if box is None else self.kept(Box((0,) * len(shape), shape), [box])
            if left is None:
                return None
            found |= dict.fromkeys(left)
        return [*found]

    def redirected(self, copy: Copy) -> list[int]:
        """Write the parts with the loop that makes what is copied; returns the memory that each goes to."""
        self.write()
        found: list[int] = []
        words: list[tuple[int, int]] = []
        moved: list[Moved] = []
        for (_, target), made in zip(copy.pairs, copy.made, strict=True):
            found.append(self.memory(self.geometry.sizes[self.body.arguments[target].slot]))
            word = self.words[made]
            words += [(word + 1 + d, stride) for d, stride in enumerate(self.geometry.strides[target])]
            moved.append(Moved(word, found[-1], self.geometry.offsets[target]))
        shape = self.shape(copy.pairs[0][1])
        memory = [(self.place(self.body.arguments[target].slot), fresh)
                  for (_, target), fresh in zip(copy.pairs, found, strict=True)]
        self.copy_boxes(copy, self.around(copy, shape) or [], memory, shape)
        self.waiting.append(copy.maker)
        self.write(tuple(words), tuple(moved))
        return found

    def memory(self, size: int) -> int:
        """Memory of so many bytes that no slot has."""
        for memory, nbytes in self.free:
            if nbytes == size:
                self.free.remove((memory, nbytes))
                return memory
        self.fresh.append(size)
        return -len(self.fresh)

    def move(self, copy: Copy, memory: list[int]) -> None:
        """Let the targets of a copy have this memory from now on."""
        for (_, target), fresh in zip(copy.pairs, memory, strict=True):
            slot = self.body.arguments[target].slot
            self.free.append((self.place(slot), self.geometry.sizes[slot]))
            self.places[slot] = fresh

    # -- boxes ---------------------------------------------------------------------------------------------

    def box(self, argument: int, shape: Point) -> Box | None:
        """The part of a store of this shape that an argument accesses, as a box of indices; None if it is no
        box, or if the store is not contiguous in row-major order."""
        a = self.body.arguments[argument]
        steps = row_major(shape, ITEMSIZE[a.dtype])
        if 0 in shape or steps[0] * shape[0] != self.geometry.sizes[a.slot]:
            return None
        offset, begin = self.geometry.offsets[argument], []
        for step in steps:
            number, offset = divmod(offset, step)
            begin.append(number)
        end = [number + 1 for number in begin]
        extents = self.geometry.extents[a.space]
        for extent, stride in zip(extents, self.geometry.strides[argument], strict=True):
            if extent == 1:
                continue
            if stride not in steps:
                return None
            end[steps.index(stride)] += extent - 1
        inside = not offset and all(n <= most for n, most in zip(end, shape, strict=True))
        return Box(tuple(begin), tuple(end)) if inside and 0 not in extents else None

    def copy_boxes(self, copy: Copy, boxes: Sequence[Box], memory: Sequence[tuple[int, int]], shape: Point
                   ) -> None:
        """Copy boxes by the kernel of a copy; `memory` has what each of its pairs copies from, and to."""
        loop = self.body.loops[copy.loop]
        kernels = [kernel for kernel in self.planned if kernel.loop == copy.loop]
        steps = row_major(shape, ITEMSIZE[self.body.arguments[copy.pairs[0][0]].dtype])
        word = self.spaces[loop.space] + len(self.body.spaces[loop.space].axes)
        places = [(argument, place) for pair, both in zip(copy.pairs, memory, strict=True)
                  for argument, place in zip(pair, both, strict=True)]
        for box, strides in joined(boxes, shape, steps):
            extents = list(self.geometry.extents)
            extents[loop.space] = box.extents
            words = [(word + d, extent) for d, extent in enumerate(box.extents)]
            offset = sum(begin * step for begin, step in zip(box.begin, steps, strict=True))
            for argument, _ in places:
                words += [(self.words[argument] + 1 + d, stride) for d, stride in enumerate(strides)]
            moved = tuple([Moved(self.words[argument], place, offset) for argument, place in places])
            self.parts.append(Part(schedule.launches(self.body, self.planned, extents, kernels), moved,
                                   tuple(words)))
