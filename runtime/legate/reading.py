"""What a message says, for the task in Python: words in, the words to write into a kernel's block out.

The inverse of `message`.  What a launch writes into its block depends on where its stores lie, on which part
of each is here, and on the message's last part; all of these come back launch after launch, so the answer is
kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from math import prod
from struct import Struct
from typing import NamedTuple

from diffuse.runtime.legate.message import HOST
from diffuse.runtime.legate.task import COMPLAINTS

MOST_PATCHES = 1000
"""Places of the stores of one layout that are remembered."""


class Complaint(Exception):
    """A launch that cannot run."""


class Where(NamedTuple):
    """The part of a store that is here, in the coordinates of the whole store."""

    low: tuple[int, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Bytes."""
    empty: bool


class Place(NamedTuple):
    """One store of a launch, as the message names it."""

    kind: int
    number: int
    """Among the task's inputs, its outputs or the launch's pointers."""
    low: tuple[int, ...]
    """Where what Legate counts from 0 begins in the whole store."""
    extent: tuple[int, ...]
    """Of the whole store."""
    item: int
    host: Where | None
    """If it is host memory."""


class Field(NamedTuple):
    """One argument of the kernel: its address and strides in the block."""

    word: int
    place: int
    offset: tuple[int, ...] | None
    """Of the first element, in the whole store; None: the block has the view's own offset and strides."""
    steps: tuple[tuple[int, ...], ...]
    """For each dimension of the iteration: elements along each of the store's."""


class Piece(NamedTuple):
    """Memory for the length of the launch."""

    word: int
    nbytes: int
    planes: tuple[tuple[int, int], ...]
    """(Offset in the memory, store) of what points share."""


class Patch(NamedTuple):
    """What to write into a block."""

    fixed: tuple[tuple[int, int], ...]
    """(Word, value)."""
    moving: tuple[tuple[int, int], ...]
    """(Word, place): the place's address is added."""
    odd: tuple[int, ...] = ()
    """Instead of all that: places whose elements do not lie as the kernel takes them to."""


class Plan:
    """The last part of a message, and what follows from it."""

    def __init__(self, places: tuple[Place, ...], fields: tuple[Field, ...],
                 scratch: tuple[Piece, ...]) -> None:
        self.places, self.fields, self.scratch = places, fields, scratch
        self._patches: dict[tuple[Where, ...], Patch] = {}

    def patch(self, found: tuple[Where, ...]) -> Patch:
        """What to write where the stores lie so."""
        patch = self._patches.get(found)
        if patch is None:
            if len(self._patches) >= MOST_PATCHES:
                self._patches.clear()
            patch = self._patches[found] = self._patch(found)
        return patch

    def _patch(self, found: tuple[Where, ...]) -> Patch:
        odd = {field.place for field in self.fields
               if _odd(field, self.places[field.place], found[field.place])}
        if odd:
            return Patch((), (), tuple(sorted(odd)))
        fixed: list[tuple[int, int]] = []
        moving: list[tuple[int, int]] = []
        for word, k, offset, steps in self.fields:
            where = found[k]
            if where.empty:
                fixed += [(word, 0), *((word + 1 + d, 0) for d in range(len(steps)))]
                continue
            if offset is None:
                if not dense(where, self.places[k]):
                    raise Complaint(COMPLAINTS[1])
            else:
                strides = where.strides
                delta = [(a - b) * s for a, b, s in zip(offset, where.low, strides, strict=True)]
                fixed.append((word, sum(delta)))
                fixed += [(word + 1 + d, sum(n * s for n, s in zip(step, strides, strict=True)))
                          for d, step in enumerate(steps)]
            moving.append((word, k))
        return Patch(tuple(fixed), tuple(moving))


def _odd(field: Field, place: Place, where: Where) -> bool:
    """A kernel is compiled for elements side by side in the dimension where they are in a row-major store. In
    stores that other libraries hold or wrote they may lie otherwise."""
    if where.empty:
        return False
    if field.offset is None:
        return not any(where.low) and where.shape == place.extent and not dense(where, place)
    long = [d for d, n in enumerate(where.shape) if n > 1]
    pitch = [prod(place.extent[d + 1:]) * place.item for d in range(len(place.extent))]
    return any(sum(step[d] * pitch[d] for d in long) == place.item
               and sum(step[d] * where.strides[d] for d in long) != place.item for step in field.steps)


def dense(where: Where, place: Place) -> bool:
    """Do the elements lie in one row-major run from the first to the last of the whole store?"""
    pitch = place.item
    for low, size, stride, extent in zip(*(reversed(x) for x in (*where[:3], place.extent)), strict=True):
        if low or size != extent or extent > 1 and stride != pitch:
            return False
        pitch *= extent
    return True


def read(stores: int, fields: int, scratch: int, tail: bytes) -> Plan:
    """The last part of a message: so many stores, fields and pieces of scratch."""
    words = iter(numbers(len(tail) // 8).unpack(tail))
    places = tuple([_place(words) for _ in range(stores)])
    return Plan(places, tuple([_field(words, places) for _ in range(fields)]),
                tuple([_piece(words) for _ in range(scratch)]))


def _take(words: Iterator[int], count: int) -> tuple[int, ...]:
    return tuple(islice(words, count))


def _place(words: Iterator[int]) -> Place:
    kind, number, dims, item = _take(words, 4)
    low, extent = _take(words, dims), _take(words, dims)
    if kind != HOST:
        return Place(kind, number, low, extent, item, None)
    strides, pitch = [], item
    for size in reversed(extent):
        strides.append(pitch)
        pitch *= size
    return Place(kind, number, low, extent, item, Where((0,) * dims, extent, tuple(strides[::-1]), False))


def _field(words: Iterator[int], places: tuple[Place, ...]) -> Field:
    word, rank, place, affine = _take(words, 4)
    if not affine:
        return Field(word, place, None, ())
    dims = len(places[place].extent)
    return Field(word, place, _take(words, dims), tuple([_take(words, dims) for _ in range(rank)]))


def _piece(words: Iterator[int]) -> Piece:
    word, nbytes, planes = _take(words, 3)
    flat = _take(words, 2 * planes)
    return Piece(word, nbytes, tuple(zip(flat[::2], flat[1::2], strict=True)))


@cache
def numbers(count: int) -> Struct:
    """So many words."""
    return Struct(f"<{count}q")
