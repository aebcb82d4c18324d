"""Stores that Diffuse and another library of Legate's both hold: from an instance to the store, and back.

Nobody tells us what others do with such a store, so an instance that was *handed* over has its data in
Legate's store, always: the host's copy is fetched anew each time that it is looked at, and what the host
writes there goes back at once. Who may run when is Legate's affair, which knows all tasks on a store and on
its parts; for that our own have to be with Legate before others submit theirs (see `engine._expose`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from diffuse.ir import ITEMSIZE, Store
from diffuse.ir.view import View
from diffuse.runtime.legate import message
from diffuse.runtime.legate.instances import DIMENSIONS, LegateInstance
from diffuse.runtime.legate.reuse import SOMEWHERE, Piece


def hand_out(runtime: Any, instance: LegateInstance) -> Any:
    """Legate's store of an instance, with its data in it, for others to read and write from now on.

    Everything recorded on it is with the runtime; alone, done.
    """
    place = runtime.placement
    place.check_thread()
    if instance.lent > place.fenced:  # launches read the host's copy, which will be fetched anew
        runtime.fence()
    store = place.store(instance)
    assert instance.piece is not None
    instance.piece.address = SOMEWHERE
    if not instance.filled:
        place.fill(instance)
    instance.filled = instance.written = instance.handed = True
    instance.home = instance.fresh = False
    return store


def take_back(instance: LegateInstance) -> None:
    """Nobody else holds the store any more."""
    instance.handed = instance.fresh = False


def adopt(store: Any, dtype: str) -> LegateInstance:
    """An instance over somebody else's store."""
    instance = LegateInstance(Store(-1, tuple(store.extents), dtype))
    instance.piece = Piece(store if store.extents else store.promote(0, 1), 0, SOMEWHERE)
    instance.filled = instance.written = instance.handed = instance.foreign = True
    return instance


def put_back(runtime: Any, instance: Any) -> None:
    """The host wrote into its copy of an instance: Legate's store gets it."""
    runtime.placement.check_thread()
    runtime.placement.move(message.PUT, instance)


def nameable(view: View, shape: Sequence[int], dtype: str) -> bool:
    """Has Legate a name for the part of a store, of this shape, that a view shows?

    It has for boxes, for rows of a matrix and so on, with their dimensions in any order or repeated.
    """
    return (view.frame == tuple(shape) and view.dtype == dtype and view.simple
            and max(len(shape), len(view.shape)) <= DIMENSIONS
            and all(step == 1 for _, terms in view.rows for _, step in terms))


def part(store: Any, view: View) -> Any:
    """The part of a store that a view shows."""
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


def overlap(one: Any, other: Any) -> bool:
    """May two handed stores have elements in common?"""
    return bool(one.piece is not None and other.piece is not None
                and one.piece.store.overlaps(other.piece.store))


def name(store: Any) -> str | None:
    """What tells a store from others, views of the same memory too; None if Legate does not say it."""
    said = re.sub(r"\bStor(e|age)\(\d+\) ", "", str(store))  # numbers of handles on one region
    return said if "region: " in said and ("transform: " in said) is store.transformed else None


def value(store: Any) -> Any:
    """A copy of the data as a NumPy array, for what is no store with memory of its own."""
    return np.array(store.get_physical_store())


def type_name(store: Any) -> str | None:
    """The element type as Diffuse calls it, if it has such elements."""
    found = str(store.type)
    found = "bool" if found == "bool_" else found
    return found if found in ITEMSIZE else None
