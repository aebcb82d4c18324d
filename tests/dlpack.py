"""A library that takes and gives DLPack's tensors, written from dlpack.h alone: byte offsets and ctypes."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

TENSOR = struct.Struct("@PiiiBBHPPQ")
"""DLTensor: data, device type, device number, rank, type code, bits, lanes, shape, strides, byte offset."""
HEAD = struct.Struct("@IIPPQ")
"""What stands before it in DLManagedTensorVersioned: version, context, deleter, flags."""
FOOT = struct.Struct("@PP")
"""What stands behind it in DLManagedTensor: context, deleter."""
CODES = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}

_python = ctypes.PyDLL(None)
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = ctypes.py_object, ctypes.c_char_p
_python.PyCapsule_GetName.restype = ctypes.c_char_p
_python.PyCapsule_GetName.argtypes = (ctypes.py_object,)
_python.PyCapsule_SetName.argtypes = ctypes.py_object, ctypes.c_char_p
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p

Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}


def name(capsule: Any) -> bytes:
    return bytes(_python.PyCapsule_GetName(capsule))


class Tensor:
    """A tensor that was taken out of a capsule."""

    def __init__(self, capsule: Any) -> None:
        kind = name(capsule)
        self._at: int = _python.PyCapsule_GetPointer(capsule, kind)
        versioned = kind == b"dltensor_versioned"
        begin = self._at + (HEAD.size if versioned else 0)
        (data, device, number, rank, code, bits, lanes, shape, strides,
         offset) = TENSOR.unpack(ctypes.string_at(begin, TENSOR.size))
        self.flags = self.version = None
        if versioned:
            major, minor, _, self._deleter, self.flags = HEAD.unpack(ctypes.string_at(self._at, HEAD.size))
            self.version = major, minor
        else:
            _, self._deleter = FOOT.unpack(ctypes.string_at(begin + TENSOR.size, FOOT.size))
        assert lanes == 1
        self.device, self.address = (device, number), (data or 0) + offset
        self.dtype = np.dtype("bool" if code == 6 else f"{CODES[code]}{bits // 8}")
        self.shape = tuple((ctypes.c_int64 * rank).from_address(shape)) if rank else ()
        self.strides = tuple((ctypes.c_int64 * rank).from_address(strides)) if rank else ()
        _python.PyCapsule_SetName(capsule, _kept(USED[kind]))

    def end(self) -> None:
        Deleter(self._deleter)(self._at)


_names: dict[bytes, Any] = {}


def _kept(text: bytes) -> Any:
    """The same text, which is never freed: capsules keep the pointer to their name."""
    return _names.setdefault(text, text)


_given: dict[int, Any] = {}
"""What keeps the memory of tensors alive, by their addresses: a consumer may hold one longer than its array
lives."""


class Producer:
    """An array of another library's on a device, whose capsules are as a caller asks."""

    def __init__(self, address: int, dtype: str, shape: tuple[int, ...],
                 strides: tuple[int, ...] | None = None, readonly: bool = False,
                 device: tuple[int, int] = (2, 0), offset: int = 0, lanes: int = 1, major: int = 1,
                 old: bool = False) -> None:
        self.address, self.shape, self.strides, self.readonly = address, shape, strides, readonly
        self.dtype, self.device, self.offset, self.lanes = np.dtype(dtype), device, offset, lanes
        self.major, self.old = major, old
        self.asked: list[dict[str, Any]] = []
        self.deleted = 0
        """The number of tensors whose deleter was called."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        if self.old and set(options) != {"stream"}:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        self.asked.append(options)
        rank = len(self.shape)
        shape = (ctypes.c_int64 * rank)(*self.shape)
        strides = (ctypes.c_int64 * rank)(*self.strides) if self.strides is not None else None
        code = next(code for code, kind in CODES.items() if kind == self.dtype.kind)
        places = ctypes.addressof(shape), ctypes.addressof(strides) if strides else 0
        tensor = TENSOR.pack(self.address - self.offset, *self.device, rank, code, 8 * self.dtype.itemsize,
                             self.lanes, *places, self.offset)
        deleter = Deleter(self._delete)
        place = ctypes.cast(deleter, ctypes.c_void_p).value
        if options.get("max_version") is not None:
            whole = HEAD.pack(self.major, 0, 0, place, int(self.readonly)) + tensor
            kind = b"dltensor_versioned"
        else:
            whole, kind = tensor + FOOT.pack(0, place), b"dltensor"
        room = ctypes.create_string_buffer(whole, len(whole))
        _given[ctypes.addressof(room)] = room, shape, strides, deleter
        return _python.PyCapsule_New(ctypes.addressof(room), _kept(kind), None)

    def _delete(self, tensor: int) -> None:
        assert tensor in _given
        self.deleted += 1
