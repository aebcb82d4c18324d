"""DLPack capsules: descriptions of an array's memory, which another library takes over.

Source: dlpack.h of DLPack 1.0, and the page "Python Specification for DLPack".  The consumer of a capsule
renames it, and calls the tensor's deleter when it no longer uses the memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from sys import is_finalizing
from typing import Any, NamedTuple

import numpy

from diffuse.numpy.small import native

CPU, CUDA, CUDA_MANAGED = 1, 2, 13
"""Types of devices; memory of the last type belongs to host and device."""
PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"
"""Names of capsules that have not been consumed."""
VERSION = 1, 0
READ_ONLY, COPIED = 1, 2
"""Flags of versioned tensors."""
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
"""Codes of element types, by NumPy's letters."""
KINDS = {code: kind for kind, code in CODES.items()}
MOST = 64
"""The most dimensions of NumPy's arrays."""


class Tensor(ctypes.Structure):
    """DLTensor: the memory, its device, and the layout of the elements."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


class Described(NamedTuple):
    """Memory on a device, as described by a capsule."""

    device: tuple[int, int]
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    """Strides in bytes; None for elements in row-major order."""
    dtype: numpy.dtype[Any]
    readonly: bool


_lent: dict[int, tuple[Any, ...]] = {}
"""Objects kept alive for the holders of our tensors, by the addresses of the tensors."""


def _deleted(tensor: int, lent: dict[int, tuple[Any, ...]] = _lent) -> None:
    """The deleter of our tensors, which any thread may call."""
    found = lent.pop(tensor, None)
    if found is not None:
        found[0]()


def _dropped(capsule: int, ending: Callable[[], bool] = is_finalizing) -> None:
    """The destructor of our capsules: deletes the tensor if the capsule was not consumed."""
    if ending():
        return
    for name in (PLAIN, VERSIONED):
        if _python.PyCapsule_IsValid(capsule, name):
            _deleted(_python.PyCapsule_GetPointer(capsule, name))


_python = ctypes.PyDLL(None)  # our own object: others may declare these functions otherwise
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, ctypes.c_char_p
_python.PyCapsule_IsValid.argtypes = ctypes.c_void_p, ctypes.c_char_p
_python.PyCapsule_SetName.argtypes = ctypes.c_void_p, ctypes.c_char_p
_python.Py_IncRef.argtypes = (ctypes.py_object,)

def _lasting(callback: Any) -> int:
    """The address of a callback that other libraries may call until the process ends."""
    _python.Py_IncRef(callback)
    return ctypes.cast(callback, ctypes.c_void_p).value or 0


DELETER = _lasting(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_deleted))
DESTRUCTOR: int = (_lasting(ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_dropped)) if native is None
                   else native.capsule_destructor(_dropped))
"""Without the extension, a consumer that refuses a capsule with an exception raises SystemError in its place:
a callback of ctypes cannot put the exception aside."""


def made(found: Described, versioned: bool, flags: int, ended: Callable[[], None], keep: Any) -> Any:
    """Make a capsule for memory that `keep` owns.  `ended` is called, in any thread, when the memory is no
    longer used."""
    rank = len(found.shape)
    shape, strides = (ctypes.c_int64 * max(rank, 1))(*found.shape), (ctypes.c_int64 * max(rank, 1))()
    if found.strides is not None:
        strides[:rank] = [s // found.dtype.itemsize for s in found.strides]
    else:
        pitch = 1
        for d in reversed(range(rank)):
            strides[d], pitch = pitch, pitch * max(found.shape[d], 1)
    lengths = ctypes.POINTER(ctypes.c_int64)
    tensor = Tensor(found.address, *found.device, rank, CODES[found.dtype.kind], 8 * found.dtype.itemsize, 1,
                    ctypes.cast(shape, lengths), ctypes.cast(strides, lengths), 0)
    if versioned:
        flags |= READ_ONLY if found.readonly else 0
        whole: Any = Versioned(*VERSION, None, DELETER, flags, tensor)
    else:
        whole = Managed(tensor, None, DELETER)
    place = ctypes.addressof(whole)
    _lent[place] = ended, whole, shape, strides, keep
    return _python.PyCapsule_New(place, VERSIONED if versioned else PLAIN, DESTRUCTOR)


class Taken:
    """A tensor taken out of a capsule: it calls the deleter when its last reference is gone."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __del__(self, ending: Callable[[], bool] = is_finalizing) -> None:
        tensor = self._tensor
        if tensor.deleter and not ending():
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(tensor.deleter)(ctypes.addressof(tensor))


def taken(capsule: Any) -> tuple[Described, Taken]:
    """Take over the tensor of a capsule.  Raises BufferError, as NumPy does, for a tensor that no array can
    show; the capsule then stays as it was."""
    for name, kind in ((VERSIONED, Versioned), (PLAIN, Managed)):
        if _python.PyCapsule_IsValid(id(capsule), name):
            whole: Any = kind.from_address(_python.PyCapsule_GetPointer(id(capsule), name))
            break
    else:
        raise BufferError(f"__dlpack__ returned {capsule!r}: expected a capsule with the name 'dltensor' or "
                          "'dltensor_versioned', which has not been consumed")
    if kind is Versioned and whole.major > VERSION[0]:
        raise BufferError("from_dlpack(): the exported DLPack major version is too high to be imported by "
                          "this version of Diffuse.")
    found = _described(whole.tensor, kind is Versioned and bool(whole.flags & READ_ONLY))
    _python.PyCapsule_SetName(id(capsule), _USED[name])
    return found, Taken(whole)


_USED = {PLAIN: b"used_dltensor", VERSIONED: b"used_dltensor_versioned"}


def _described(tensor: Any, readonly: bool) -> Described:
    if tensor.ndim > MOST:
        raise BufferError("maxdims of DLPack tensor is higher than the supported maxdims.")
    if tensor.lanes != 1:
        raise BufferError("Unsupported lanes in DLTensor dtype.")
    kind, bytes_ = KINDS.get(tensor.code), tensor.bits // 8
    try:
        dtype = numpy.dtype("bool" if (kind, tensor.bits) == ("b", 8) else f"{kind}{bytes_}")
    except TypeError:
        dtype = numpy.dtype(object)
    if kind is None or tensor.bits % 8 or dtype.kind != kind:
        raise BufferError("Unsupported dtype in DLTensor.")
    strides = tuple([s * dtype.itemsize for s in tensor.strides[:tensor.ndim]]) if tensor.strides else None
    return Described((tensor.device, tensor.device_id), (tensor.data or 0) + tensor.byte_offset,
                     tuple(tensor.shape[:tensor.ndim]), strides, dtype, readonly)
