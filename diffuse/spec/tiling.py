"""Turns a description and a grid into an index task: which part of each operand every point reads and writes.

"Partition work, not data" (papers/000): a grid is laid over the loops, and the communication constraint of
each operand, which that work finds by symbolic execution, follows in closed form from its access map
(`diffuse.ir.tiling`).  Extents that a grid does not divide leave short or empty last tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from diffuse.ir import Access, Decomposition, IndexTask, Point, Privilege, Split, Store, Tiling, tiling
from diffuse.spec.opspec import Indexing, OpSpec


def tiled(spec: OpSpec, operands: Sequence[Store], grid: Mapping[str, int], operation: str = "operator"
          ) -> IndexTask:
    """The index task that runs an operator over a grid: `grid` gives the number of points of each loop that
    is cut.

    A result is reduced into (privilege REDUCE) where a reduced loop is cut, else written.  Raises ValueError
    for an unknown loop, fewer points than one, and missing operands.
    """
    numbers = [spec.loop(name) for name in grid]
    for name, points in grid.items():
        if points < 1:
            raise ValueError(f"grid: {points} points along loop {name}; give at least 1")
    last = max(use.operand for use in (*spec.reads, *spec.writes))
    if last >= len(operands):
        raise ValueError(f"operator on {last + 1} operands: {len(operands)} stores are given")
    cut = sorted((loop, points) for loop, points in zip(numbers, grid.values(), strict=True) if points > 1)
    splits = tuple([Split(loop, max(1, -(-spec.shape[loop] // points))) for loop, points in cut])
    decomposition = Decomposition(tuple([points for _, points in cut]) or (1,), splits or (Split(-1, 0),))
    reduces = spec.reducer if any(spec.loops[loop].reduced for loop, _ in cut) else None
    accesses = [_access(use, operands, spec.shape, splits, Privilege.READ) for use in spec.reads]
    accesses += [_access(use, operands, spec.shape, splits,
                         Privilege.REDUCE if reduces else Privilege.WRITE, reduces) for use in spec.writes]
    signature = tuple([access.store.dtype for access in accesses])
    return IndexTask(operation, signature, spec.shape, tuple(accesses), (), decomposition)


def _access(use: Indexing, operands: Sequence[Store], shape: Point, splits: tuple[Split, ...],
            privilege: Privilege, operator: str | None = None) -> Access:
    store = operands[use.operand]
    if len(store.shape) != len(use.map.rows):
        raise ValueError(f"operand {use.operand} has {len(use.map.rows)} dimensions, not shape {store.shape}")
    partition = tiling(store, use.map, shape, splits)
    if use.reach and isinstance(partition, Tiling):
        partition = _reaching(partition, use.reach, store)
    return Access(store, use.map, privilege, operator, partition)


def _reaching(partition: Tiling, reach: tuple[tuple[int, int], ...], store: Store) -> Tiling:
    """The partition whose tiles include borders of so many elements below and above, within the store, and
    what lies between their elements."""
    return replace(
        partition,
        stride=tuple([1 if low or high else step for step, (low, high) in
                      zip(partition.stride, reach, strict=True)]),
        offset=tuple([o - low for o, (low, _) in zip(partition.offset, reach, strict=True)]),
        extent=tuple([(n - 1) // step * step + 1 + low + high if low or high else n for n, step, (low, high)
                      in zip(partition.extent, partition.stride, reach, strict=True)]),
        bounds=tuple([(max(0, b[0] - low), min(size, b[1] + high)) for b, (low, high), size
                      in zip(partition.bounds, reach, store.shape, strict=True)]))
