"""Runs host functions, on whole arrays or on parts: the layouts of a call that declares where it is
independent."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import lcm, prod
from typing import Any, NamedTuple

from diffuse.bounded import Bounded
from diffuse.ir import ITEMSIZE, Frame, IndexTask, Point, Privilege, Split, tiling
from diffuse.ir.loops import ROWS, SEGMENT
from diffuse.ir.view import View, shown
from diffuse.observe import provenance, trace
from diffuse.observe.floaterrors import KINDS, Suspects
from diffuse.runtime.base import LaunchArgument, Layout
from diffuse.runtime.independent import Ends, Independent, Peers, Some
from diffuse.settings import config
from diffuse.stream.decompose import LONG
from diffuse.stream.stores import Stores


class Parts:
    """Runs host functions, whole or in parts, and records which may have raised floating-point exceptions."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self.called: dict[tuple[str, Any], None] = {}
        """The names and lines of calls whose exceptions have not been reported."""

    def call(self, task: IndexTask) -> None:
        """Run a host function on NumPy arrays of its operands: in parts if it can be, otherwise once."""
        trace.counters["launched"] += 1
        if self.run(task):
            return
        before = trace.counters[trace.BYTES["downloads"]]
        arrays = []
        trace.hosting = task.operation, task.where
        try:
            for access in task.accesses:
                write = access.privilege is not Privilege.READ
                memory = self._stores.runtime.host(self._stores.instance(access.store.id), write)
                arrays.append(_array(shown(access), memory))
        finally:
            trace.hosting = None
        trace.hosted(task.operation, before)
        function = task.scalars[0].value
        outer, provenance.running = provenance.running, task.where
        try:
            self._stores.runtime.call(lambda: function(*arrays))
        finally:
            provenance.running = outer

    def run(self, task: IndexTask) -> bool:
        """Run a host function in parts, if it allows that and the runtime supports it; else return False."""
        runtime = self._stores.runtime
        if not runtime.in_parts(max([prod(access.store.shape) * ITEMSIZE[access.store.dtype]
                                     for access in task.accesses], default=0)):
            return False
        divided = division(task, runtime.points)
        if divided is None:
            return False
        function, grids = divided.function, divided.grids
        views = [shown(access) for access in task.accesses]
        instances: list[Any] = [self._stores.instance(access.store.id) for access in task.accesses]
        layouts = divided.layouts(task, self._stores.storages)
        if function.together:
            run = self._chained if len(divided.grids[0]) > 1 else self._together
            run(divided, layouts[0], views, instances)
            self._ran(task)
            return True

        def part(number: int, first: int, points: int) -> int:
            """Run the function on some points of a layout; returns the exceptions that it raised."""
            arrays = [_array(view, held.array) for view, held in zip(views, instances, strict=True)]

            def run() -> None:
                for low, block in _blocks(grids[number], layouts[number].domain, first, points):
                    function.part(low, [array[box] for array, box in zip(arrays, block, strict=True)])

            return _noted(run)

        runtime.call_parts(layouts, instances, part)
        self._ran(task)
        return True

    def _together(self, divided: DividedCall, layout: Layout, views: Sequence[View], instances: Sequence[Any]
                  ) -> None:
        """Run a function that all ranks run at once, each on its parts of arrays of any lengths."""
        runtime = self._stores.runtime
        ((cut, tiles),), = divided.grids
        lengths = _lengths(views, cut)

        def run(peers: Callable[[Ends], Peers], firsts: Sequence[int], rank: int) -> int:
            """Run the function as this rank, given the first point of each rank and the end of the last."""
            ends = tuple([tuple([min(first * tile, n) for first in firsts])
                          for tile, n in zip(tiles, lengths, strict=True)])
            arrays = [_part(view, instance, axis, *some[rank:rank + 2])
                      for view, instance, axis, some in zip(views, instances, cut, ends, strict=True)]
            return _noted(lambda: divided.function.function(peers(ends), *arrays))

        runtime.call_together(layout, instances, run)

    def _chained(self, divided: DividedCall, layout: Layout, views: Sequence[View], instances: Sequence[Any]
                 ) -> None:
        """Run a function on a grid of blocks.  Ranks with terms of the same block of the result add them up,
        in the order of the last launch dimension; each rank has one block at most."""
        runtime = self._stores.runtime
        grid, = divided.grids
        chain, (tile, *_) = layout.domain[-1], grid[-1][1]
        ends = tuple([tile * number for number in range(chain + 1)])

        def run(peers: Callable[[Ends], Peers], firsts: Sequence[int], rank: int) -> int:
            arrays = [_array(view, instance.array) for view, instance in zip(views, instances, strict=True)]
            if len(firsts) == 2:  # it has all blocks
                return _noted(lambda: divided.function(*arrays))
            first, after = firsts[rank:rank + 2]
            (_, boxes), = _blocks(grid, layout.domain, first if after > first else 0, 1)
            begin = first - first % chain
            some = [bisect_right(firsts, point) - 1 for point in range(begin, begin + chain)]
            blocks = [array[box] for array, box in zip(arrays, boxes, strict=True)]
            rows = (*[0] * chain, len(blocks[-1]))
            mine = Some(peers((ends, ends, rows)), some if after > first else [], (ends, ends, rows))
            return _noted(lambda: divided.function.function(mine, *blocks))

        runtime.call_together(layout, instances, run)

    def _ran(self, task: IndexTask) -> None:
        self.called[task.operation.rpartition(".")[2], task.where] = None

    def suspects(self) -> Suspects:
        """The calls that may have raised each exception since the last query."""
        called, self.called = tuple(self.called), {}
        return dict.fromkeys(KINDS, called)


Grid = tuple[tuple[tuple[int | None, ...], tuple[int, ...]], ...]
"""For each launch dimension of a call the axis of each array that it cuts, and the length of its tiles."""
_layouts: dict[tuple[object, ...], Layout] = Bounded(1 << 12)


class DividedCall(NamedTuple):
    """How ranks divide a call of a host function among them."""

    function: Independent
    grids: tuple[Grid, ...]
    """Several, of which the runtime takes the one that moves least; one if all ranks call the function
    together."""

    def layouts(self, task: IndexTask, storages: Mapping[int, Frame]) -> list[Layout]:
        """The layout of the call on each grid."""
        views = [shown(access) for access in task.accesses]
        return [_layout(task, views, grid, storages) for grid in self.grids]


def division(task: IndexTask, points: int) -> DividedCall | None:
    """How ranks that have so many points in all divide a call; None if every rank runs all of it."""
    function = task.scalars[0].value
    if type(function) is not Independent:
        return None
    views = [shown(access) for access in task.accesses]
    if function.together:
        return DividedCall(function, (_together(function, views, points),))
    if len(task.splits) > 1 and task.splits[-1].axis == len(function.cuts):  # in blocks that ranks add up
        return _in_sums(task, function)
    if task.splits and task.splits[0].axis == len(function.cuts):  # a region chose that ranks add up
        sums = None if function.sums is None else function.sums()
        assert sums is not None
        return DividedCall(sums.call, (_together(sums.call, views, points),))
    if prod(task.domain) > 1:  # a grid of blocks that a region of the program chose
        return DividedCall(function, (tuple([(function.cuts[split.axis], (split.tile,) * len(views))
                                             for split in task.splits]),))
    if function.blocks is not None:
        return None
    largest = max(views, key=lambda view: prod(view.shape))
    tiles = [part_length(_length(views, cut), prod(largest.shape), points, function.multiple,
                         len(largest.shape) == 1) for cut in function.cuts]
    return DividedCall(function, tuple([((cut, (tile,) * len(views)),)
                                        for cut, tile in zip(function.cuts, tiles, strict=True)]))


def _in_sums(task: IndexTask, function: Independent) -> DividedCall:
    """A call on a grid of blocks that a program named, and over which it cuts a folded axis."""
    parts = [1] * (len(function.cuts) + 1)
    for n, split in zip(task.domain, task.splits, strict=True):
        parts[split.axis] = n
    sums = None if function.folds is None else function.folds(tuple(parts))
    assert sums is not None
    cuts = *function.cuts, *sums.call.cuts
    return DividedCall(sums.call, (tuple([(cuts[split.axis], (split.tile,) * len(task.accesses))
                                          for split in task.splits]),))


def _together(function: Independent, views: Sequence[View], points: int) -> Grid:
    """The grid of a function that all ranks run at once."""
    cut, = function.cuts
    return (cut, part_lengths(_lengths(views, cut), views, points)),


def _lengths(views: Sequence[View], cut: tuple[int | None, ...]) -> list[int]:
    """The lengths of the axes of a cut; 0 for an array that it leaves whole."""
    return [0 if axis is None else view.shape[axis] for view, axis in zip(views, cut, strict=True)]


def _layout(task: IndexTask, views: Sequence[View], grid: Grid, storages: Mapping[int, Frame]) -> Layout:
    """The layout of a call on this grid: the same object for equal views."""
    places: dict[int, int] = {}
    slots = tuple([places.setdefault(access.store.id, len(places)) for access in task.accesses])
    frames = tuple([storages[access.store.id] for access in task.accesses])
    key = (task.operation, str(task.where), grid, slots, frames, tuple(views),
           tuple([access.privilege for access in task.accesses]))
    found = _layouts.get(key)
    if found is None:
        arguments = []
        for k, (slot, frame, access, view) in enumerate(zip(slots, frames, task.accesses, views,
                                                            strict=True)):
            axes = [cut[k] for cut, _ in grid]
            splits = tuple([Split(-1, 0) if axis is None else Split(axis, tiles[k])
                            for axis, (_, tiles) in zip(axes, grid, strict=True)])
            placed = access._replace(partition=tiling(access.store, view, view.shape, splits))
            arguments.append(LaunchArgument(0, slot, frame, placed, access.privilege))
        domain = tuple([max([1, *[-(-view.shape[axis] // tile) for view, axis, tile in
                                  zip(views, cut, tiles, strict=True) if axis is not None]])
                        for cut, tiles in grid])
        found = _layouts[key] = Layout(tuple(arguments), (), f"{task.operation} [{task.where}]", domain)
    return found


def _blocks(grid: Grid, domain: Point, first: int, points: int
            ) -> Iterator[tuple[int, list[tuple[slice, ...]]]]:
    """Yield the blocks of the points from `first` on.  Points that follow one another along the last launch
    dimension form one block, of which this gives the first index along that dimension, and the part of each
    array."""
    at = first
    while at < first + points:
        place: list[int] = []
        rest = at
        for n in reversed(domain):
            place.insert(0, rest % n)
            rest //= n
        run = min(first + points - at, domain[-1] - place[-1])
        found: list[dict[int, slice]] = [{} for _ in grid[0][0]]
        for d, (cut, tiles) in enumerate(grid):
            after = place[d] + (run if d == len(grid) - 1 else 1)
            for held, axis, tile in zip(found, cut, tiles, strict=True):
                if axis is not None:
                    held[axis] = slice(place[d] * tile, after * tile)
        yield place[-1] * max(grid[-1][1]), [
            tuple([held.get(d, slice(None)) for d in range(max(held, default=-1) + 1)]) for held in found]
        at += run


def _array(view: View, memory: Any) -> Any:
    """The array that a view shows in the memory of a store."""
    import numpy

    return numpy.ndarray(view.shape, view.dtype, memory, view.offset, view.strides)


def _part(view: View, instance: Any, axis: int | None, low: int, high: int) -> Any:
    """The elements of an array between two indices along an axis, in the memory of a store."""
    array = _array(view, instance.array)
    return array if axis is None else array[(slice(None),) * axis + (slice(low, high),)]


def _noted(run: Callable[[], None]) -> int:
    """Run a function; returns the floating-point exceptions that it raised."""
    import numpy

    flags = 0

    def note(kind: str, flag: int) -> None:
        nonlocal flags
        flags |= flag

    with numpy.errstate(all="call", call=note):
        run()
    return flags


def _length(views: Sequence[View], cut: tuple[int | None, ...]) -> int:
    """The number of indices along the axes of a cut."""
    return next(view.shape[axis] for view, axis in zip(views, cut, strict=True) if axis is not None)


def part_lengths(lengths: Sequence[int], views: Sequence[View], points: int) -> Point:
    """The lengths of the parts of several arrays along axes of these lengths, 0 for one that is not cut:
    arrays of one length are cut alike."""
    largest: dict[int, View] = {}
    for n, view in zip(lengths, views, strict=True):
        largest[n] = max(largest.get(n, view), view, key=lambda each: prod(each.shape))
    return tuple([part_length(n, prod(largest[n].shape), points, 1, len(largest[n].shape) == 1) if n else 1
                  for n in lengths])


def part_length(length: int, elements: int, processors: int, multiple: int = 1, line: bool = False) -> int:
    """The length of the parts of `length` indices: as many as fused tasks give to a point, so that data stays
    where those tasks put it.  The largest array has `elements` elements, maybe along a single axis."""
    points = max(1, min(processors, elements // config.min_chunk))
    tile = -(-length // points)
    unit = 1 if tile < LONG else SEGMENT if line else ROWS
    unit = lcm(unit, multiple)
    return -(-tile // unit) * unit
