"""The nouns of Diffuse: stores, partitions, privileges, accesses and index tasks.

The grammar (papers/003, figure 3, with the corrections that `Tiling` explains)::

    Partition ::= Replicated | Tiling(tile, offset, stride, projection, extent, bounds)
    Privilege ::= READ | WRITE | READ_WRITE | REDUCE (with its operator, on the access)
    Access    ::= Access(Store, AccessMap, Partition, Privilege, operator)
    IndexTask ::= IndexTask(operation, signature, shape, domain, splits, accesses, scalars, where)

Everything is an immutable value, compared by value, and knows neither NumPy nor a machine: its size
does not depend on the number of points.  What is made once per recorded operation (`Store`, `Access`,
`IndexTask`, `Scalar`) is a named tuple, which Python builds four times faster than a frozen dataclass;
what is made once per view and then shared is a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import gcd, prod
from typing import Any, NamedTuple

Point = tuple[int, ...]

ITEMSIZE = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8,
    "uint64": 8, "float16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
}
"""Bytes of one element in memory, by NumPy's names of the element types."""


class Store(NamedTuple):
    """A distributed array.  Equal ids share storage.

    Two stores of one id and different shape or dtype are two *frames* of the same row-major memory
    (what `reshape`, `.real` and `.view` need); their accesses are compared conservatively.
    """

    id: int
    shape: Point
    dtype: str
    """NumPy's name of the element type ("float64"); data to this floor, never interpreted here."""


class Privilege(Enum):
    """What a task may do to a sub-store (papers/003, section 3.1)."""

    READ = "R"
    WRITE = "W"
    READ_WRITE = "RW"
    REDUCE = "Rd"

    # Enum members are singletons; Python's own hash goes through the name and is slow on this hot path.
    __hash__ = object.__hash__

    @property
    def reads(self) -> bool:
        return self is Privilege.READ or self is Privilege.READ_WRITE

    @property
    def writes(self) -> bool:
        return self is Privilege.WRITE or self is Privilege.READ_WRITE


class Coordinate(NamedTuple):
    """One component of a projection: `weight * p[dim] + offset`."""

    dim: int
    weight: int
    offset: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A launch coordinate while a projection is traced; supports `+ int` and `* int` only."""

    dim: int
    weight: int = 1
    offset: int = 0

    def __add__(self, other: int) -> Symbol:
        return Symbol(self.dim, self.weight, self.offset + int(other))

    __radd__ = __add__

    def __mul__(self, other: int) -> Symbol:
        return Symbol(self.dim, self.weight * int(other), self.offset * int(other))

    __rmul__ = __mul__


@dataclass(frozen=True, slots=True)
class Projection:
    """A function from launch points to tile coordinates, as data: equal functions are equal values."""

    coordinates: tuple[Coordinate, ...]

    @staticmethod
    def of(rank: int, function: Callable[..., tuple[Any, ...]]) -> Projection:
        """Trace `function` once on `rank` symbolic coordinates; constants become weight 0."""
        traced = function(*(Symbol(d) for d in range(rank)))
        return Projection(
            tuple(
                Coordinate(c.dim, c.weight, c.offset) if isinstance(c, Symbol) and c.weight
                else Coordinate(0, 0, c.offset if isinstance(c, Symbol) else int(c))
                for c in traced
            )
        )

    def __call__(self, point: Point) -> Point:
        return tuple(c.offset + (c.weight * point[c.dim] if c.weight else 0) for c in self.coordinates)


@dataclass(frozen=True, slots=True)
class Replicated:
    """Every point sees the whole store (the paper's None)."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """Affine tiles of a view.  All fields but `projection` hold one entry per store dimension.

    Point p owns, in dimension d, the elements `start + k * stride[d]` with `0 <= k * stride[d] < extent[d]`
    and `start = projection(p)[d] * tile[d] + offset[d]`, as far as they lie in `bounds[d] = (low, high)`,
    the half-open box of the view.  `extent` exceeds `tile` when tiles overlap, as halos do.  (The paper's
    printed upper end, `proj(p + 1) * tile`, gives empty tiles for a dropped coordinate.)
    """

    tile: Point
    offset: Point
    stride: Point
    projection: Projection
    extent: Point
    bounds: tuple[tuple[int, int], ...]


Partition = Replicated | Tiling


@dataclass(frozen=True, slots=True)
class AccessMap:
    """The affine map from iteration indices to store coordinates.

    One row per store dimension: `(offset, ((iteration dimension, step), ...))`.  An iteration dimension
    that no row names is broadcast (for a read) or reduced (for a REDUCE or a reducing WRITE).
    """

    rows: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    free: Point = ()
    """Store dimensions whose coordinate is data, such as the column of a sparse matrix's element: an
    iteration may read any of them.  Their rows are `(offset, ())`, where the numbering of the data begins."""

    def __call__(self, index: Point) -> Point:
        return tuple(offset + sum(step * index[k] for k, step in terms) for offset, terms in self.rows)

    def follows(self, dimension: int) -> bool:
        """Does any store coordinate move with this iteration dimension?"""
        return any(k == dimension for _, terms in self.rows for k, _ in terms)

    def classes(self, rank: int) -> str:
        """How the access moves along each iteration dimension: `0` not at all, `1` to the neighbouring
        element of a row-major store, `s` by any other stride."""
        letters = ["0"] * rank
        last = len(self.rows) - 1
        for number, (_, terms) in enumerate(self.rows):
            for dimension, step in terms:
                near = number == last and step == 1 and letters[dimension] == "0"
                letters[dimension] = "1" if near else "s"
        return "".join(letters)


class Access(NamedTuple):
    """One argument of a task: this store, at these elements, split this way, with this privilege."""

    store: Store
    map: AccessMap
    partition: Partition
    privilege: Privilege
    operator: str | None = None
    """The reduction operator ("sum", "min", ...) of a REDUCE, else None."""


class Scalar(NamedTuple):
    """An input given by value.  The value is data, never structure: it enters no key and no kernel."""

    position: int
    """Which input of the operation it is; stores that are read fill the other positions in order."""
    dtype: str
    value: Any


class Where(NamedTuple):
    """The user's call that issued a task: a code object and an instruction, resolved to a line on demand."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Split(NamedTuple):
    """How one launch dimension cuts the iteration space: `tile` indices of `axis` a point (axis -1: none)."""

    axis: int
    tile: int


class IndexTask(NamedTuple):
    """A group of point tasks over a launch domain (papers/003, section 3.2).

    Point p runs the operation on the iteration indices `i` with, for each launch dimension d,
    `p[d] * tile <= i[axis] < (p[d] + 1) * tile` where `(axis, tile) = splits[d]`, clipped to `shape`.
    """

    operation: str
    signature: tuple[str, ...]
    """Element types the operation computes in: its inputs' in order, then its outputs'."""
    shape: Point
    """Extents of the iteration space."""
    domain: Point
    """Extents of the launch domain."""
    splits: tuple[Split, ...]
    accesses: tuple[Access, ...]
    """Reads in input order, then outputs."""
    scalars: tuple[Scalar, ...] = ()
    where: Any = None
    """Anything whose `str` names the user's line."""


def volume(domain: Point) -> int:
    """Number of points of a rectangle starting at the origin."""
    return prod(domain)


def concludes(task: IndexTask) -> bool:
    """Is the task so small that it may run at the end of others, when all their points are done?

    One point, one element of every store: what a program computes with the results of reductions.
    """
    return not task.shape and volume(task.domain) <= 1 and all([volume(a[0][1]) == 1 for a in task.accesses])


def tiling(store: Store, map: AccessMap, shape: Point, splits: tuple[Split, ...]) -> Partition:
    """The canonical partition of an access: what each point touches when `splits` cut `shape`.

    Equal meaning, equal description: an access no split moves over the whole store is `Replicated`.
    """
    tiles: list[int] = []
    offsets, strides, coordinates, extents, bounds = [], [], [], [], []
    for (offset, terms), size in zip(map.rows, store.shape, strict=True):
        low = offset + sum(min(0, step * (shape[k] - 1)) for k, step in terms)
        high = offset + sum(max(0, step * (shape[k] - 1)) for k, step in terms) + 1
        if len(tiles) in map.free:  # the image of data that nobody looks at: all of the dimension
            low, high = 0, size
        stride = gcd(*(step for k, step in terms if shape[k] > 1)) or 1
        coordinate, tile, start, extent = Coordinate(0, 0, 0), high - low, low, high - low
        moving = [(d, split) for d, split in enumerate(splits)
                  if any(k == split.axis for k, _ in terms) and shape[split.axis] > split.tile]
        if len(moving) == 1:  # a row moved by two launch dimensions has no tile description: whole, then
            d, split = moving[0]
            step = sum(s for k, s in terms if k == split.axis)
            tile = abs(step) * split.tile
            rest = (high - low) - abs(step) * (shape[split.axis] - 1)
            reach = rest + abs(step) * (split.tile - 1)
            # a tile of a strided view counts as long as its pitch, so that equal pitches compare equal
            extent = max(tile, reach)
            coordinate = Coordinate(d, 1 if step > 0 else -1, 0)
            start = low if step > 0 else high - reach
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
    """Does no element belong to two points?  Answered from the structure, never from the points.

    Sometimes cautious (where clipping empties a tile), never wrong.  What a task of several points
    writes must be disjoint: the four constraints are sound only then.
    """
    match partition:
        case Replicated():
            return volume(domain) <= 1
        case Tiling():
            kept = {
                c.dim
                for c, tile, extent in zip(partition.projection.coordinates, partition.tile, partition.extent,
                                           strict=True)
                if c.weight and extent <= abs(c.weight) * tile
            }
            return all(n <= 1 or d in kept for d, n in enumerate(domain))


def covers(access: Access) -> bool:
    """Do the points together touch every element of the access's store?

    True only when the map is onto: one whole, stride-1 run per store dimension, each iteration dimension
    used at most once (a diagonal's bounding box is the store, its elements are not).
    """
    used = [k for _, terms in access.map.rows for k, _ in terms]
    if access.map.free or len(used) != len(set(used)) or any(len(terms) > 1 for _, terms in access.map.rows):
        return False
    match access.partition:
        case Replicated():
            return True
        case Tiling(stride=stride, bounds=bounds):
            return all(s == 1 for s in stride) and all(
                b == (0, n) for b, n in zip(bounds, access.store.shape, strict=True))


class Relation(Enum):
    """How the elements of two accesses to one store meet, over all points.  Found in constant time."""

    SAME = "same"
    """Equal maps and partitions: over one iteration space, iteration i of one touches exactly what iteration
    i of the other does; over different ones, elements still meet within one point only."""
    APART = "apart"
    """No element is touched by both."""
    ALIGNED = "aligned"
    """Different elements may meet, but only within one point."""
    ALIAS = "alias"
    """Elements may meet across points: communication."""

    __hash__ = object.__hash__


def relation(a: Access, b: Access, domain: Point) -> Relation:
    """Compare two accesses to one storage (equal store ids) on a launch domain, privileges aside."""
    if a.store == b.store:
        if _apart(a.partition, b.partition):
            return Relation.APART
        if a.map == b.map and a.partition == b.partition:
            return Relation.SAME if disjoint(a.partition, domain) else Relation.ALIAS
        if _aligned(a.partition, b.partition, domain):
            return Relation.ALIGNED
    return Relation.ALIGNED if volume(domain) <= 1 else Relation.ALIAS


def _apart(a: Partition, b: Partition) -> bool:
    """Bounding boxes that do not meet in some dimension, or combs of one pitch that never coincide."""
    if isinstance(a, Replicated) or isinstance(b, Replicated):
        return False
    # a program that walks over rows compares each with all others: the commonest answer comes first
    for (alow, ahigh), (blow, bhigh) in zip(a.bounds, b.bounds, strict=True):
        if ahigh <= blow or bhigh <= alow:
            return True
    combs = zip(a.bounds, b.bounds, a.stride, b.stride, strict=True)
    return any((low - other) % gcd(s, t) for (low, _), (other, _), s, t in combs)


def _aligned(a: Partition, b: Partition, domain: Point) -> bool:
    """Is there, for every launch dimension, a store dimension that both cut at the same places?"""
    if isinstance(a, Replicated) or isinstance(b, Replicated):
        return False
    cut = {
        ca.dim
        for ca, cb, ta, tb, oa, ob, ea, eb in zip(
            a.projection.coordinates, b.projection.coordinates, a.tile, b.tile, a.offset, b.offset,
            a.extent, b.extent, strict=True)
        if ca.weight and ca == cb and ta == tb and oa == ob and max(ea, eb) <= abs(ca.weight) * ta
    }
    return all(n <= 1 or d in cut for d, n in enumerate(domain))
