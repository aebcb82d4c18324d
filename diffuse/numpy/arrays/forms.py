"""Forms: interned shape, strides and element type of arrays; and mirrors, arrays with these but without
memory.

A *mirror* is a NumPy array over one large range of addresses that is never touched.  Whatever NumPy says
about the mirror (slices, transposes, reshapes, errors) also holds for the array.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy

from diffuse.library import Frame, Point, Recurring, view
from diffuse.library import Span as Span
from diffuse.library import address as address

Mirror = numpy.ndarray[Any, numpy.dtype[Any]]

NATIVE: dict[numpy.dtype[Any], str] = {
    numpy.dtype(name): name
    for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                 "float16", "float32", "float64", "complex64", "complex128")
}
"""Element types that kernels compute in; arrays of any other type stay NumPy's."""


def computable(dtype: numpy.dtype[Any]) -> bool:
    """Do kernels compute in an element type, and nothing else?  Types with metadata equal those without."""
    return dtype in NATIVE and dtype.metadata is None


EXTENT = 1 << 42
"""Bytes of address space that are reserved for mirrors."""
FAILED = (1 << 64) - 1
"""What `mmap` returns if it fails: -1, as an address."""
NOWHERE = 1 << 55
"""An address that no program's memory has, on existing processors."""


PLACE = 1 << 44
"""The address that is asked for, far from where the system maps libraries.  Else libraries that the program
loads later lie beyond the range, and calls of functions more than 4 GB away take longer: 0.5 ns for an `exp`
of `scipy.special.expit`, a tenth of its time."""


def _reserve() -> Mirror:
    """Reserve address space for mirrors: private, unbacked, readable, never read.

    Where the system limits address space (`ulimit -v`), none is taken: mirrors then have addresses that no
    memory can have.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    map_memory = ctypes.CDLL(None).mmap
    map_memory.restype = ctypes.c_size_t
    map_memory.argtypes = [ctypes.c_size_t, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_ssize_t]
    start = map_memory(PLACE, EXTENT, mmap.PROT_READ, flags, -1, 0)
    # declared writeable, so that views carry NumPy's read-only flags; nothing ever writes
    return numpy.asarray(Span(NOWHERE if start == FAILED else start, (EXTENT,), "|u1"))


RESERVE = _reserve()
BASE = address(RESERVE)


class Form:
    """Shape, strides and element type; for packed forms also the mirror and the view of a whole store."""

    __slots__ = ("shape", "strides", "dtype", "name", "itemsize", "size", "ndim", "packed", "ordered",
                 "folded", "frame", "_mirror", "_root")

    def __init__(self, shape: Point, strides: Point, dtype: numpy.dtype[Any]) -> None:
        self.shape, self.strides = shape, strides
        self.name = NATIVE[dtype]
        self.dtype = numpy.dtype(self.name)  # without metadata, which equal types may differ in
        self.itemsize = dtype.itemsize
        self.size, self.ndim = prod(shape), len(shape)
        order = sorted(range(self.ndim), key=lambda d: -strides[d]) if self.size else list(range(self.ndim))
        self.packed = not self.size or _dense(shape, strides, order, self.itemsize)
        self.ordered = not self.size or _dense(shape, strides, range(self.ndim), self.itemsize)
        self.folded = not self.packed and _folded(shape, strides, self.itemsize)
        self._mirror: Mirror | None = None
        self._root: view.View | None = None
        self.frame = Frame(shape if self.ordered else tuple(shape[d] for d in order), self.name)
        """A row-major store with these elements in this order (packed forms only)."""

    @property
    def mirror(self) -> Mirror:
        if self._mirror is None:
            if self.size * self.itemsize >= RESERVE.size:
                numpy.empty(self.shape, self.dtype)  # raises, in NumPy's words
                raise MemoryError(f"Unable to allocate an array with shape {self.shape} and data type "
                                  f"{self.dtype}")
            first = -sum([min(s, 0) * (n - 1) for s, n in zip(self.strides, self.shape, strict=True) if n])
            self._mirror = numpy.ndarray(self.shape, self.dtype, RESERVE, first, self.strides)
        return self._mirror

    @property
    def root(self) -> view.View:
        """The view of a store that was created with this form's frame."""
        if self._root is None:
            self._root = view.of(
                self.frame.shape, self.name, self.name, self.itemsize, 0, self.strides, self.shape
            )
        return self._root


def _dense(shape: Point, strides: Point, order: Sequence[int], pitch: int) -> bool:
    """Are elements contiguous, with the dimensions in this order, outermost first?"""
    for d in reversed(order):
        if shape[d] != 1 and strides[d] != pitch:
            return False
        pitch *= shape[d]
    return True


def _folded(shape: Point, strides: Point, itemsize: int) -> bool:
    """May two indices address the same memory: are strides smaller than the extent of inner dimensions?"""
    reach = itemsize
    for step, n in sorted([(abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1]):
        if step < reach:
            return True
        reach += step * (n - 1)
    return False


INTERNED = 1 << 15
_forms: dict[tuple[Point, Point, Any], Form] = Recurring(INTERNED)


def memory_order(order: Any) -> str:
    """Convert an `order` argument to C, F, A or K, or raise NumPy's error."""
    if order is None:
        return "K"
    if type(order) is not str or order not in ("C", "F", "A", "K"):
        numpy.empty_like(0, order=order)  # raises where NumPy would
    return (order.decode() if isinstance(order, bytes) else str(order)).upper()


def copying(copy: Any) -> bool | None:
    """Convert a `copy` argument to True, False or None, or raise NumPy's error; `_CopyMode` is accepted."""
    if copy is numpy._CopyMode.IF_NEEDED:
        return None
    if isinstance(copy, str):
        convert: Any = numpy.array
        convert(0, copy=copy)  # raises
    return None if copy is None else bool(copy)


def form(shape: Point, strides: Point, dtype: numpy.dtype[Any]) -> Form:
    found = _forms.get((shape, strides, dtype))
    if found is None:
        found = _forms[shape, strides, dtype] = Form(shape, strides, dtype)
    return found


def form_of(array: Mirror) -> Form:
    return form(array.shape, array.strides, array.dtype)


@lru_cache(1 << 10)
def row_major(shape: Point, dtype: numpy.dtype[Any]) -> Form:
    """The form of a fresh C-ordered array."""
    return packed(shape, range(len(shape)), dtype)


def column_major(shape: Point, dtype: numpy.dtype[Any]) -> Form:
    """The form of a fresh Fortran-ordered array."""
    return packed(shape, range(len(shape) - 1, -1, -1), dtype)


def packed(shape: Point, order: Sequence[int], dtype: numpy.dtype[Any]) -> Form:
    """The form of a packed array with its dimensions in memory in the order `order`, outermost first."""
    strides, pitch = [0] * len(shape), dtype.itemsize
    if 0 in shape and not any(numpy.empty(shape, dtype).strides):  # since NumPy 2.4
        return form(shape, tuple(strides), dtype)
    for d in reversed(order):
        strides[d] = pitch
        pitch *= max(shape[d], 1)
    return form(shape, tuple(strides), dtype)


def like(inputs: list[Mirror], shape: Point, dtype: numpy.dtype[Any], order: str = "K") -> Form:
    """The form that NumPy gives the result of an elementwise operation on `inputs`."""
    if order not in ("C", "F", "A", "K"):
        order = memory_order(order)
    if order == "C" or (order == "K" and all(x.flags.c_contiguous for x in inputs)):
        return row_major(shape, dtype)
    if order == "F" or (order == "A" and inputs and all(x.flags.fnc for x in inputs)):
        return column_major(shape, dtype)
    if order == "A":
        return row_major(shape, dtype)
    ranked = [x for x in inputs if x.ndim]
    if not ranked or 0 in shape:
        return row_major(shape, dtype)
    clipped = [_clipped(x) for x in ranked]
    flags: list[Any] = [["readonly"]] * len(clipped) + [["writeonly", "allocate"]]
    arrays: list[Any] = [*clipped, None]
    probe = numpy.nditer(arrays, ["zerosize_ok"], flags, op_dtypes=[None] * len(clipped) + [dtype])
    return packed(shape, outermost_first(probe.operands[-1]), dtype)


def replica(x: Mirror, dtype: numpy.dtype[Any], order: str = "K") -> Form:
    """The form that NumPy gives a copy of `x`, or an array like it (repeated dimensions innermost)."""
    if order == "K" and x.flags.fnc:
        return column_major(x.shape, dtype)
    if order != "K" or x.flags.c_contiguous or not x.size:
        return like([x], x.shape, dtype, order)
    return packed(x.shape, outermost_first(numpy.empty_like(_clipped(x))), dtype)


def resized(x: Mirror, shape: Point, dtype: numpy.dtype[Any], order: str) -> Form:
    """The form that NumPy gives an array like `x` of another shape."""
    if order == "A":
        order = "F" if x.flags.fnc else "C"
    if order == "K" and not x.flags.c_contiguous:
        probe = numpy.empty_like(_clipped(x), shape=[min(n, 2) for n in shape])
        return packed(shape, outermost_first(probe), dtype)
    return column_major(shape, dtype) if order == "F" else row_major(shape, dtype)


def joined(parts: list[Mirror], axis: int, shape: Point, dtype: numpy.dtype[Any]) -> Form:
    """The form that NumPy gives arrays that it joins along an axis."""
    if all(x.flags.c_contiguous for x in parts) or 0 in shape:
        return row_major(shape, dtype)
    return packed(shape, outermost_first(numpy.concatenate([model(x) for x in parts], axis)), dtype)


def model(x: Mirror) -> Mirror:
    """A small array with memory of its own, whose strides have the same order."""
    sizes = sorted({abs(s) for s in x.strides} - {0})
    strides = [sizes.index(abs(s)) + 1 if s else 0 for s in x.strides]
    return numpy.ndarray([min(n, 2) for n in x.shape], numpy.int8, bytes(sum(strides) + 1), 0, strides)


def _clipped(x: Mirror) -> Mirror:
    """The first two indices of each dimension: few elements with the same strides."""
    return x[tuple(slice(0, 2) for _ in x.shape)]


def outermost_first(x: Mirror) -> Point:
    """The dimensions of a packed array, from the largest stride to the smallest."""
    return tuple(sorted(range(x.ndim), key=lambda d: (-x.strides[d], x.shape[d] == 1, d)))
