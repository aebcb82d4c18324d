"""Addresses of arrays: `__array_interface__`, for Python code that needs one and for NumPy, and `ctypes`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy
from numpy._core._internal import _ctypes

from diffuse.numpy.arrays.base import exported, shown
from diffuse.numpy.arrays.core import Array


class Held(numpy.ndarray[Any, Any]):
    """The memory of an array, which keeps the array itself alive."""

    array: Array


if TYPE_CHECKING:
    NumpyPointers = _ctypes[int]
else:  # generic in NumPy's description alone
    NumpyPointers = _ctypes


class Pointers(NumpyPointers):
    """NumPy's `ctypes` object of an array.  Its pointers hold the memory; for how long an address that is
    only a number is used is unknown, so that operations on the array run at once from then on."""

    def __init__(self, memory: Held, address: int) -> None:
        super().__init__(memory, address)
        self._array = memory.array

    @property
    def data(self) -> int:
        shown(self._array)
        return super().data


class Interface(dict[str, Any]):
    """The description of an array's memory.

    NumPy, in C, takes the item "data" from the dict itself and finds a buffer there, which it holds for as
    long as it uses the memory: the engine knows when that ends.  Python code that looks up "data" gets the
    address, as from NumPy's arrays; as it is unknown for how long it uses that, operations on the array run
    at once from then on.
    """

    __slots__ = ("_array", "_address")

    def __init__(self, array: Array) -> None:
        memory = exported(array)
        super().__init__(memory.__array_interface__)
        self._array, self._address = array, super().__getitem__("data")
        if memory.flags.c_contiguous:
            super().__setitem__("data", memory)
        else:
            shown(array)

    def __getitem__(self, name: str) -> Any:
        if name != "data":
            return super().__getitem__(name)
        shown(self._array)
        return self._address

    def __iter__(self) -> Iterator[str]:
        """A method of ours, so that a copy as a plain dict also looks up each item."""
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def values(self) -> Any:
        return dict(self).values()

    def items(self) -> Any:
        return dict(self).items()

    def __eq__(self, other: object) -> bool:
        """Do both describe the same memory?  A dict's own comparison would compare elements."""
        return dict(self) == (dict(other) if isinstance(other, Interface) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def copy(self) -> dict[str, Any]:
        return dict(self)

    def __repr__(self) -> str:
        return repr(dict(self))
