"""The meaning of distributed types and collectives, by enumeration: the definition that this package is
tested by.

A device holds a dictionary from indices of the array to values.  Collectives are defined by what devices do
(which devices form a group, which part of its tile each keeps), not by the types that result: that both agree
is the soundness of the typing rules.  Everything here is as slow as it looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from math import prod
from typing import TypeVar

from diffuse.ir import Point
from diffuse.movement.definition.collectives import AllGather, AllPermute, AllToAll, Collective, DynSlice
from diffuse.movement.definition.mesh import DistributedType, Mesh, offsets

Value = TypeVar("Value")
Tile = dict[Point, Value]


def elements(found: DistributedType, mesh: Mesh) -> list[frozenset[Point]]:
    """Return the indices that lie on each device."""
    return [frozenset(product(*(range(begin, begin + tile)
                                for begin, tile in zip(base, found.tile, strict=True))))
            for base in offsets(found, mesh)]


def held(found: DistributedType, mesh: Mesh, value: Callable[[Point], Value]) -> list[Tile[Value]]:
    """Return what each device holds of an array whose element at an index is `value(index)`."""
    return [{index: value(index) for index in sorted(indices)} for indices in elements(found, mesh)]


def perform(collective: Collective, tiles: list[Tile[Value]], mesh: Mesh) -> list[Tile[Value]]:
    """Return what each device holds after a collective, given what each held before."""
    devices = range(mesh.count)
    match collective:
        case AllGather(_, axes):
            return [_union(tiles[other] for other in _group(device, axes, mesh)) for device in devices]
        case DynSlice(i, axes):
            return [_part(tiles[device], i, axes, device, mesh) for device in devices]
        case AllToAll(_, j, axes):
            return [_union(_part(tiles[other], j, axes, device, mesh)
                           for other in _group(device, axes, mesh)) for device in devices]
        case AllPermute(result):
            return _permuted(tiles, elements(result, mesh))


def _group(device: int, axes: tuple[str, ...], mesh: Mesh) -> list[int]:
    """Return the devices that differ from this one only along these axes, including itself."""
    here = mesh.coordinates(device)
    places = product(*(range(mesh.sizes[axis]) for axis in axes))
    return [mesh.device(here | dict(zip(axes, place, strict=True))) for place in places]


def _part(tile: Mapping[Point, Value], dimension: int, axes: tuple[str, ...], device: int,
          mesh: Mesh) -> Tile[Value]:
    """Return the part of a tile that belongs to a device.

    The tile is cut along one dimension, and the device's coordinates on the axes, minor to major, number the
    parts.
    """
    number, parts = 0, 1
    for axis in axes:
        number += parts * mesh.coordinates(device)[axis]
        parts *= mesh.sizes[axis]
    rows = sorted({index[dimension] for index in tile})
    width = len(rows) // parts
    kept = set(rows[number * width:(number + 1) * width])
    return {index: value for index, value in tile.items() if index[dimension] in kept}


def _union(tiles: Iterator[Tile[Value]]) -> Tile[Value]:
    """Return all elements of several tiles, which hold no element twice."""
    found: Tile[Value] = {}
    for tile in tiles:
        assert not found.keys() & tile.keys(), "a collective delivers no element twice"
        found |= tile
    return found


def _permuted(tiles: list[Tile[Value]], wanted: list[frozenset[Point]]) -> list[Tile[Value]]:
    """Give whole tiles to the devices that want them, each device's tile to one device (lemma 5.1)."""
    senders: dict[frozenset[Point], list[Tile[Value]]] = {}
    for tile in tiles:
        senders.setdefault(frozenset(tile), []).append(tile)
    return [dict(senders[indices].pop()) for indices in wanted]


def same_weak_type(one: DistributedType, other: DistributedType, mesh: Mesh) -> bool:
    """Do two types differ by a permutation of the devices alone (definition 5.2)?"""
    return sorted(map(sorted, elements(one, mesh))) == sorted(map(sorted, elements(other, mesh)))


def steps(before: DistributedType, mesh: Mesh) -> Iterator[Collective]:
    """Enumerate all collectives but permutations that the typing rules allow, of any number of axes."""
    sizes, free = mesh.sizes, [axis for axis, _ in mesh.axes if axis not in before.axes]
    dimensions = before.dimensions
    for i, dimension in enumerate(dimensions):
        for axes in arrangements(free):
            if dimension.tile % prod(sizes[axis] for axis in axes) == 0:
                yield DynSlice(i, axes)
        for end in range(1, len(dimension.axes) + 1):
            axes = dimension.axes[:end]
            yield AllGather(i, axes)
            for j, other in enumerate(dimensions):
                if j != i and other.tile % prod(sizes[axis] for axis in axes) == 0:
                    yield AllToAll(i, j, axes)


def arrangements(axes: list[str]) -> Iterator[tuple[str, ...]]:
    """Enumerate the non-empty sequences of different axes."""
    for axis in axes:
        yield (axis,)
        yield from ((axis, *rest) for rest in arrangements([other for other in axes if other != axis]))
