"""Decides which fused tasks store their result with non-temporal stores, which bypass the caches.

A processor reads a cache line before it writes to it, unless the store is non-temporal. If a task accesses
more memory than the caches hold, its result has left them before it is read again, and such stores save a
quarter to a third of the memory traffic. They gain nothing where the result takes over the memory of an
operand, which is in the cache by then. Tasks that compute much for each element are slower with them: on a
Xeon with two processors and 5e6 elements, additions, `where` and polynomials take 0.65 to 0.85 of the time,
but `log` and `sin` 1.6 times and `power` 2.2 times as long.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import prod

from diffuse.ir import ITEMSIZE, IndexTask, Privilege
from diffuse.ir.view import shown
from diffuse.kernels.body.compose import Composition
from diffuse.kernels.body.expr import Loop
from diffuse.kernels.body.operations import TABLE
from diffuse.runtime.machine import cache_share
from diffuse.stream.plan import TIMES, donations

ROW = 512
"""The least extent of the innermost loop, as each row begins with partial steps up to an aligned address."""
LIGHT, LIGHTEST = 24, 7
"""The most additions that a task computes for each element in all, and in one operation."""
WIDE = 4
"""The least bytes of an element: smaller elements do not fill a cache line at once."""


def least() -> int:
    """The least bytes that a task has to read and write so that its result leaves the caches."""
    return cache_share() * 3 // 2


def _light(loop: Loop) -> bool:
    """Does a loop take longer for its loads and stores than for its operations?"""
    costs = [TIMES.get(op.kind) or TABLE[op.kind].cost for op in loop.ops if op.kind in TABLE]
    return sum(costs) <= LIGHT and max(costs, default=0) <= LIGHTEST


def streams(composition: Composition, tasks: Sequence[IndexTask], live: Container[int], alive: Container[int],
            ranks: int) -> bool:
    """Does the first result of a group leave the caches of each of so many ranks before it is read?

    `live` are the stores that are used after the group, `alive` those that the program holds. Others are read
    soon: the next group may run together with this one, row by row.
    """
    body = composition.body
    if len(body.loops) != 1 or body.epilogue or not body.loops[0].order or not _light(body.loops[0]):
        return False
    shape = tasks[composition.spaces[body.loops[0].space]].shape
    if shape[body.loops[0].order[-1]] < ROW:
        return False
    accesses = [tasks[t].accesses[k] for t, k in composition.arguments]
    views = [shown(access) for access in accesses]
    sizes = [ITEMSIZE[view.dtype] * prod([n for n, s in zip(view.shape, view.strides, strict=True) if s])
             for view in views]
    if sum(sizes) < least() * ranks:
        return False
    written = [k for k, access in enumerate(accesses) if access.privilege is Privilege.WRITE]
    return (bool(written) and all([accesses[k].store.id in alive for k in written])
            and ITEMSIZE[views[written[0]].dtype] >= WIDE and 4 * sizes[written[0]] >= sum(sizes)
            and not donations(composition, tasks, live))
