"""The collectives on distributed types: typing rules, costs, height and normal forms.

Figure 8 of the paper, with its section 7.1: a collective moves any number of axes at once.  A rule that does
not apply raises ValueError with the rule's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from diffuse.movement.definition.mesh import Dimension, DistributedType, Mesh, check


@dataclass(frozen=True, slots=True)
class AllGather:
    """Devices along the minor-most axes of a dimension exchange tiles, so that each holds all of them."""

    dimension: int
    axes: tuple[str, ...]

    def __str__(self) -> str:
        return f"allgather({self.dimension}; {','.join(self.axes)})"


@dataclass(frozen=True, slots=True)
class DynSlice:
    """Every device keeps a part of its tile, selected by its coordinates along axes that replicate it."""

    dimension: int
    axes: tuple[str, ...]

    def __str__(self) -> str:
        return f"dynslice({self.dimension}; {','.join(self.axes)})"


@dataclass(frozen=True, slots=True)
class AllToAll:
    """The minor-most axes of one dimension then cut another one instead."""

    source: int
    target: int
    axes: tuple[str, ...]

    def __str__(self) -> str:
        return f"alltoall({self.source}, {self.target}; {','.join(self.axes)})"


@dataclass(frozen=True, slots=True)
class AllPermute:
    """Devices exchange whole tiles."""

    result: DistributedType

    def __str__(self) -> str:
        return f"allpermute to {self.result}"


Collective = AllGather | DynSlice | AllToAll | AllPermute


def _gathered(dimension: Dimension, axes: tuple[str, ...], mesh: Mesh, rule: str) -> Dimension:
    """Return the dimension without its minor-most axes, which must be these."""
    if not axes or dimension.axes[:len(axes)] != axes:
        raise ValueError(f"{rule}: {','.join(axes) or 'no axis'} is not minor-most in {dimension}")
    return replace(dimension, tile=dimension.tile * prod(mesh.sizes[axis] for axis in axes),
                   axes=dimension.axes[len(axes):])


def _sliced(dimension: Dimension, axes: tuple[str, ...], mesh: Mesh, rule: str) -> Dimension:
    """Return the dimension with new minor-most axes."""
    parts = prod(mesh.sizes[axis] for axis in axes)
    if not axes or dimension.tile % parts:
        raise ValueError(f"{rule}: tiles of {dimension} cannot be cut into {parts} parts")
    return replace(dimension, tile=dimension.tile // parts, axes=axes + dimension.axes)


def typed(collective: Collective, before: DistributedType, mesh: Mesh) -> DistributedType:
    """Return the type after a collective (figure 8)."""
    dimensions = list(before.dimensions)
    match collective:
        case AllGather(i, axes):
            dimensions[i] = _gathered(dimensions[i], axes, mesh, "T-ALLGATHER")
        case DynSlice(i, axes):
            if set(axes) & set(before.axes):
                raise ValueError(f"T-DYNSLICE: {','.join(axes)} already cuts {before}")
            dimensions[i] = _sliced(dimensions[i], axes, mesh, "T-DYNSLICE")
        case AllToAll(i, j, axes):
            if i == j:
                raise ValueError(f"T-ALLTOALL: from dimension {i} to itself")
            dimensions[i] = _gathered(dimensions[i], axes, mesh, "T-ALLTOALL")
            dimensions[j] = _sliced(dimensions[j], axes, mesh, "T-ALLTOALL")
        case AllPermute(result):
            if result.tile != before.tile or result.shape != before.shape:
                raise ValueError(f"T-PERMUTE: {before} and {result} have other tiles or shapes")
            check(result, mesh)
            return result
    return DistributedType(tuple(dimensions))


def types(sequence: Iterable[Collective], first: DistributedType, mesh: Mesh) -> list[DistributedType]:
    """Return the types before, between and after the collectives of a sequence."""
    check(first, mesh)
    found = [first]
    for collective in sequence:
        found.append(typed(collective, found[-1], mesh))
    return found


def height(found: Iterable[DistributedType]) -> int:
    """Return the most elements that a device holds at once (definition 4.4)."""
    return max(each.localsize for each in found)


def cost(sequence: Sequence[Collective], found: Sequence[DistributedType]) -> int:
    """Return the cost of a typed sequence in elements: figure 11 of the paper.

    It includes what a device sends to itself; `weak.received` counts what is received from others.
    """
    total = 0
    for collective, (before, after) in zip(sequence, pairwise(found), strict=True):
        if isinstance(collective, AllGather):
            total += after.localsize
        elif not isinstance(collective, DynSlice):
            total += before.localsize
    return total


_NORMAL = re.compile("d*[ap]*g*")
_LETTERS = {DynSlice: "d", AllToAll: "a", AllPermute: "p", AllGather: "g"}


def is_normal(sequence: Iterable[Collective]) -> bool:
    """Is the sequence in normal form, dynslice* (alltoall | allpermute)* allgather* (definition 4.5)?"""
    return bool(_NORMAL.fullmatch("".join(_LETTERS[type(each)] for each in sequence)))
