"""Arrays shared with other Legate libraries: converts a Diffuse array to Legate's store, and back.

cuPyNumeric and others expose an array's store as `__legate_data_interface__`. A library that has been given a
store may read and write it at any time, so operations on such an array run one at a time, at once, in the
order of the program. Two Diffuse arrays may then have elements in common without being views of one store
(parts of a foreign array that overlap, say): Legate knows, and keeps the order of their tasks; a task that
would read one while it writes the other copies first (`elementwise.meets`).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any
from weakref import WeakValueDictionary

import numpy

from diffuse import library
from diffuse.library import Storage
from diffuse.numpy.arrays import access, base
from diffuse.numpy.arrays.core import Array, hosted
from diffuse.numpy.arrays.forms import Mirror, row_major
from diffuse.settings import config

VERSION = 1
"""The version of the interface."""
INTERFACE = "__legate_data_interface__"

_known: WeakValueDictionary[str, Storage] = WeakValueDictionary()
"""Stores that other libraries hold, by Legate's name for them: the same Legate store becomes one store."""


def interface(x: Array) -> dict[str, Any] | None:
    """The `__legate_data_interface__` of an array; None for parts of a store that Legate cannot name."""
    store = share(x)
    return None if store is None else described(store)


def described(store: Any) -> dict[str, Any]:
    """Describe a Legate store in the form that other libraries expect."""
    core = import_module("legate.core")
    field = core.Field("array", store.type)
    return {"version": VERSION, "data": {field: core.LogicalArray.from_store(store)}}


def share(x: Array) -> Any:
    """Legate's store of an array, after everything recorded for it is done, for others to read and write;
    None for a part of a store that Legate cannot name."""
    running = library.current()
    sharing = running.runtime.sharing
    if sharing is None or sharing.attribute != INTERFACE:
        raise AttributeError(f"{INTERFACE}: the runtime {config.runtime!r} has no stores of Legate's; "
                             "expected DIFFUSE_RUNTIME=legate")
    if not x.form.size or x.form.ndim > sharing.dimensions:
        raise AttributeError(f"{INTERFACE}: an array of shape {x.form.shape} is no store of Legate's; "
                             f"expected elements, and at most {sharing.dimensions} dimensions")
    storage = access.storage_of(x)
    if storage.shown():
        raise BufferError("NumPy code holds this array's memory (by numpy.asarray, .flat, .ctypes, or as the "
                          "array was made of a NumPy array), and a store of Legate's cannot be the same "
                          "memory: hand out a copy, x.copy()")
    try:
        view = base.view_of(x)
    except base.Unaddressable:
        return None
    if not sharing.nameable(view, storage.store):
        return None
    library.settle("another library takes a store")
    if storage.id in running.stores.lost:
        library.fetch(storage)  # raises the reason
    store = sharing.share(running.stores.instance(storage.id))
    storage.exported, storage.touched = True, running.epoch
    name = sharing.name(store)
    if name is not None:
        _known[name] = storage
    return sharing.part(store, view)


def unshare(x: Array) -> None:
    """End the sharing of an array's store that was handed out for the length of a call."""
    running, storage = library.current(), access.storage_of(x)
    running.sharing.unshare(running.stores.instance(storage.id))
    for name in [name for name, known in _known.items() if known is storage]:
        del _known[name]
    storage.shown()


def adopt(x: Any) -> Any:
    """The Diffuse array over the store that an object of another library exposes, without a copy.

    It is copied if the store has no memory (results of reductions) or no elements, or a type that Diffuse
    does not compute in.
    """
    sharing = library.current().sharing
    array = import_module("legate.core.data_interface").as_logical_array(x)
    if array.nested or array.nullable:
        raise TypeError(f"{type(x).__name__} of type {array.type} with missing or nested elements: expected "
                        "plain ones, as arrays of NumPy have")
    store = array.data
    dtype = sharing.type_name(store)
    if dtype is None or store.has_scalar_storage or not store.volume:
        return _copied(store, dtype)
    found = over(store, dtype)
    writeable = getattr(getattr(x, "flags", None), "writeable", True)
    if not writeable:
        found.meta = found.meta.view()
        found.meta.flags.writeable = False
    return found


def over(store: Any, dtype: str) -> Any:
    """The Diffuse array over a Legate store that another library holds."""
    running = library.current()
    sharing, stores = running.sharing, running.stores
    shape, name = tuple(store.extents), sharing.name(store)
    storage = None if name is None else _known.get(name)
    if storage is None or not sharing.holds(stores.instances.get(storage.id), store):
        storage = stores.adopt(sharing, store, shape, dtype)
        storage.exported, storage.touched = True, running.epoch
        if name is not None:
            _known[name] = storage
    return base.holding(storage, row_major(shape, numpy.dtype(dtype)))


def _copied(store: Any, dtype: str | None) -> Any:
    if not store.volume and dtype is not None:
        return hosted(numpy.empty(tuple(store.extents), dtype))
    found: Mirror = library.current().sharing.value(store)
    return hosted(found) if dtype is not None else found
