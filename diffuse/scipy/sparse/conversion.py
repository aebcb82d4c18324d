"""Converts a call on sparse arrays to the same call on SciPy objects over the same memory, and its results
back.

Arguments become SciPy matrices and NumPy arrays.  Sparse results become ours.  Arrays that SciPy took over
from an argument (the values of a transpose, say) become the very Diffuse arrays of that argument.  Those
taken over from a NumPy array of the program are copied, because operations on memory that the program can
access run one at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy
import scipy.sparse

from diffuse.numpy.arrays import core
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.bridge import fallback
from diffuse.scipy.sparse.state import CLASSES, Sparse, fetched, made, shell, stored

PURE = frozenset("""__getitem__ __iter__ __matmul__ __rmatmul__ __repr__ __str__ __len__ __bool__ _getnnz
_matmul_dispatch _rmatmul_dispatch copy diagonal dot get_shape getformat getmaxprint getnnz mean ndim nnz
nonzero shape size sum tobsr tocoo tocsc tocsr todense toarray trace transpose __add__ __radd__ __sub__
__rsub__ __mul__ __rmul__ multiply __truediv__ has_sorted_indices has_canonical_format""".split())
"""SciPy methods that do not modify the arrays of their operands."""


def plain(value: Any) -> bool:
    """Is it a Diffuse array, a number or text?  A quick test, as asking whether something is sparse takes
    longer."""
    kind = type(value)
    return kind is core.array_class or kind is str or kind in core.NUMBERS


class Lowering(fallback.Conversion):
    """Converts arguments to SciPy's and results back, and keeps the arrays and matrices among the
    arguments."""

    __slots__ = ("matrices", "foreign", "reading")

    def __init__(self, reading: bool = False) -> None:
        super().__init__()
        self.reading = reading
        """Whether the arrays of matrices will only be read."""
        self.matrices: list[Sparse] = []
        self.foreign: list[Any] = []
        """SciPy objects that the program holds."""

    def lowered(self, value: Any) -> Any:
        if plain(value):
            return super().lowered(value)
        if isinstance(value, Sparse):
            self.matrices.append(value)
            return value.plain(self.reading)
        if isinstance(value, numpy.ndarray) and value.dtype == object and type(value) is numpy.ndarray:
            return self._objects(value)
        if scipy.sparse.issparse(value):
            self.foreign.append(value)
            return value
        return super().lowered(value)

    def run(self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], changes: bool
            ) -> Any:
        """Call SciPy's function on converted arguments; `changes` says whether it may modify the arrays of
        matrices."""
        try:
            return function(*args, **kwargs)
        finally:
            self.put_back()
            for m in self.matrices:
                m._changed(changes)

    def _objects(self, value: Any) -> Any:
        """Convert an array of objects (blocks of a matrix, say) that may contain sparse arrays."""
        if not any(isinstance(v, Sparse | Array) for v in value.flat):
            return value
        out = numpy.empty_like(value)
        for index in numpy.ndindex(value.shape):
            out[index] = self.lowered(value[index])
        return out

    def raised(self, value: Any, held: bool = True) -> Any:
        if isinstance(value, type):
            return CLASSES.get(value, value)
        if scipy.sparse.issparse(value):
            return self.matrix(value)
        return super().raised(value, held)

    def matrix(self, value: Any) -> Any:
        """Convert a SciPy object that a call returned to ours."""
        for m in self.matrices:
            if m._held is value:
                return m
        if type(value) not in CLASSES:
            return value
        found = made(shell(value) if any(value is other for other in self.foreign) else value)
        self.connect(found)
        return found

    def connect(self, found: Any) -> None:
        """Let a new matrix share arrays with the arguments, as its SciPy object does with theirs."""
        for name in found._part_names():
            array = fetched(found._held, name)
            if name in found._parts:
                continue
            if not isinstance(array, numpy.ndarray) or not array.size:
                continue
            ours = self._ours(array)
            if ours is not None:
                found._share(name, ours)
            elif self._outside(array):
                stored(found._held, name, array.copy())

    def _ours(self, array: Any) -> Any:
        """The Diffuse array of an argument with this memory, or a view of it; None if there is none."""
        for m in self.matrices:
            for name in m._part_names():
                theirs = fetched(m._held, name)
                if theirs is array or numpy.may_share_memory(theirs, array):
                    part = m._part(name)
                    if not isinstance(part, Array):
                        return None  # its type has no kernels: both hold NumPy's array
                    return part if theirs is array else fallback.looking_into(part, theirs, array)
        for plain, known in self.pairs:
            if isinstance(known, Array) and (plain is array or numpy.may_share_memory(plain, array)):
                return known if plain is array else fallback.looking_into(known, plain, array)
        return None

    def _outside(self, array: Any) -> bool:
        """Can the program access this memory by other means?"""
        if any(numpy.may_share_memory(plain, array) for plain, known in self.pairs if plain is known):
            return True
        return any(numpy.may_share_memory(theirs, array) for m in self.foreign for theirs in arrays(m))


def arrays(held: Any) -> list[Any]:
    """The numeric arrays that a SciPy object holds."""
    found = [*getattr(held, "coords", ())] if held.format == "coo" else []
    found += [getattr(held, name, None) for name in ("data", "indices", "indptr", "offsets")]
    return [a for a in found if isinstance(a, numpy.ndarray) and a.dtype != object]


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
         name: str = "") -> Any:
    """Call SciPy's function on our arguments; `name` is that of a method whose object is the first
    argument."""
    conversion = Lowering(name in PURE)
    lowered = [conversion.lowered(v) for v in args]
    named = {key: conversion.lowered(v) for key, v in kwargs.items()}
    found = conversion.run(function, lowered, named, name not in PURE)
    return conversion.raised(found, getrefcount(found) > 3)


def method(ours: Sparse, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method of the SciPy object that one of our matrices holds."""
    def run(held: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(held, name)(*args, **kwargs)

    return call(run, (ours, *args), kwargs, name)
