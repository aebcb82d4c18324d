"""Elements and parts of arrays, their description, and operators in place."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy

from diffuse.library import Recurring, operations, trace
from diffuse.numpy.arrays import core
from diffuse.numpy.arrays.access import at_hand, lend, mine, near, near_to_write, number_or_near
from diffuse.numpy.arrays.arithmetic import GRANTS, MOVING, UFUNCS, Method, Operators, inplace, named
from diffuse.numpy.arrays.core import ENGINE, NDARRAY, NUMBERS, Array, looking, slow, viewing
from diffuse.numpy.arrays.forms import BASE, EXTENT, NATIVE
from diffuse.numpy.small import native
from diffuse.settings import config

INDICES: set[type] = {int, slice, type(None), type(Ellipsis), *(t.type for t in NATIVE if t.kind in "iu")}
"""Types of indices that select a view or an element."""


def simple(index: Any) -> bool:
    """Does an index select a view or an element, for any array?"""
    kind = type(index)
    if kind is tuple:
        for part in index:
            if type(part) not in INDICES:
                return False
        return True
    return kind in INDICES


def _raise(x: Any, y: Any, out: Any) -> None:
    """Compute `x **= y` by the operator of NumPy's arrays, which uses simpler functions for some
    exponents."""
    x **= y


SLICES: dict[tuple[Any, ...], tuple[Any, ...]] = Recurring(1 << 12)
"""Slices that were taken before, of large arrays and of busy small ones: form, view and mirror of the slice,
and the mirror that was sliced; an empty tuple for one that was seen once.  The key is the token of the view
with the bounds."""


def sliced(view: int, index: Any) -> tuple[Any, ...] | None:
    """The key in `SLICES` for an index of a view: all bounds, integers and new dimensions.  None for an index
    that selects an element, and for indices of other types."""
    if type(index) is slice:
        start, stop, step = index.start, index.stop, index.step
        if ((start is None or type(start) is int) and (stop is None or type(stop) is int)
                and (step is None or type(step) is int)):
            return view, start, stop, step
        return None
    if index is None or index is Ellipsis:
        return view, type(index)
    if type(index) is not tuple or not index:  # an empty one selects the element of a 0-d array
        return None
    bounds: list[Any] = [view]
    element = True
    for part in index:
        kind = type(part)
        if kind is int:
            bounds += (int, part)
            continue
        element = False
        if kind is slice:
            for bound in (part.start, part.stop, part.step):
                if bound is not None and type(bound) is not int:
                    return None
                bounds.append(bound)
        elif part is None or part is Ellipsis:
            bounds.append(kind)
        else:
            return None
    return None if element else tuple(bounds)


def part_of(x: Array, index: Any, key: tuple[Any, ...], memory: Any) -> Any:
    """A slice of an array, looked up if the same view was sliced before.  A slice that is small, or belongs
    to a program whose views move, is kept only from its second time on, as many never recur.  `memory` is the
    same slice of the array's memory, if that is known."""
    known = SLICES.get(key)
    hosted_there = x.meta is x.memory
    if known and (hosted_there or known[3] is x.meta):
        part = Array.__new__(core.array_class)  # as `viewing` makes them
        part._form, part.part, part.meta, _ = known
        part.memory = memory
        if hosted_there:
            part.meta = memory
        part.storage = x.storage
        part.owner = x if x.owner is None else x.owner
        return part
    if known is None and memory is not None and MOVING:
        SLICES[key] = ()
        return looking(x, memory)
    part = viewing(x, x.meta[index])
    if memory is not None:
        part.memory = memory
    size = part.meta.size
    if size < core.SMALL and (memory is not None or known is None):
        if memory is None and size >= core.TINY:
            SLICES[key] = ()
    elif size >= core.TINY and slow.locate(part):
        SLICES[key] = part.form, part.part, part.meta, x.meta
    return part


def subscript(x: Array, index: Any) -> Any:
    """`x[index]`."""
    memory, found, kind = x.memory, None, type(index)
    if (memory is not None and (core.SEES or memory is x.meta)
            and (kind is int or kind is slice or simple(index))):
        found = memory[index]
        if type(found) is not NDARRAY:  # an element
            storage = x.storage
            if storage is not None and storage.touched != ENGINE.epoch:
                return memory[index]
            memory = at_hand(x)
            return slow.getitem(x, index) if memory is None else memory[index]
        if x.part is None or found.size < core.SMALL:
            if found.size < core.TINY and lend(x, found):
                return found
            part = Array.__new__(core.array_class)
            owner = x.owner
            if owner is None:
                owner = x
            part.owner = owner
            part.storage = owner.storage
            part._form = part.part = None
            part.meta = part.memory = found
            return part
    if x.part is not None:
        key = sliced(x.part.token, index)
        if key is not None:
            return part_of(x, index, key, found)
    if type(index) is int and x.meta.ndim == 1:
        memory = at_hand(x)
        if memory is not None:
            return memory[index]
    return slow.getitem(x, index)


def assign(x: Array, index: Any, value: Any) -> None:
    """`x[index] = value`."""
    memory: Any = x.memory
    if memory is not None and (type(index) is int or simple(index)):
        right = value if type(value) is float else number_or_near(value)
        if right is not None and x.meta.flags.writeable:
            target = memory if memory.size < core.SMALL else memory[index]
            if type(target) is not NDARRAY or target.size < core.SMALL:
                storage = x.storage
                if core.SEES and storage is not None and storage.touched != ENGINE.epoch:
                    storage.version += 1
                else:
                    memory = mine(x)
                if memory is not None:
                    memory[index] = right
                    return
    slow.setitem(x, index, value)


slow.subscript, slow.assign = subscript, assign


def updating(function: numpy.ufunc, name: str) -> Method:
    """The method for `self op= other`."""
    def update(self: Any, other: Any) -> Any:
        return self if inplace(function, self, other) else slow.update(function.__name__, self, other)

    return named(update, name)


class Described(Operators):
    """The description of an array, its elements, and the operators that change them."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        found: tuple[int, ...] = self.meta.shape
        return found

    @shape.setter
    def shape(self, shape: Any) -> None:
        slow.set_shape(self, shape)

    @property
    def dtype(self) -> numpy.dtype[Any]:
        return self.meta.dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        slow.set_dtype(self, dtype)

    @property
    def ndim(self) -> int:
        return self.meta.ndim

    @property
    def size(self) -> int:
        return self.meta.size

    @property
    def T(self) -> Any:
        return viewing(self, self.meta.T)

    @property
    def real(self) -> Any:
        return slow.component(self, "real")

    @real.setter
    def real(self, value: Any) -> None:
        slow.set_component(self, "real", value)

    @property
    def imag(self) -> Any:
        return slow.component(self, "imag")

    @imag.setter
    def imag(self, value: Any) -> None:
        slow.set_component(self, "imag", value)

    def __index__(self) -> int:
        if self.form.ndim:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return operator.index(slow.host(self))

    def __buffer__(self, flags: int) -> Any:
        """Python's buffer protocol, from 3.12 on; the extension provides it for all versions."""
        return slow.buffer(self, flags).data

    def __len__(self) -> int:
        return len(self.meta)

    def __iter__(self) -> Iterator[Any]:
        if not self.meta.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[k] for k in range(self.meta.shape[0]))

    def __getitem__(self, index: Any) -> Any:
        return subscript(self, index)

    __iadd__ = updating(numpy.add, "iadd")
    __isub__ = updating(numpy.subtract, "isub")
    __imul__ = updating(numpy.multiply, "imul")
    __itruediv__ = updating(numpy.divide, "itruediv")
    __ifloordiv__ = updating(numpy.floor_divide, "ifloordiv")
    __imod__ = updating(numpy.remainder, "imod")
    __ilshift__ = updating(numpy.left_shift, "ilshift")
    __irshift__ = updating(numpy.right_shift, "irshift")
    __iand__ = updating(numpy.bitwise_and, "iand")
    __ior__ = updating(numpy.bitwise_or, "ior")
    __ixor__ = updating(numpy.bitwise_xor, "ixor")

    def __ipow__(self, other: Any, modulo: Any = None) -> Any:
        return self if inplace(_raise, self, other) else slow.update("power", self, other)

    def __setitem__(self, index: Any, value: Any) -> None:
        assign(self, index, value)

    def __delitem__(self, key: Any) -> None:
        raise ValueError("cannot delete array elements")


if native is not None:
    native.connect(slow, ENGINE, near, near_to_write, NUMBERS, MOVING, UFUNCS)
    native.connect_soon(at_hand, trace.counters, "single", "fallbacks", operations.products_fused())
    native.connect_moving(GRANTS, BASE, EXTENT)
    core.set_small(config.small)
    globals()["Described"] = native.Described
