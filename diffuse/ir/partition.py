"""Partitions: the part of a store that each point of a launch domain accesses, and properties of
partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod
from typing import TYPE_CHECKING, NamedTuple

from diffuse.bounded import Recurring

if TYPE_CHECKING:
    from diffuse.ir.task import Access, AccessMap, Point, Split, Store


class Coordinate(NamedTuple):
    """One component of a projection: `weight * p[dim] + offset`."""

    dim: int
    weight: int
    offset: int


@dataclass(frozen=True, slots=True)
class Projection:
    """A function from launch points to tile coordinates, as data: equal functions are equal values."""

    coordinates: tuple[Coordinate, ...]

    def __call__(self, point: Point) -> Point:
        return tuple(c.offset + (c.weight * point[c.dim] if c.weight else 0) for c in self.coordinates)


@dataclass(frozen=True, slots=True)
class Replicated:
    """Every point accesses the whole store (the paper's None)."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """Affine tiles of a view.  All fields but `projection` hold one entry per store dimension.

    Point p owns, in dimension d, the elements `start + k * stride[d]` with `0 <= k * stride[d] < extent[d]`
    and `start = projection(p)[d] * tile[d] + offset[d]`, as far as they lie in `bounds[d] = (low, high)`, the
    half-open box of the view.  `extent` exceeds `tile` when tiles overlap, as halos do.  (The paper's printed
    upper end, `proj(p + 1) * tile`, gives empty tiles for a dropped coordinate.)  If the split has a `begin`,
    the first and the last point also own the elements within bounds before and after all tiles.
    """

    tile: Point
    offset: Point
    stride: Point
    projection: Projection
    extent: Point
    bounds: tuple[tuple[int, int], ...]


Partition = Replicated | Tiling


class Rows(NamedTuple):
    """The rows that points run of a task that was cut into tiles of `before` rows: point p runs those from
    `tile * p + low` to `tile * (p + 1) + high`, as far as there are any."""

    before: int
    tile: int
    low: int
    high: int

    @property
    def same(self) -> bool:
        """Does each point run its own tile?"""
        return self.before == self.tile and self.low == self.high == 0

    def of(self, partition: Partition) -> Partition:
        """The partition of an access that only reads, given the one under the task's own tiles: each point
        has at least the elements of the rows that it runs.

        A dimension of the store moves by a number of elements for each row, forward or backward; it is cut
        into tiles as long as that many rows.
        """
        if self.same or isinstance(partition, Replicated):
            return partition
        tiles, offsets, extents = [*partition.tile], [*partition.offset], [*partition.extent]
        for d, coordinate in enumerate(partition.projection.coordinates):
            if coordinate.weight:
                step = tiles[d] // self.before
                longer = step * (self.tile + self.high - self.low - self.before)
                offsets[d] += step * self.low if coordinate.weight > 0 else -step * self.low - longer
                tiles[d] = step * self.tile
                extents[d] += longer
        return replace(partition, tile=tuple(tiles), offset=tuple(offsets), extent=tuple(extents))


def tiling(store: Store, map: AccessMap, shape: Point, splits: tuple[Split, ...]) -> Partition:
    """The canonical partition of an access: the elements that each point accesses when `splits` cut `shape`.

    Equal meaning, equal description: an access that no split moves over the whole store is `Replicated`.
    """
    tiles: list[int] = []
    turned = {k for k, _ in map.turned}
    offsets, strides, coordinates, extents, bounds = [], [], [], [], []
    for (offset, terms), size in zip(map.rows, store.shape, strict=True):
        low = offset + sum(min(0, step * (shape[k] - 1)) for k, step in terms)
        high = offset + sum(max(0, step * (shape[k] - 1)) for k, step in terms) + 1
        if len(tiles) in map.free:  # a data-dependent coordinate: the whole dimension
            low, high = 0, size
        stride = gcd(*(step for k, step in terms if shape[k] > 1)) or 1
        coordinate, tile, start, extent = Coordinate(0, 0, 0), high - low, low, high - low
        moving = [(d, split) for d, split in enumerate(splits)
                  if any(k == split.axis for k, _ in terms)
                  and (shape[split.axis] > split.tile or split.begin is not None)
                  and split.axis not in turned]
        if len(moving) == 1:  # a row moved by two launch dimensions is not a tile: the whole dimension
            d, split = moving[0]
            step = sum(s for k, s in terms if k == split.axis)
            tile = abs(step) * split.tile
            rest = (high - low) - abs(step) * (shape[split.axis] - 1)
            reach = rest + abs(step) * (split.tile - 1)
            # a tile of a strided view counts as long as its pitch, so that equal pitches compare equal
            extent = max(tile, reach)
            coordinate = Coordinate(d, 1 if step > 0 else -1, 0)
            start = (low if step > 0 else high - reach) - step * (split.begin or 0)
        tiles.append(tile)
        offsets.append(start)
        strides.append(stride)
        coordinates.append(coordinate)
        extents.append(extent)
        bounds.append((low, high))
    whole = all(b == (0, n) for b, n in zip(bounds, store.shape, strict=True))
    if whole and all(s == 1 for s in strides) and not any(c.weight for c in coordinates):
        return Replicated()
    return Tiling(tuple(tiles), tuple(offsets), tuple(strides), Projection(tuple(coordinates)),
                  tuple(extents), tuple(bounds))


def disjoint(partition: Partition, domain: Point) -> bool:
    """Are the elements of different points disjoint?  Derived from the structure, not by enumerating points.

    Sometimes cautious (where clipping empties a tile), never wrong.  Writes of a task of several points must
    be disjoint: only then are the four constraints sound.
    """
    match partition:
        case Replicated():
            return prod(domain) <= 1
        case Tiling():
            kept = {
                c.dim
                for c, tile, extent in zip(partition.projection.coordinates, partition.tile, partition.extent,
                                           strict=True)
                if c.weight and extent <= abs(c.weight) * tile
            }
            return all(n <= 1 or d in kept for d, n in enumerate(domain))


def covers(access: Access) -> bool:
    """Do the points together access every element of the access's store?

    True only when the map is onto: one whole, stride-1 run per store dimension, each iteration dimension
    used at most once (a diagonal's bounding box is the store, its elements are not).
    """
    name = id(access.map), id(access.partition), access.store.shape
    found = _covering.get(name)
    if found is None:
        found = _covering[name] = (_covers(access), access)
    return found[0]


_covering: dict[tuple[int, int, Point], tuple[bool, Access]] = Recurring()
"""What `covers` said of maps and partitions, by identity; the access keeps these alive."""


def _covers(access: Access) -> bool:
    rows, free, turned = access.map.rows, access.map.free, access.map.turned
    used = [k for _, terms in rows for k, _ in terms]
    if free or turned or len(used) != len(set(used)) or any(len(terms) > 1 for _, terms in rows):
        return False
    match access.partition:
        case Replicated():
            return True
        case Tiling(stride=stride, bounds=bounds):
            return all(s == 1 for s in stride) and all(
                b == (0, n) for b, n in zip(bounds, access.store.shape, strict=True))
