"""Lazy fills with zeros: fresh memory from the system holds zeros already, so that no task has to write them.

A fill of a whole new store with zeros is deferred here.  The first task on the store adds it to the window,
where it fuses with what follows and vanishes with temporaries.  If there is none before the program waits,
the store gets memory that the system clears page by page when it is touched.

With the extension, fills that were recorded before are deferred and added by compiled code (small/fills.c).
"""

from __future__ import annotations

from math import prod
from typing import Any

from diffuse.ir import ITEMSIZE, Store
from diffuse.ir.template import Recorded
from diffuse.stream.stores import Stores, nbytes
from diffuse.stream.window import Window

MOST = 256
"""The most deferred fills, including those of stores that are gone."""
SPARSE, LARGE = 16, 64 << 20
"""A task on less than 1 / SPARSE of a store of at least LARGE bytes does not trigger its fill."""


class Zeros:
    """The deferred fills of one engine."""

    def __init__(self, stores: Stores, window: Window) -> None:
        self.held: dict[int, Recorded] = {}
        self._stores = stores
        self._window = window

    @property
    def size(self) -> int:
        """The bytes of all deferred fills."""
        stores = self._stores
        return sum([nbytes(stores.storages[store]) for store in self.held if store in stores.alive])

    def hold(self, recorded: Recorded) -> bool:
        """Defer the task if it is such a fill; else first add the fills of the stores that it uses."""
        held, (template, stores, values, _) = self.held, recorded
        for store in stores:
            fill = held.get(store)
            if fill is not None:
                if not (_few(template.shape, fill) and self._cleared(store)):
                    self._window.add(fill)
                del held[store]
        if not template.fills or not _zero(values[0]) or not self._stores.runtime.host_sees:
            return False
        store, = stores
        if not self._stores.fresh(store):
            return False
        if len(held) >= MOST:
            for gone in held.keys() - self._stores.alive:
                del held[gone]
        held[store] = recorded
        return True

    def release(self) -> None:
        """Settle all deferred fills, with zeroed memory if the runtime has any, else by a task."""
        for store, fill in list(self.held.items()):
            if store in self._stores.alive and not self._cleared(store):
                self._window.add(fill)
            del self.held[store]

    def mend(self) -> None:
        """Restore consistency after an exception at any moment: drop fills whose stores are in use."""
        for store in list(self.held):
            if not self._stores.fresh(store):
                del self.held[store]

    def _cleared(self, store: int) -> bool:
        """Give the store zeroed memory; returns False if there is none."""
        stores = self._stores
        frame = stores.storages[store]
        instance = stores.runtime.zeroed(nbytes(frame), Store(store, *frame))
        if instance is None:
            return False
        stores.instances[store] = instance
        return True


def _few(shape: Any, fill: Recorded) -> bool:
    """Is a task's space a small part of a large store?"""
    template = fill[0]
    size = prod(template.shape)
    return size * ITEMSIZE[template.uses[0].dtype] >= LARGE and prod(shape) * SPARSE < size


def _zero(value: Any) -> bool:
    """Is it the number whose bits are all zero?"""
    return not value and "-" not in repr(value)
