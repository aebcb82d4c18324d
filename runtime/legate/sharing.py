"""Shares stores with other libraries on Legate: from an instance to its store and back.

Diffuse is not told when another library writes a shared store.  So the data of a *shared* instance is
always in Legate's store: the host's copy is fetched anew for each read, and what the host writes is copied
back at once.  Legate orders all tasks on a store and on its parts by their submission, so Diffuse submits
its own before another library can (see `Engine.settle`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from diffuse.ir import ITEMSIZE, Store
from diffuse.ir.view import View
from diffuse.runtime.legate import message, prepare
from diffuse.runtime.legate.instances import DIMENSIONS, LegateInstance
from diffuse.runtime.legate.reuse import SOMEWHERE, Piece

if TYPE_CHECKING:
    from diffuse.runtime.legate.runtime import Legate


INTERFACE = "__legate_data_interface__"


class LegateSharing:
    """Shares the stores of one runtime (see `runtime.sharing`)."""

    attribute = INTERFACE
    dimensions = DIMENSIONS

    def __init__(self, runtime: Legate) -> None:
        self._runtime = runtime
        self._place = runtime.placement
        self.fenced = runtime.alone
        """On one rank a task of Legate's has ended as soon as its launch is queued on the thread pool."""
        self.room = int(prepare.memory_given() / prepare.SHARE)

    def shows(self, thing: Any) -> bool:
        return hasattr(type(thing), INTERFACE)

    def share(self, instance: LegateInstance) -> Any:
        place = self._place
        place.check_thread()
        if instance.apart is not None:
            self._runtime.apart.give_back(instance)
        if place.agreement is not None:
            place.agreement.event(f"sharing an array of shape {instance.shape}, {instance.dtype}")
        if instance.lent > place.fenced:  # queued launches still read the host's copy
            self._runtime.fence()
        store = place.store(instance)
        assert instance.piece is not None
        instance.piece.address = SOMEWHERE
        if not instance.filled:
            place.fill(instance)
        instance.filled = instance.written = instance.shared = True
        instance.home = instance.fresh = False
        return store

    def unshare(self, instance: LegateInstance) -> None:
        instance.shared = instance.fresh = False
        instance.changed()

    def reclaim(self) -> None:
        """Do nothing: a store that was lent to another library stays lent."""

    def adopt(self, store: Any, dtype: str) -> LegateInstance:
        instance = LegateInstance(Store(-1, tuple(store.extents), dtype))
        instance.piece = Piece(store if store.extents else store.promote(0, 1), 0, SOMEWHERE)
        instance.filled = instance.written = instance.shared = instance.foreign = True
        instance.scattered = store.transformed
        return instance

    def holds(self, instance: Any, store: Any) -> bool:
        return (isinstance(instance, LegateInstance) and instance.piece is not None
                and instance.shape == (tuple(store.extents) or (1,))
                and bool(instance.piece.store.equal_storage(store)))

    def write_back(self, instance: LegateInstance) -> None:
        self._place.check_thread()
        self._place.move(message.PUT, instance)

    def overlap(self, one: LegateInstance, other: LegateInstance) -> bool:
        return bool(one.piece is not None and other.piece is not None
                    and one.piece.store.overlaps(other.piece.store))

    def nameable(self, view: View, store: Store) -> bool:
        """Can Legate express the view?  It has boxes, projections (such as a row of a matrix), transposes,
        broadcasts."""
        return (view.frame == store.shape and view.dtype == store.dtype and view.simple
                and max(len(store.shape), len(view.shape)) <= DIMENSIONS and 0 not in view.shape
                and all(step == 1 for _, terms in view.rows for _, step in terms))

    def part(self, store: Any, view: View) -> Any:
        shape = view.frame
        if not shape:
            store = store.project(0, 0)
        order: list[int] = []
        for d in reversed(range(len(shape))):
            offset, terms = view.rows[d]
            if not terms:
                store = store.project(d, offset)
                continue
            k = terms[0][0]
            if (offset, offset + view.shape[k]) != (0, shape[d]):
                store = store.slice(d, slice(offset, offset + view.shape[k]))
            order.insert(0, k)
        if order != sorted(order):
            store = store.transpose(sorted(range(len(order)), key=order.__getitem__))
        for k, n in enumerate(view.shape):
            if k not in order:
                store = store.promote(k, n)
        return store

    def name(self, store: Any) -> str | None:
        said = re.sub(r"\bStor(e|age)\(\d+\) ", "", str(store))  # numbers of handles on one region
        return said if "region: " in said and ("transform: " in said) is store.transformed else None

    def value(self, store: Any) -> NDArray[Any]:
        return np.array(store.get_physical_store())

    def type_name(self, store: Any) -> str | None:
        found = str(store.type)
        found = "bool" if found == "bool_" else found
        return found if found in ITEMSIZE else None
