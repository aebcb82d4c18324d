"""Checks a description by running the operator on the parts that the description defines.

papers/002 takes descriptions for granted; here every one can be refuted: for each loop, cut into two and
three parts, the function runs on the elements that each part reads according to the description, and must
compute those that it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy

from diffuse.ir import IndexTask, Store
from diffuse.movement.boxes import Box, tile
from diffuse.spec import running
from diffuse.spec.opspec import OpSpec
from diffuse.spec.tiling import tiled


class Mismatch(NamedTuple):
    """The evidence that refutes a description."""

    loop: str
    parts: int
    """The number of parts that the loop was cut into."""
    part: int
    """The part that differs; -1 for the combination of all."""
    reason: str

    def __str__(self) -> str:
        where = "all parts together" if self.part < 0 else f"part {self.part}"
        return f"loop {self.loop} in {self.parts} parts, {where}: {self.reason}"


def mismatches(spec: OpSpec, function: Callable[..., Any], operands: Sequence[Any],
               counts: Sequence[int] = (2, 3)) -> list[Mismatch]:
    """Run a function on parts of its operands as a description cuts them, each loop into each number of
    parts.

    `operands` are arrays of the described shapes.  Returns the differences from the whole beyond the rounding
    of sums in another order; none if the description holds for these operands.  Raises ValueError if the
    operands do not fit the description.
    """
    arrays = [numpy.asarray(each) for each in operands]
    whole = running.outputs(function, arrays)
    results = [use.operand for use in spec.writes]
    if len(whole) != len(results):
        raise ValueError(f"the description has {len(results)} results, the function returns {len(whole)}")
    stores = [Store(k, a.shape, a.dtype.name) for k, a in enumerate(arrays)]
    stores += [Store(len(stores) + k, a.shape, a.dtype.name) for k, a in enumerate(whole)]
    found = []
    for loop in spec.loops:
        for count in counts:
            if loop.extent >= count:
                task = tiled(spec, stores, {loop.name: count})
                found += _along(spec, task, loop.name, count, function, arrays, whole)
    return found


def verified(spec: OpSpec, function: Callable[..., Any], *operands: Any, counts: Sequence[int] = (2, 3)
             ) -> OpSpec:
    """The description, if running the function on parts of these operands does not refute it.

    Raises ValueError with each loop, part and index at which a part differs from the whole, or with the
    exception that the function raises on a part; also for a function of which two runs differ.
    """
    arrays = [numpy.asarray(each) for each in operands]
    running.repeatable(function, arrays)
    found = mismatches(spec, function, arrays, counts)
    if found:
        raise ValueError(f"{spec} does not describe {function!r}:\n" + "\n".join(map(str, found)))
    return spec


def _along(spec: OpSpec, task: IndexTask, name: str, count: int, function: Callable[..., Any],
           arrays: list[Any], whole: list[Any]) -> list[Mismatch]:
    """The mismatches of the parts of one loop."""
    number = spec.loop(name)
    reads, writes = task.accesses[:len(spec.reads)], task.accesses[len(spec.reads):]
    found, parts, weights = [], [], []
    for point in range(count):
        low, high = task.splits[0].range(point, count, spec.shape[number])
        if low == high:
            continue
        needed = list(arrays)
        for operand in {use.operand for use in spec.reads}:
            boxes = [tile(access.partition, (point,), access.store.shape)
                     for use, access in zip(spec.reads, reads, strict=True) if use.operand == operand]
            needed[operand] = arrays[operand][hull(boxes)]
        try:
            made = running.outputs(function, needed)
        except Exception as error:  # any exception refutes that the function runs on this part
            found.append(Mismatch(name, count, point, f"raises {type(error).__name__}: {error}"))
            continue
        if spec.loops[number].reduced:
            parts.append(made)
            weights.append(high - low)
            continue
        for k, (access, part) in enumerate(zip(writes, made, strict=True)):
            box = hull([tile(access.partition, (point,), access.store.shape)])
            part = trimmed(part, spec, number, k, low, high)
            found += _compared(name, count, point, k, part, whole[k][box])
    if spec.loops[number].reduced and len(parts) == sum(map(bool, weights)) and not found:
        for k, expected in enumerate(whole):
            folded = running.fold(str(spec.reducer), [part[k] for part in parts], weights)
            found += _compared(name, count, -1, k, numpy.asarray(folded, expected.dtype), expected)
    return found


def hull(boxes: Sequence[Box]) -> tuple[slice, ...]:
    """The smallest slices that contain all boxes; a single strided box keeps its step."""
    found = []
    for ranges in zip(*boxes, strict=True):
        steps = {r.step for r in ranges}
        step = steps.pop() if len(steps) == 1 and len(ranges) == 1 else 1
        found.append(slice(min(r.start for r in ranges), max(r.stop for r in ranges), step))
    return tuple(found)


def trimmed(part: Any, spec: OpSpec, loop: int, result: int, low: int, high: int) -> Any:
    """The result of a part without the elements computed from padding at joints."""
    for trim in spec.trims:
        if trim.loop == loop:
            map = spec.writes[result].map
            axis = next(d for d, (_, terms) in enumerate(map.rows) if any(k == loop for k, _ in terms))
            below = min(trim.below, low)
            above = min(trim.above, spec.shape[loop] - high)
            cut = [slice(None)] * part.ndim
            cut[axis] = slice(below, part.shape[axis] - above)
            part = part[tuple(cut)]
    return part


def _compared(loop: str, count: int, point: int, result: int, found: Any, expected: Any) -> list[Mismatch]:
    index = running.differing(found, expected)
    if index is None:
        return []
    if found.shape != expected.shape or found.dtype != expected.dtype:
        reason = (f"result {result} has shape {found.shape} and type {found.dtype}, not {expected.shape} and "
                  f"{expected.dtype}")
    else:
        reason = f"result {result} at {index} is {found[index]}, not {expected[index]}"
    return [Mismatch(loop, count, point, reason)]
