"""Lost stores, whose contents could not be computed: an operation failed, or an interrupt came before it was
done.  What depends on them is lost, too.

An array is at hand if no task of this epoch touched its store: its memory is then read without a question.
A lost store must not be at hand for as long as the program holds it, and all others have to be.  So in each
new epoch lost stores count as touched.
"""

from __future__ import annotations

import gc
import time
import weakref
from collections import deque
from copy import copy
from itertools import starmap
from typing import TYPE_CHECKING, Any

from diffuse.ir import IndexTask, Privilege, covers
from diffuse.stream.stores import Storage, Stores

if TYPE_CHECKING:
    from diffuse.stream.queue import Queue

SHARE = 20
"""A search for handles takes at most one part in so many of the program's time."""


def lose(stores: Stores, tasks: list[IndexTask], error: Exception | str) -> None:
    """Mark what these tasks write as lost, because of an error or of an interrupt with this name; reading a
    lost store raises it."""
    span = f"the operations recorded at {tasks[0].where} to {tasks[-1].where}"
    if isinstance(error, MemoryError):
        error.add_note(f"needed by {span}")
    if isinstance(error, str):
        error = RuntimeError(f"{error} came before {span} were done")
    for task in tasks:
        for access in task.accesses:
            if access.privilege is not Privilege.READ:
                stores.lost[access.store.id] = copy(error)  # without the frames that hold the store


def follow(stores: Stores, tasks: list[IndexTask]) -> bool:
    """Propagate losses to dependent stores; stores that are written anew recover.  Returns whether any task
    is left to run."""
    lost, some = stores.lost, False
    for task in tasks:
        errors = [lost[access.store.id] for access in task.accesses
                  if access.privilege is not Privilege.WRITE and access.store.id in lost]
        for access in task.accesses:
            if access.privilege is not Privilege.READ:
                if errors:
                    lost[access.store.id] = errors[0]
                elif covers(access):
                    lost.pop(access.store.id, None)
        some = some or not errors
    return some


class Losses:
    """Finds the handles of lost stores: a task knows only the number of a store."""

    __slots__ = ("_stores", "_known", "_next")

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._known: dict[int, weakref.ref[Storage]] = {}
        """The handles that the last search found."""
        self._next = 0.0
        """The time before which there is no other search."""

    def begin_epoch(self, queue: Queue) -> None:
        """Begin the next epoch of a queue with lost stores, of which nothing is pending or running.

        If one of their handles cannot be found, the epoch stays: then nothing that was touched in it is at
        hand, which is slow but right.
        """
        handles = self._handles()
        if handles is None:
            return
        epoch = queue.epoch + 1
        changes: list[tuple[Any, str, int]] = [(handle, name, epoch) for handle in handles
                                               for name in ("touched", "written")]
        changes.append((queue, "epoch", epoch))
        deque(starmap(setattr, changes), 0)  # one call of compiled code, so that no interrupt comes between

    def _handles(self) -> list[Storage] | None:
        """The handles of the lost stores that the application holds; None if one is not found."""
        wanted = self._stores.lost.keys() & self._stores.alive
        if not wanted <= self._known.keys():
            start = time.monotonic()
            if start < self._next:
                return None
            self._known = {handle.id: weakref.ref(handle) for handle in gc.get_objects()
                           if type(handle) is Storage and getattr(handle, "id", None) in wanted}
            end = time.monotonic()
            self._next = end + (end - start) * SHARE
            if not wanted <= self._known.keys():  # `gc.freeze` hides them
                return None
        return [handle for store in wanted if (handle := self._known[store]()) is not None]
