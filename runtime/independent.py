"""Host functions that can run in parts: a call declares how it divides, so that ranks run it where the data
are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

Point = tuple[int, ...]


Ends = tuple[tuple[int, ...], ...]
"""For each array of a call, the index along its cut where each part begins, and where the last one ends."""


class Peers(Protocol):
    """The ranks that run a function together, as one of them sees them."""

    rank: int
    ranks: int
    ends: Ends

    def gather(self, array: Any) -> Any:
        """Return the arrays that all ranks give, which have one shape and type, as the rows of one array."""

    def swap(self, pieces: Sequence[Any]) -> tuple[Any, list[int]]:
        """Give each rank its piece; return the pieces for this one, one after another, and their lengths."""


class Alone:
    """The peers of a rank that has the whole arrays: there are no others."""

    rank, ranks = 0, 1

    def __init__(self, ends: Ends) -> None:
        self.ends = ends

    def gather(self, array: Any) -> Any:
        return array[None]

    def swap(self, pieces: Sequence[Any]) -> tuple[Any, list[int]]:
        return pieces[0], [len(pieces[0])]


class Some:
    """Some of the ranks as peers of their own.  All ranks swap at once, also those outside of this group,
    whose `rank` is -1 and whose pieces are empty."""

    def __init__(self, every: Peers, some: Sequence[int], ends: Ends) -> None:
        self._every, self._some = every, some
        self.rank = some.index(every.rank) if some else -1
        self.ranks, self.ends = len(ends[0]) - 1, ends

    def gather(self, array: Any) -> Any:
        return self._every.gather(array)[self._some]

    def swap(self, pieces: Sequence[Any]) -> tuple[Any, list[int]]:
        given = [pieces[0][:0]] * self._every.ranks
        for rank, piece in zip(self._some, pieces, strict=False):
            given[rank] = piece
        found, lengths = self._every.swap(given)
        return found, [lengths[rank] for rank in self._some]


class Moved(NamedTuple):
    """The traffic of sums that ranks add up one after another."""

    bytes: float
    """The bytes that all ranks together receive."""
    chain: float
    """How many of these bytes go from rank to rank, each after the one before it."""
    messages: float
    """Messages of the busiest rank."""
    share: float
    """The share of the multiplications of the rank that has most."""


class Sums(NamedTuple):
    """Another way to run a function that folds an axis: all ranks at once, each on its indices along that."""

    call: Independent
    usual: bool
    """Does the stream take this way where nobody names a grid of blocks?"""
    moved: Callable[[Ends], Moved]
    """The cost, given where the parts of ranks begin and end."""


@dataclass(frozen=True, slots=True)
class Independent:
    """A host function, and the axes along which it is independent: it computes each index along such an axis
    by itself, with the same bits however many it is given.

    `cuts` are the ways to cut a call into parts; the one that moves the least data is taken, the first of
    equal ones.  Each says for every array of the call, inputs first, along which of its axes the parts go, or
    None for one that each part reads whole.  All axes of a cut are equally long.  A runtime of one rank calls
    the function once, on whole arrays; so do others that cannot call it on parts.
    """

    function: Callable[..., None]
    cuts: tuple[tuple[int | None, ...], ...]
    multiple: int = 1
    """Parts begin at multiples of this many indices, except where one rank runs everything."""

    indexed: bool = False
    """Does the function take the first index of its part as an additional first argument?"""

    blocks: Callable[[Point], int] | None = None
    """Maps a number of parts for each cut to the number of indices of which parts have to be multiples, so
    that blocks that are cut in all these ways at once have the bits of the whole; 0 if no number is right.  A
    function with this attribute runs whole where nobody names a grid of blocks."""

    folded: int = 0
    """The number of dimensions, besides those of the result, along which the function adds up."""

    sums: Callable[[], Sums | None] | None = None
    """Makes the way to run it in which ranks add up along such a dimension, with the bits of the whole; None
    if there is none.  All ranks have to ask at once."""

    folds: Callable[[Point], Sums | None] | None = None
    """Makes the way to run it on a grid of blocks, of which ranks that have the same one add it up along such
    a dimension: given the number of parts of each cut, then of that dimension.  None if it has not the bits
    of the whole; all ranks have to ask at once."""

    def unit(self, parts: Point) -> int:
        """The number of indices of which tiles have to be multiples in a grid with this many parts along each
        cut; 0 if the function must not be cut so."""
        return self.multiple if self.blocks is None else self.blocks(parts)

    together: bool = False
    """Do all ranks run the function at once, each on its parts?  It takes `Peers` before the arrays, by which
    it moves elements between ranks.  There is one cut, and its axes may have several lengths."""

    def __call__(self, *arrays: Any) -> None:
        if self.together:
            ends = [(0, 0 if axis is None else array.shape[axis])
                    for axis, array in zip(self.cuts[0], arrays, strict=True)]
            self.function(Alone(tuple(ends)), *arrays)
        else:
            self.part(0, arrays)

    def part(self, low: int, arrays: Sequence[Any]) -> None:
        """Call the function on the part that begins at index `low`."""
        if self.indexed:
            self.function(low, *arrays)
        else:
            self.function(*arrays)

    def check(self, operation: str, inputs: Sequence[Point], outputs: Sequence[Point]) -> None:
        """Raise ValueError if a cut does not fit arrays of these shapes."""
        shapes = (*inputs, *outputs)
        if not self.cuts:
            raise ValueError(f"{operation!r} declares no cut: name an axis of each array, as in "
                             "Independent(function, ((0, 0),)), or call the function itself")
        for cut in self.cuts:
            if len(cut) != len(shapes):
                raise ValueError(f"cut {cut} of {operation!r} has {len(cut)} entries for {len(shapes)} "
                                 "arrays: give it one for each input and then one for each output")
            for axis, shape in zip(cut, shapes, strict=True):
                if axis is not None and not 0 <= axis < len(shape):
                    raise ValueError(f"cut {cut} of {operation!r} names axis {axis} of an array of shape "
                                     f"{shape}: give one from 0 to {len(shape) - 1}, or None for the whole")
            if None in cut[len(inputs):]:
                raise ValueError(f"cut {cut} of {operation!r} leaves an output whole: name the axis along "
                                 "which each part writes its own indices")
            lengths = {shape[axis] for axis, shape in zip(cut, shapes, strict=True) if axis is not None}
            if len(lengths) > 1 and not self.together:
                raise ValueError(f"cut {cut} of {operation!r} goes along axes of lengths {sorted(lengths)}: "
                                 "all have to be equally long")
