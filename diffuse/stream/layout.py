"""Layouts: describe the accesses of a launch, for a runtime that places the memory of stores itself.

A runtime whose memory is not shared cannot be given addresses.  It gets, for each argument of the kernel, the
access (store, map, partition) and the word of the block where the address belongs; and for each reduction the
part of its partials that every point fills (kernels/body/abi.py has their order).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Protocol

from diffuse.ir import ITEMSIZE, Frame, IndexTask, Privilege
from diffuse.ir.loops import ROWS, SEGMENT
from diffuse.ir.partition import Rows
from diffuse.kernels.body import abi
from diffuse.kernels.body.compose import Composition
from diffuse.kernels.body.expr import Body
from diffuse.kernels.body.operations import INDEXED
from diffuse.runtime.base import LaunchArgument, Layout, Plane, Scratch
from diffuse.stream.group import Group
from diffuse.stream.replay import Replay


class Composed(Protocol):
    """The attributes of a plan from which layouts are made."""

    @property
    def composition(self) -> Composition: ...

    @property
    def title(self) -> str: ...

    @property
    def layouts(self) -> dict[tuple[object, ...], Layout]:
        """The layouts made so far, by the views and extents of the tasks."""
        ...

    def partial_bytes(self, tasks: Sequence[IndexTask]) -> tuple[int, ...]:
        """Bytes of the partials buffer of each reduction."""
        ...


def replayed(replay: Replay, group: Group, storages: Mapping[int, Frame]) -> Layout:
    """The layout of a replay's launch for a group on the replay's trail.  The trail determines it but for
    the shapes of the memory; making the index tasks that tell it takes longer than recording the group."""
    recorded = group.recorded
    frames = tuple([storages[recorded[t][1][k]] for t, k in replay.plan.composition.arguments])
    if replay.layout is None or replay.frames != frames:
        replay.frames, replay.layout = frames, layout(replay.plan, group.tasks, storages)
    return replay.layout


def layout(plan: Composed, tasks: Sequence[IndexTask], storages: Mapping[int, Frame]) -> Layout:
    """The layout of a plan's launch for these tasks: the same object for equal views and extents."""
    composition = plan.composition
    key: list[object] = [tasks[0].domain, *[(tasks[t].shape, tasks[t].splits) for t in composition.spaces]]
    for number, position in composition.arguments:
        store, view, *_ = tasks[number].accesses[position]
        storage = storages[store.id]
        key += (id(view), storage.shape, storage.dtype)  # the layout keeps the view alive, and its id unique
    name = tuple(key)
    found = plan.layouts.get(name)
    if found is None:
        found = plan.layouts[name] = _layout(plan, tasks, storages)
    return found


def _layout(plan: Composed, tasks: Sequence[IndexTask], storages: Mapping[int, Frame]) -> Layout:
    composition = plan.composition
    body, places = composition.body, abi.words(composition.body)
    many = prod(tasks[0].domain) > 1
    shared = [many and number not in body.whole for number in range(len(abi.reductions(body)))]
    folded = {reduction.argument for reduction, several in zip(abi.reductions(body), shared, strict=True)
              if several}
    late = {loop.space for loop in body.loops[len(body.loops) - body.epilogue:]}
    arguments = []
    for k, ((number, position), argument, word) in enumerate(zip(composition.arguments, body.arguments,
                                                                 places.arguments, strict=True)):
        access = tasks[number].accesses[position]
        storage = storages[access.store.id]
        arguments.append(LaunchArgument(word, argument.slot, (storage.shape, storage.dtype), access,
                                  Privilege.REDUCE if k in folded else argument.privilege,
                                  argument.space in late))
    scratch = tuple(
        Scratch(word, nbytes, planes(body, number, tasks[composition.spaces[space(body, reduction)]])
                if shared[number] else ())
        for number, (word, nbytes, reduction) in enumerate(zip(
            places.partials, plan.partial_bytes(tasks), abi.reductions(body), strict=True)))
    if not many:
        return Layout(tuple(arguments), scratch, plan.title, tasks[0].domain)
    from diffuse.stream.gathers import gathers

    return Layout(tuple(arguments), scratch, plan.title, tasks[0].domain, gathers(body))


def joined(first: Layout, second: Layout, begins: tuple[int, int], run: Rows, ids: Sequence[int],
           inner: Collection[int], memory: dict[tuple[object, ...], Layout]) -> Layout:
    """The layout of two fused tasks that run as one pass, whose blocks begin at these words of its block; its
    header is before them.

    `run` are the rows of the first task that each point runs; `ids` are the stores of the arguments of both;
    those in `inner` exist only within the pass.
    """
    places: dict[int, int] = {}
    slots = tuple(places.setdefault(store, len(places)) for store in ids)

    name = "pass", first, second, begins, run, slots
    found = memory.get(name)
    if found is None:
        shifts = [begins[0]] * len(first.arguments) + [begins[1]] * len(second.arguments)
        above = [a._replace(access=a.access._replace(partition=run.of(a.access.partition)))
                 for a in first.arguments]
        arguments = (a._replace(word=a.word + shift, slot=slot) for a, shift, slot, store in zip(
            (*above, *second.arguments), shifts, slots, ids, strict=True) if store not in inner)
        title = f"{first.title} and {second.title}"
        found = memory[name] = Layout(tuple(arguments), (), title, second.domain, header=begins[0])
    return found


def space(body: Body, reduction: abi.Reduction) -> int:
    """The space of a reduction's loop."""
    return body.loops[reduction.loop].space


def planes(body: Body, number: int, task: IndexTask) -> tuple[Plane, ...]:
    """How the points of a task divide the partials of a reduction."""
    reduction = abi.reductions(body)[number]
    extents, kept = task.shape, abi.kept(body, reduction)
    reduced = [d for d in range(len(extents)) if d not in kept]
    rows = abi.by_rows(len(extents), kept)
    length = SEGMENT if rows else ROWS
    order = [*kept, *reduced] if rows else [*reduced, *kept]
    counts = [-(-extents[d] // length) if reduced and d == reduced[-1] else extents[d] for d in order]
    cuts = {axis: (launch, -(-tile // length) if reduced and axis == reduced[-1] else tile)
            for launch, (axis, tile, _) in enumerate(task.splits) if axis >= 0}
    shape: list[int] = []
    tiles, run = [], 1
    for d, count in zip(order, counts, strict=True):
        if d not in cuts:  # adjacent dimensions that are not cut are merged
            run *= count
            continue
        shape += [run] * (run > 1)
        tiles.append((len(shape), *cuts[d]))
        shape.append(count)
        run = 1
    item = ITEMSIZE[reduction.dtype]
    leaves = prod([counts[order.index(d)] for d in reduced[1:]]) if number in body.parts else 0
    found = [Plane(0, (*shape, run * item), tuple(tiles), leaves)]
    if reduction.operator in INDEXED:
        found.append(Plane(abi.index_plane(prod(counts) * item), (*shape, run * 8), tuple(tiles), leaves))
    return tuple(found)
