"""Decides which fused tasks store their result with non-temporal stores, which bypass the caches.

A processor reads a cache line before it writes to it, unless the store is non-temporal. If a task accesses
more memory than the caches hold, its result has left them before it is read again, and such stores save a
quarter to a third of the memory traffic. They gain nothing where the result goes to memory of an operand,
which is in the cache by then: a stencil of 3000 x 3000 that writes back to its own array takes twice as long.
On a Xeon with two processors, whose host has 480 MB of cache, and 5e6 elements, `x + y` takes 0.9 of the time
in a loop and 0.65 after a pause of 10 ms; `exp`, `log`, `sin` and `tanh` of 2e7 elements take 0.72 to 0.78,
but `power` 1.06.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import prod

from diffuse.ir import ITEMSIZE, Access, IndexTask, Privilege
from diffuse.ir.view import shown
from diffuse.kernels.body.compose import Composition
from diffuse.kernels.body.expr import Loop
from diffuse.kernels.body.operations import TABLE
from diffuse.runtime.machine import cache_share
from diffuse.stream.plan import TIMES

ROW = 512
"""The least extent of the innermost loop, as each row begins with partial steps up to an aligned address."""
LIGHT, LIGHTEST = 64, 32
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


def streams(composition: Composition, tasks: Sequence[IndexTask], live: Container[int],
            resting: Container[int], ranks: int) -> bool:
    """Does the first result of a group leave the caches of each of so many ranks before it is read?

    `live` are the stores that are used after the group, `resting` those that the program holds and no
    recorded task uses. A result that is not among these is read soon, and an operand that is used no more was
    written just before: neighbouring groups may run together, row by row.
    """
    body = composition.body
    if len(body.loops) != 1 or body.epilogue or not body.loops[0].order or not _light(body.loops[0]):
        return False
    shape = tasks[composition.spaces[body.loops[0].space]].shape
    if shape[body.loops[0].order[-1]] < ROW:
        return False
    accesses = [tasks[t].accesses[k] for t, k in composition.arguments]
    written = {access.store.id: access for access in accesses if access.privilege is Privilege.WRITE}
    read = {access.store.id for access in accesses if access.privilege is not Privilege.WRITE}
    if not written or not read.isdisjoint(written) or not all([store in live for store in read]):
        return False
    sizes: dict[int, int] = {}
    for access in accesses:
        sizes[access.store.id] = max(_bytes(access), sizes.get(access.store.id, 0))
    first, whole = next(iter(written)), sum(sizes.values())
    wide = ITEMSIZE[shown(written[first]).dtype] >= WIDE
    return (wide and whole >= least() * ranks and 4 * sizes[first] >= whole
            and all([store in resting for store in written]))


def _bytes(access: Access) -> int:
    """The memory of the elements that a task accesses."""
    view = shown(access)
    return ITEMSIZE[view.dtype] * prod([n for n, s in zip(view.shape, view.strides, strict=True) if s])
