"""Arrays shared with other libraries on a GPU, without copies: `__cuda_array_interface__`, both ways.

Source: Numba's page "CUDA Array Interface (Version 3)".  DLPack is in tensors.py.  A library that has been
given the memory of an array may read and write it at any time, so operations on such an array run one at a
time, at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import numpy

from diffuse import library
from diffuse.library import Storage
from diffuse.numpy.arrays import access, base
from diffuse.numpy.arrays.core import Array, hosted, viewing
from diffuse.numpy.arrays.forms import NATIVE, RESERVE, row_major
from diffuse.settings import config

INTERFACE = "__cuda_array_interface__"
VERSION = 3
LEGACY = 1
"""The number of the default stream of other libraries."""

_known: WeakValueDictionary[str, Storage] = WeakValueDictionary()
"""Stores that other libraries hold, by their memory: the same memory becomes one store."""


def interface(x: Array) -> dict[str, Any]:
    """Describe an array's memory on the device, after everything recorded for it is done."""
    library.current().on_device()
    sharing: Any = library.current().runtime.sharing
    if sharing is None or sharing.attribute != INTERFACE:
        raise AttributeError(f"{INTERFACE}: the runtime {config.runtime!r} has no memory of a GPU; expected "
                             "DIFFUSE_RUNTIME=cuda")
    described = {"shape": x.form.shape, "typestr": x.form.dtype.str, "version": VERSION, "strides": None,
                 "data": (0, False)}
    if not x.form.size:
        return described
    address, _ = lent(x, library.settle, sharing.share)
    writeable = x.meta.flags.writeable
    strides = None if x.meta.flags.c_contiguous else x.form.strides
    return {**described, "data": (address, not writeable), "strides": strides}


def lent(x: Array, settle: Callable[[str], None], share: Callable[[Any], Any]) -> tuple[int, Any]:
    """The address of an array's first element on the device, for another library, and the result of sharing
    its instance.  `settle` submits what was recorded for it; the caller has to wait for that."""
    running = library.current()
    storage = access.storage_of(x)
    if storage.shown():
        raise BufferError("NumPy code holds this array's memory (by numpy.asarray, .flat, .ctypes, or as the "
                          "array was made of a NumPy array), which is the host's: hand out a copy, x.copy()")
    settle("another library takes an array")
    if storage.id in running.stores.lost:
        library.fetch(storage)  # raises the reason
    instance = running.stores.instance(storage.id)
    shared = share(instance)
    storage.exported, storage.touched = True, running.epoch
    _known[str(running.sharing.name(instance))] = storage
    return instance.address + access.offset_of(x, x.meta), shared


def adopt(x: Any) -> Any:
    """The Diffuse array over the memory that an object of another library exposes, without a copy."""
    sharing: Any = library.current().sharing
    described = getattr(x, INTERFACE)
    shape, dtype = tuple(described["shape"]), numpy.dtype(described["typestr"])
    if dtype not in NATIVE or described.get("mask") is not None:
        raise TypeError(f"{type(x).__name__} of {dtype} with {INTERFACE}: expected plain elements of a type "
                        "that Diffuse computes in, such as float64")
    if described.get("stream") is not None or described.get("version", 0) < VERSION:
        sharing.wait_for(described.get("stream") or LEGACY)
    address, readonly = described["data"]
    return over(address, shape, dtype, described.get("strides"), x, readonly)


def over(address: int, shape: tuple[int, ...], dtype: numpy.dtype[Any], strides: tuple[int, ...] | None,
         owner: Any, readonly: bool) -> Any:
    """The Diffuse array over memory of the device that another library exposes and `owner` keeps alive.  Its
    store is all memory between the first and the last element."""
    if 0 in shape:
        return hosted(numpy.empty(shape, dtype))
    running = library.current()
    sharing: Any = running.sharing
    unit = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    if address % unit:
        raise TypeError(f"elements of {dtype} at the address {address:#x}: a GPU reads them at multiples of "
                        f"{unit} bytes; pass a copy")
    whole = row_major(shape, dtype)
    strides = whole.strides if strides is None else tuple(strides)
    if any(s % dtype.itemsize for s, n in zip(strides, shape, strict=True) if n > 1):
        raise TypeError(f"strides {strides} of elements of {dtype.itemsize} bytes: expected multiples of "
                        "that; pass a contiguous copy")
    ends = [s * (n - 1) for s, n in zip(strides, shape, strict=True)]
    first = sum([end for end in ends if end < 0])
    nbytes = sum(map(abs, ends)) + dtype.itemsize
    theirs = sharing.memory(address + first, nbytes, owner)
    name = str(sharing.name(theirs))
    storage = _known.get(name)
    if storage is None or not sharing.holds(running.stores.instances.get(storage.id), theirs):
        frame = shape if strides == whole.strides else (nbytes // dtype.itemsize,)
        storage = running.stores.adopt(sharing, theirs, frame, dtype.name)
        _known[name] = storage
    else:
        sharing.share(running.stores.instance(storage.id))
    storage.exported, storage.touched = True, running.epoch
    frame, known = storage.store.shape, numpy.dtype(storage.store.dtype)
    found = base.holding(storage, row_major(frame, known))
    if (frame, known) != (shape, dtype) or strides != whole.strides:
        found = viewing(found, numpy.ndarray(shape, dtype, RESERVE, -first, strides))
    if readonly:
        found.meta = found.meta.view()
        found.meta.flags.writeable = False
    return found
