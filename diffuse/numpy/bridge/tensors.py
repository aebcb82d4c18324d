"""DLPack's protocol for arrays whose elements are on a GPU, both ways and without copies.

Source: the page "Python Specification for DLPack".  For an exported tensor the consumer's stream waits for
ours; an imported tensor was made safe for our stream by its producer.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays import access
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.base import exported
from diffuse.numpy.arrays.core import Array, viewing
from diffuse.numpy.arrays.forms import NATIVE
from diffuse.numpy.bridge import capsules, device
from diffuse.numpy.bridge.capsules import CPU, CUDA, CUDA_MANAGED
from diffuse.numpy.ops import elementwise

HOST = CPU, 0
UNORDERED = -1
"""In place of a stream: the consumer needs no order between the streams."""


def device_of(x: Array) -> tuple[int, int]:
    """The device, in DLPack's numbers, that holds the current elements of an array."""
    running = library.current()
    storage = x.storage if x.owner is None else x.owner.storage
    if storage is None or not x.form.size or storage.shown():
        return HOST
    if storage.written != running.epoch:  # recorded tasks will write it there
        instance: Any = running.stores.instances.get(storage.id)
        if instance is not None and instance.home:
            return HOST
    sharing: Any = running.runtime.sharing
    return CUDA, sharing.device


def capsule(x: Array, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
            copy: Any = None) -> Any:
    """The body of `ndarray.__dlpack__`."""
    if dl_device is not None and not isinstance(dl_device, tuple):
        raise TypeError("dl_device must be a tuple")
    here, there = device_of(x), dl_device
    if there is None:
        there = here
    if there == HOST:
        options = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
        if here == HOST:
            return exported(x).__dlpack__(stream=stream, **options)
        if copy is not None and not copy:
            raise BufferError("Unable to avoid copy while creating an array as requested.")
        return host(x).__dlpack__(**{**options, "copy": True})  # which the capsule's flags say
    sharing: Any = library.current().sharing
    if there != (CUDA, sharing.device):
        raise BufferError("unsupported device requested")
    if max_version is not None and not (isinstance(max_version, tuple) and len(max_version) == 2):
        raise TypeError("max_version must be None or a tuple with two elements.")
    if stream is not None and (stream == 0 or stream < UNORDERED):
        raise ValueError(f"stream {stream}: expected None, -1, 1, 2 or the handle of a stream")
    return _capsule(x, stream, max_version is not None and max_version[0] >= capsules.VERSION[0], bool(copy))


def _capsule(x: Any, stream: int | None, versioned: bool, copied: bool) -> Any:
    flags = capsules.COPIED if copied else 0
    if copied:
        x = elementwise.duplicate(x)
    elif not x.meta.flags.writeable and not versioned:
        raise BufferError("Cannot export readonly array since signalling readonly is unsupported by DLPack "
                          "(supported by newer DLPack version).")
    form = x.form
    sharing: Any = library.current().sharing
    if any(s % form.itemsize for s in form.strides):
        raise BufferError("DLPack only supports strides which are a multiple of itemsize.")
    strides = None if x.meta.flags.c_contiguous else form.strides
    place = CUDA, sharing.device
    if not form.size:
        found = capsules.Described(place, 0, form.shape, None, form.dtype, False)
        return capsules.made(found, versioned, flags, lambda: None, None)
    address, ended = device.lent(x, library.flush, sharing.lend)
    if stream != UNORDERED:
        sharing.ahead_of(device.LEGACY if stream is None else stream)
    found = capsules.Described(place, address, form.shape, strides, form.dtype, not x.meta.flags.writeable)
    return capsules.made(found, versioned, flags, ended, access.storage_of(x))


def on_gpu(x: Any) -> bool:
    """Does `from_dlpack` of an object return an array on the GPU?"""
    if isinstance(x, Array):
        return device_of(x) != HOST
    place = getattr(x, "__dlpack_device__", None)
    return place is not None and place()[0] in (CUDA, CUDA_MANAGED)


def adopt(x: Any, copy: bool | None) -> Any:
    """The Diffuse array over the tensor of another library; a view of a Diffuse array."""
    if isinstance(x, Array):
        return elementwise.duplicate(x) if copy else viewing(x, x.meta.view())
    sharing: Any = library.current().sharing
    _, number = x.__dlpack_device__()
    if number != sharing.device:
        raise BufferError(f"a tensor on GPU {number}, and Diffuse runs on GPU {sharing.device}: copy it "
                          "there first, or to the host")
    try:
        found = x.__dlpack__(stream=sharing.stream, max_version=capsules.VERSION, copy=copy)
    except TypeError:
        if copy is not None:
            raise
        found = x.__dlpack__(stream=sharing.stream)  # a library from before these arguments existed
    shown, owner = capsules.taken(found)
    if shown.device not in ((CUDA, sharing.device), (CUDA_MANAGED, sharing.device)):
        raise BufferError("Unsupported device in DLTensor.")
    if shown.dtype not in NATIVE:
        raise BufferError("Unsupported dtype in DLTensor.")
    return device.over(shown.address, shown.shape, numpy.dtype(shown.dtype.name), shown.strides, owner,
                       shown.readonly)
