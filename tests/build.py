"""Short names for building windows by hand: stores sliced as NumPy slices, and tasks over the slices.

    a, b = array(0, 10), array(1, 10)
    task("add", [a[:-1], a[1:]], b[:-1], points=4)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from diffuse.fusion.canonical import Numbering
from diffuse.ir import (
    Access,
    AccessMap,
    Decomposition,
    IndexTask,
    Point,
    Privilege,
    Scalar,
    Split,
    Store,
    tiling,
)

Row = tuple[int, tuple[tuple[int, int], ...]]
Rows = tuple[Row, ...]


@dataclass(frozen=True)
class Region:
    """Part of a store, as an affine map from its own indices to the store's coordinates."""

    store: Store
    rows: Rows
    shape: Point
    free: Point = ()
    turned: tuple[tuple[int, int], ...] = ()

    def __getitem__(self, items: int | slice | tuple[int | slice, ...]) -> Region:
        """Basic indexing: slices with any step, and integers that drop a dimension."""
        cuts = items if isinstance(items, tuple) else (items,)
        starts, steps, shape, kept = [], [], [], []
        for k, n in enumerate(self.shape):
            cut = cuts[k] if k < len(cuts) else slice(None)
            if isinstance(cut, int):
                starts.append(cut % n)
                steps.append(0)
                continue
            run = range(*cut.indices(n))
            kept.append(k)
            starts.append(run.start)
            steps.append(run.step)
            shape.append(len(run))
        rows = []
        for offset, terms in self.rows:
            moved = tuple((kept.index(k), s * steps[k]) for k, s in terms if k in kept)
            rows.append((offset + sum(s * starts[k] for k, s in terms), moved))
        return Region(self.store, tuple(rows), tuple(shape))

    @property
    def T(self) -> Region:
        last = len(self.shape) - 1
        return self.renamed({k: last - k for k in range(last + 1)}, self.shape[::-1])

    def diagonal(self) -> Region:
        return self.renamed({0: 0, 1: 0}, (min(self.shape),))

    def to(self, shape: Point) -> Region:
        """The region broadcast to a shape by NumPy's rule."""
        lead = len(shape) - len(self.shape)
        return self.renamed({k: k + lead for k, n in enumerate(self.shape) if n == shape[k + lead]}, shape)

    def kept(self, shape: Point, axes: Sequence[int]) -> Region:
        """The output of a reduction over `shape` that keeps `axes`."""
        return self.renamed(dict(enumerate(axes)), shape)

    def renamed(self, target: dict[int, int], shape: Point) -> Region:
        rows = tuple((offset, tuple((target[k], s) for k, s in terms if k in target))
                     for offset, terms in self.rows)
        return Region(self.store, rows, shape)

    def gathered(self) -> Region:
        """Elements of the first dimension at indices that are data; for a task over any shape."""
        rows = tuple((offset, tuple(t for t in terms if t[0])) for offset, terms in self.rows)
        free = tuple(d for d, (_, terms) in enumerate(self.rows) if any(k == 0 for k, _ in terms))
        return Region(self.store, rows, self.shape, free)

    def turn(self, *axes: int) -> Region:
        """The region shifted cyclically along these dimensions; for a task over its own shape."""
        return replace(self, turned=tuple((k, self.shape[k]) for k in axes))

    def frame(self, *shape: int, dtype: str | None = None) -> Region:
        """The whole memory of the store in another shape or element type."""
        return array(self.store.id, *shape, dtype=dtype or self.store.dtype)


def array(id: int, *shape: int, dtype: str = "float64") -> Region:
    """The whole of a store."""
    return Region(Store(id, shape, dtype), tuple((0, ((d, 1),)) for d in range(len(shape))), shape)


def split(shape: Point, points: int | Point, axis: int | Point = 0) -> tuple[Split, ...]:
    """Equal tiles along one axis for each launch dimension; axis -1 cuts nothing."""
    domain = (points,) if isinstance(points, int) else points
    axes = (axis,) if isinstance(axis, int) else axis
    return tuple(Split(a, -(-shape[a] // n)) if a >= 0 and shape else Split(-1, 0)
                 for a, n in zip(axes, domain, strict=True))


def access(region: Region, shape: Point, splits: tuple[Split, ...], privilege: Privilege,
           operator: str | None = None) -> Access:
    map = AccessMap(region.rows, region.free, region.turned)
    return Access(region.store, map, privilege, operator, tiling(region.store, map, shape, splits))


def task(operation: str, reads: Iterable[Region | float], writes: Region | Sequence[Region], *,
         points: int | Point = 1, axis: int | Point = 0, where: object = None) -> IndexTask:
    """An elementwise task over the shape of its first output; reads are broadcast to it."""
    outputs = [writes] if isinstance(writes, Region) else list(writes)
    shape = outputs[0].shape
    return over(shape, operation, reads, [(w, Privilege.WRITE, None) for w in outputs], points, axis, where)


def reduction(operator: str, source: Region, target: Region, axes: Sequence[int] = (), *,
              points: int | Point = 1, axis: int | Point = 0, where: object = None) -> IndexTask:
    """Reduce `source` to `target`, which keeps `axes`; over several points a REDUCE where those meet."""
    target = target.kept(source.shape, axes)
    splits = split(source.shape, points, axis)
    several = any(s.axis not in axes and s.axis >= 0 and s.tile < source.shape[s.axis] for s in splits)
    output = (target, Privilege.REDUCE, operator) if several else (target, Privilege.WRITE, None)
    return over(source.shape, operator, [source], [output], points, axis, where)


def over(shape: Point, operation: str, reads: Iterable[Region | float],
         writes: Sequence[tuple[Region, Privilege, str | None]], points: int | Point = 1,
         axis: int | Point = 0, where: object = None) -> IndexTask:
    """Any task: what it reads, and what it does to its outputs, over an iteration space."""
    splits = split(shape, points, axis)
    accesses, scalars = [], []
    for position, x in enumerate(reads):
        if isinstance(x, Region):
            view = x if x.free or x.turned else x.to(shape)
            accesses.append(access(view, shape, splits, Privilege.READ))
        else:
            scalars.append(Scalar(position, "float64", x))
    accesses += [access(w, shape, splits, privilege, operator) for w, privilege, operator in writes]
    signature = tuple(a.store.dtype for a in accesses) + tuple(s.dtype for s in scalars)
    domain = (points,) if isinstance(points, int) else points
    return IndexTask(operation, signature, shape, tuple(accesses), tuple(scalars),
                     Decomposition(domain, splits), where)


def key(window: Sequence[IndexTask], live: Container[int] = ()) -> tuple[Any, ...]:
    """The name of a window: equal for isomorphic windows whose corresponding stores are equally live."""
    numbering = Numbering()
    rows = tuple([numbering.row(task) for task in window])
    return rows, tuple([id in live for id in numbering.slots])
