"""Decides which fused tasks store their result with non-temporal stores, which bypass the caches.

A processor reads a cache line before it writes to it, unless the store is non-temporal. If a task accesses
more memory than the caches hold, its result has left them before it is read again, and such stores save a
quarter to a third of the memory traffic.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import prod

from diffuse.ir import ITEMSIZE, IndexTask, Privilege
from diffuse.ir.view import shown
from diffuse.kernels.body.compose import Composition
from diffuse.runtime.machine import cache_bytes

ROW = 512
"""The least extent of the innermost loop, as each row begins with partial steps up to an aligned address."""
WIDE = 4
"""The least bytes of an element: smaller elements do not fill a cache line at once."""


def least() -> int:
    """The least bytes that a task has to read and write so that its result leaves the caches."""
    return cache_bytes(3) * 3 // 2


def streams(composition: Composition, tasks: Sequence[IndexTask], alive: Container[int], ranks: int) -> bool:
    """Does the first result of a group leave the caches of each of so many ranks before it is read?

    Stores that the program does not hold are read soon: the next group may run together with this one, row by
    row.
    """
    body = composition.body
    if len(body.loops) != 1 or body.epilogue or not body.loops[0].order:
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
            and ITEMSIZE[views[written[0]].dtype] >= WIDE and 4 * sizes[written[0]] >= sum(sizes))
