"""Host functions in parts: what a call declares so that ranks run it on parts of arrays, where those are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Point = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Independent:
    """A host function, and the axes along which it is independent: it computes each index along such an axis
    by itself, with the same bits however many it is given.

    `cuts` are the ways to cut a call into parts, of which the first is taken where several move as little.
    Each says for every array of the call, inputs first, along which of its axes the parts go, or None for one
    that each part reads whole.  All axes of a cut are equally long.  A runtime of one rank calls the function
    once, on whole arrays; so do others that cannot call it on parts.
    """

    function: Callable[..., None]
    cuts: tuple[tuple[int | None, ...], ...]
    multiple: int = 1
    """Parts begin at multiples of so many indices, but for what one rank has alone."""

    indexed: bool = False
    """Does the function take, before the arrays, the first index of its part?"""

    def __call__(self, *arrays: Any) -> None:
        self.part(0, arrays)

    def part(self, low: int, arrays: Sequence[Any]) -> None:
        """Call the function on a part that begins at this index."""
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
            if len(lengths) > 1:
                raise ValueError(f"cut {cut} of {operation!r} goes along axes of lengths {sorted(lengths)}: "
                                 "all have to be equally long")
