"""Memory by its address: where the elements of an array begin, and NumPy arrays over memory at an address."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy

from diffuse.ir import Point

AnyArray = numpy.ndarray[Any, numpy.dtype[Any]]


class Span:
    """A piece of memory that NumPy may look at, with what keeps it alive."""

    __slots__ = ("__array_interface__", "keep", "__weakref__")

    def __init__(self, address: int, shape: Point, typestr: str, keep: object = None,
                 strides: Point | None = None) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": typestr,
                                    "strides": strides, "version": 3}
        self.keep = keep


def _interface_address(array: AnyArray) -> int:
    return int(array.__array_interface__["data"][0])


def _address_reader() -> Callable[[AnyArray], int]:
    """Read the data pointer out of the array object, where it follows Python's header: a tenth of the cost of
    asking for it."""
    at, place = ctypes.c_ssize_t.from_address, object.__basicsize__
    probe = numpy.zeros(7)[2:]
    if at(id(probe) + place).value == _interface_address(probe):
        return lambda array: at(id(array) + place).value
    return _interface_address


address = _address_reader()
"""The address of an array's first element."""
