"""`x.flat`: NumPy's iterator over an array's memory, with Diffuse arrays as indices, values and results."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy

from diffuse.numpy.arrays.base import exported, wrote
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.ops.operands import lowered, wrap


def compared(compare: Callable[[Any, Any], Any]) -> Any:
    """Compare the elements with an array or a number."""
    def apply(self: Flat, other: Any) -> Any:
        return wrap(compare(self._real, lowered(other)))

    return apply


class Flat:
    """The elements of an array in C order, one by one, or by an index into the flat array."""

    __slots__ = ("base", "_real")
    __hash__: Any = None
    __class__: Any = numpy.flatiter

    def __init__(self, array: Array) -> None:
        self.base = array
        self._real: Any = exported(array).flat

    @property
    def index(self) -> int:
        return int(self._real.index)

    @property
    def coords(self) -> tuple[int, ...]:
        found: tuple[int, ...] = self._real.coords
        return found

    def __len__(self) -> int:
        return len(self._real)

    def __iter__(self) -> Flat:
        return self

    def __next__(self) -> Any:
        return next(self._real)

    def __getitem__(self, index: Any, /) -> Any:
        return wrap(self._real[lowered(index)])

    def __setitem__(self, index: Any, value: Any, /) -> None:
        self._real[lowered(index)] = lowered(value)
        wrote(self.base)

    def __delitem__(self, index: Any) -> None:
        raise TypeError("Cannot delete iterator elements")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return numpy.array(self._real, dtype, copy=copy)

    def copy(self) -> Any:
        return wrap(self._real.copy())

    __eq__, __ne__ = compared(operator.eq), compared(operator.ne)
    __lt__, __le__ = compared(operator.lt), compared(operator.le)
    __gt__, __ge__ = compared(operator.gt), compared(operator.ge)
