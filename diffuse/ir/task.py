"""The data model of Diffuse: stores, partitions, privileges, accesses and index tasks.

The grammar (papers/003, figure 3, with the corrections that `Tiling` explains)::

    Partition     ::= Replicated | Tiling(tile, offset, stride, projection, extent, bounds)
    Privilege     ::= READ | WRITE | READ_WRITE | REDUCE (with its operator, on the access)
    Access        ::= Access(Store, AccessMap, Privilege, operator, Partition)
    Decomposition ::= Decomposition(domain, splits, gaps, completes)
    IndexTask     ::= IndexTask(operation, signature, shape, accesses, scalars, Decomposition, where)

A library says what an operation computes: its tasks have no decomposition and no partitions.  Both are chosen
when the task stands in the window among others (stream/decompose.py); analyses see tasks that have them.
Everything is an immutable value, compared by value, and knows neither NumPy nor a machine: its size
does not depend on the number of points.  What is made once per recorded operation (`Store`, `Access`,
`IndexTask`, `Scalar`) is a named tuple, which Python builds four times faster than a frozen dataclass;
what is made once per view and then shared is a frozen dataclass.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any, NamedTuple

from diffuse.ir.partition import Partition, Replicated

Point = tuple[int, ...]

ITEMSIZE = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8,
    "uint64": 8, "float16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
}
"""Bytes of one element in memory, by NumPy's names of the element types."""


class Frame(NamedTuple):
    """A store without its id: row-major memory of this shape and element type."""

    shape: Point
    dtype: str


class Store(NamedTuple):
    """A distributed array.  Equal ids share storage.

    Two stores of one id and different shape or dtype are two *frames* of the same row-major memory
    (what `reshape`, `.real` and `.view` need); their accesses are compared conservatively.
    """

    id: int
    shape: Point
    dtype: str
    """NumPy's name of the element type ("float64"), which is not interpreted in this package."""


class Privilege(Enum):
    """The privilege of a task on a sub-store (papers/003, section 3.1)."""

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


WHOLE = Replicated()


@dataclass(frozen=True, slots=True)
class AccessMap:
    """The affine map from iteration indices to store coordinates.

    One row per store dimension: `(offset, ((iteration dimension, step), ...))`.  An iteration dimension
    that no row names is broadcast (for a read) or reduced (for a REDUCE or a reducing WRITE).
    """

    rows: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    free: Point = ()
    """Store dimensions with data-dependent coordinates, such as the column of a sparse matrix's element: an
    iteration may read any index.  Their rows are `(offset, ())`, where the offset is that of index 0 of the
    data."""
    turned: tuple[tuple[int, int], ...] = ()
    """Iteration dimensions, with their extents, along which a read is cyclically shifted by a data-dependent
    number, as `numpy.roll` shifts: an iteration may read any index along them."""

    def __call__(self, index: Point) -> Point:
        return tuple(offset + sum(step * index[k] for k, step in terms) for offset, terms in self.rows)

    def follows(self, dimension: int) -> bool:
        """Does any store coordinate depend on this iteration dimension?"""
        return any(k == dimension for _, terms in self.rows for k, _ in terms)

    @property
    def simple(self) -> bool:
        """Does each store coordinate depend on at most one iteration dimension, and each dimension move at
        most one?"""
        followed = [k for _, terms in self.rows for k, _ in terms]
        return len(followed) == len(set(followed)) and all(len(terms) < 2 for _, terms in self.rows)

    def classes(self, rank: int) -> str:
        """The stride class along each iteration dimension: `0` if the access does not move, `1` if it moves
        to the neighbouring element of a row-major store, `s` for any other stride."""
        letters = ["0"] * rank
        last = len(self.rows) - 1
        for number, (_, terms) in enumerate(self.rows):
            for dimension, step in terms:
                near = number == last and step == 1 and letters[dimension] == "0"
                letters[dimension] = "1" if near else "s"
        return "".join(letters)


class Access(NamedTuple):
    """One argument of a task: this store, at these elements, with this privilege, split this way."""

    store: Store
    map: AccessMap
    privilege: Privilege
    operator: str | None = None
    """The reduction operator ("sum", "min", ...) of a REDUCE, else None."""
    partition: Partition = WHOLE
    """The part of the store that each point accesses; all of it until the task is decomposed."""


class Scalar(NamedTuple):
    """An input passed by value.  The value is data, not structure: no key and no kernel depends on it."""

    position: int
    """The position among the inputs of the operation; stores that are read fill the other positions in
    order."""
    dtype: str
    value: Any


class Where(NamedTuple):
    """The user's call that issued a task: a code object and an instruction, resolved to a line on demand."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Split(NamedTuple):
    """The cut of the iteration space by one launch dimension: `tile` indices of `axis` per point (axis -1: no
    cut)."""

    axis: int
    tile: int
    begin: int | None = None
    """With None, the first tile begins at index 0; with a number, that many indices before it.  The cuts then
    coincide with those of a task over rows that begin earlier or later; the first and the last point also run
    the indices before and after all tiles."""

    def range(self, point: int, points: int, extent: int) -> tuple[int, int]:
        """The indices low <= i < high, of an axis of length `extent`, that point `point` of `points` runs."""
        if self.begin is None:
            return min(point * self.tile, extent), min((point + 1) * self.tile, extent)
        low, high = [min(max(p * self.tile - self.begin, 0), extent) for p in (point, point + 1)]
        return (low if point else 0), (high if point < points - 1 else extent)


class Decomposition(NamedTuple):
    """The division of an iteration space among the points of a launch domain: one split per launch
    dimension."""

    domain: Point
    """The extents of the launch domain."""
    splits: tuple[Split, ...]
    gaps: bool = False
    """May there be gaps between the rows of a store?  There may be where a runtime places stores itself."""
    completes: bool = False
    """Does a point that folds whole rows complete their results itself?  Not where other kernels or machines
    combine the points' folds."""


ONE = Decomposition((1,), (Split(-1, 0),))
"""The decomposition into one point."""


class IndexTask(NamedTuple):
    """A group of point tasks over a launch domain (papers/003, section 3.2).

    Point p runs the operation on the iteration indices `i` with, for each launch dimension d,
    `low <= i[axis] < high` where `low, high = splits[d].range(p[d], domain[d], shape[axis])`.
    """

    operation: str
    signature: tuple[str, ...]
    """Element types the operation computes in: its inputs' in order, then its outputs'."""
    shape: Point
    """Extents of the iteration space."""
    accesses: tuple[Access, ...]
    """Reads in input order, then outputs."""
    scalars: tuple[Scalar, ...] = ()
    decomposition: Decomposition | None = None
    """None where the stream is to choose it."""
    where: Any = None
    """The place in the program: any object whose `str` is the user's line."""

    @property
    def domain(self) -> Point:
        """The extents of the launch domain; the task has to be decomposed."""
        assert self.decomposition is not None
        return self.decomposition.domain

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits; the task has to be decomposed."""
        assert self.decomposition is not None
        return self.decomposition.splits


def volume(domain: Point) -> int:
    """The number of points of a rectangle at the origin."""
    return prod(domain)


def tile_length(extent: int, parts: int, unit: int = 1) -> int:
    """The length of the tiles that cut an extent into at most so many parts: the least multiple of `unit`."""
    return -(-(-(-extent // parts)) // unit) * unit


def first_points(points: int, ranks: int) -> list[int]:
    """The number of each rank's first point, and the number of all points: they are divided evenly, so that
    point `k` belongs to rank `k * ranks // points`."""
    return [-(-rank * points // ranks) for rank in range(ranks + 1)]


def is_epilogue(task: IndexTask) -> bool:
    """Is the task small enough to run as an epilogue, when all points of the tasks before it are done?

    It has one point, and one element of every store: a program's computations with the results of reductions.
    """
    return not task.shape and volume(task.domain) <= 1 and all([volume(a[0][1]) == 1 for a in task.accesses])
