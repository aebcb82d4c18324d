"""Arrays that other libraries of a GPU share, without copies: `__cuda_array_interface__`, both ways.

Source: Numba's page "CUDA Array Interface (Version 3)".  Whoever has seen the memory of an array may read and
write it at any time from then on, so operations on such an array run one at a time, at once.
"""

from __future__ import annotations

from math import prod
from typing import Any
from weakref import WeakValueDictionary

import numpy

from diffuse import library
from diffuse.library import Storage
from diffuse.numpy.arrays import access, base
from diffuse.numpy.arrays.core import Array, hosted
from diffuse.numpy.arrays.forms import NATIVE, row_major
from diffuse.settings import config

INTERFACE = "__cuda_array_interface__"
VERSION = 3
LEGACY = 1
"""The number of the stream that libraries take by default."""

_known: WeakValueDictionary[str, Storage] = WeakValueDictionary()
"""Stores that others hold, by their memory: the same memory twice is one store of ours."""


def interface(x: Array) -> dict[str, Any]:
    """Describe an array's memory on the device, with what was recorded for it done."""
    running = library.current()
    exchange = running.runtime.exchange
    if exchange is None or exchange.attribute != INTERFACE:
        raise AttributeError(f"{INTERFACE}: the runtime {config.runtime!r} has no memory of a GPU; expected "
                             "DIFFUSE_RUNTIME=cuda")
    described = {"shape": x.form.shape, "typestr": x.form.dtype.str, "version": VERSION, "strides": None,
                 "data": (0, False)}
    if not x.form.size:
        return described
    storage = access.storage_of(x)
    if storage.shown():
        raise BufferError("NumPy code holds this array's memory (by numpy.asarray, .flat, .ctypes, or as the "
                          "array was made of a NumPy array), which is the host's: hand out a copy, x.copy()")
    library.settle("another library takes an array")
    if storage.id in running.stores.lost:
        library.fetch(storage)  # raises why
    shared = exchange.share(running.stores.instance(storage.id))
    storage.exported, storage.touched = True, running.epoch
    _known[str(exchange.name(shared))] = storage
    address = shared.address + access.offset_of(x, x.meta)
    writeable = x.meta.flags.writeable
    strides = None if x.meta.flags.c_contiguous else x.form.strides
    return {**described, "data": (address, not writeable), "strides": strides}


def adopt(x: Any) -> Any:
    """The Diffuse array over the memory that an object of another library shows, not copied."""
    running = library.current()
    exchange: Any = running.exchange
    described = getattr(x, INTERFACE)
    shape, dtype = tuple(described["shape"]), numpy.dtype(described["typestr"])
    if dtype not in NATIVE or described.get("mask") is not None:
        raise TypeError(f"{type(x).__name__} of {dtype} with {INTERFACE}: expected plain elements of a type "
                        "that Diffuse computes in, such as float64")
    if 0 in shape:
        return hosted(numpy.empty(shape, dtype))
    whole = row_major(shape, dtype)
    strides = described.get("strides")
    if strides is not None and tuple(strides) != whole.strides:
        raise TypeError(f"{type(x).__name__} with strides {tuple(strides)}: expected elements one behind "
                        "another; pass a contiguous copy")
    if described.get("stream") is not None or described.get("version", 0) < VERSION:
        exchange.wait_for(described.get("stream") or LEGACY)
    address, readonly = described["data"]
    theirs = exchange.memory(address, prod(shape) * dtype.itemsize, x)
    name = str(exchange.name(theirs))
    storage = _known.get(name)
    if storage is None or not exchange.holds(running.stores.instances.get(storage.id), theirs):
        storage = running.stores.adopt(exchange, theirs, shape, dtype.name)
        storage.exported, storage.touched = True, running.epoch
        _known[name] = storage
    found = base.holding(storage, whole)
    if readonly:
        found.meta = found.meta.view()
        found.meta.flags.writeable = False
    return found
