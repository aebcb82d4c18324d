"""Host functions on parts of their arrays: the layouts of a call that declares where it is independent."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm, prod
from typing import Any

from diffuse.ir import IndexTask, Split, tiling
from diffuse.ir.bounded import Bounded
from diffuse.ir.loops import ROWS, SEGMENT
from diffuse.ir.view import View, shown
from diffuse.observe.floaterrors import KINDS, Suspects
from diffuse.runtime.base import LaunchArgument, Layout
from diffuse.runtime.independent import Independent
from diffuse.settings import config
from diffuse.stream.decompose import LONG
from diffuse.stream.stores import Stores


class Parts:
    """Runs host functions in parts, and remembers which of them may have raised floating-point exceptions."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self.called: dict[tuple[str, Any], None] = {}
        """The names and lines of calls whose exceptions nobody asked for yet."""

    def run(self, task: IndexTask) -> bool:
        """Run a host function in parts if it may be and the runtime can; else return False."""
        function, runtime = task.scalars[0].value, self._stores.runtime
        if type(function) is not Independent or runtime.ranks == 1 or not hasattr(runtime, "call_parts"):
            return False
        import numpy

        views = [shown(access) for access in task.accesses]
        instances: list[Any] = [self._stores.instance(access.store.id) for access in task.accesses]
        largest = max(views, key=lambda view: prod(view.shape))
        tiles = [part_length(_length(views, cut), prod(largest.shape), runtime.points, function.multiple,
                             len(largest.shape) == 1) for cut in function.cuts]
        layouts = [self._layout(task, views, cut, tile)
                   for cut, tile in zip(function.cuts, tiles, strict=True)]

        def part(number: int, first: int, points: int) -> int:
            """Run the function on some points of a layout; returns the exceptions that it raised."""
            low, high = first * tiles[number], (first + points) * tiles[number]
            flags = 0

            def note(kind: str, flag: int) -> None:
                nonlocal flags
                flags |= flag

            arrays = []
            for view, instance, axis in zip(views, instances, function.cuts[number], strict=True):
                array = numpy.ndarray(view.shape, view.dtype, instance.array, view.offset, view.strides)
                arrays.append(array if axis is None else array[(slice(None),) * axis + (slice(low, high),)])
            with numpy.errstate(all="call", call=note):
                function.part(low, arrays)
            return flags

        runtime.call_parts(layouts, instances, part)
        self.called[task.operation.rpartition(".")[2], task.where] = None
        return True

    def suspects(self) -> Suspects:
        """What may have raised any exception since this was asked last."""
        called, self.called = tuple(self.called), {}
        return dict.fromkeys(KINDS, called)

    def _layout(self, task: IndexTask, views: Sequence[View], cut: tuple[int | None, ...], tile: int
                ) -> Layout:
        """The layout of a call that is cut so: the same object for equal views."""
        places: dict[int, int] = {}
        slots = tuple([places.setdefault(access.store.id, len(places)) for access in task.accesses])
        storages = self._stores.storages
        frames = tuple([storages[access.store.id] for access in task.accesses])
        key = (task.operation, str(task.where), cut, tile, slots, frames, tuple(views),
               tuple([access.privilege for access in task.accesses]))
        found = _layouts.get(key)
        if found is None:
            arguments = []
            for slot, frame, access, view, axis in zip(slots, frames, task.accesses, views, cut, strict=True):
                splits = () if axis is None else (Split(axis, tile),)
                placed = access._replace(partition=tiling(access.store, view, view.shape, splits))
                arguments.append(LaunchArgument(0, slot, frame, placed, access.privilege))
            domain = (-(-_length(views, cut) // tile),)
            found = _layouts[key] = Layout(tuple(arguments), (), f"{task.operation} [{task.where}]", domain)
        return found


_layouts: dict[tuple[object, ...], Layout] = Bounded()


def _length(views: Sequence[View], cut: tuple[int | None, ...]) -> int:
    """The number of indices along the axes of a cut."""
    return next(view.shape[axis] for view, axis in zip(views, cut, strict=True) if axis is not None)


def part_length(length: int, elements: int, processors: int, multiple: int = 1, line: bool = False) -> int:
    """How many of `length` indices a part has: as many as fused tasks give to a point, so that arrays stay
    where those put them.  The largest array has so many `elements`, maybe along a single axis."""
    points = max(1, min(processors, elements // config.min_chunk))
    tile = -(-length // points)
    unit = 1 if tile < LONG else SEGMENT if line else ROWS
    unit = lcm(unit, multiple)
    return -(-tile // unit) * unit
