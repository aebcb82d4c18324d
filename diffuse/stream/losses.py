"""Begins epochs while stores are lost: an operation failed, or an interrupt came before it was done.

An array is at hand if no task of this epoch touched its store: its memory is then read without a question.
A lost store must not be at hand for as long as the program holds it, and all others have to be.  So in each
new epoch lost stores count as touched.
"""

from __future__ import annotations

import gc
import time
import weakref
from collections import deque
from itertools import starmap
from typing import TYPE_CHECKING, Any

from diffuse.stream.stores import Storage, Stores

if TYPE_CHECKING:
    from diffuse.stream.queue import Queue

SHARE = 20
"""A search for handles takes at most one part in so many of the program's time."""


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
