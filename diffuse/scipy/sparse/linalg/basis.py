"""The two matrices of `gmres`: the Krylov basis by rows, and coefficients, pending until one is read.

SciPy's code keeps the basis of its Krylov space in the rows of one array, and dot products of these vectors
in another.  As views of one store the rows would keep tasks from fusing, and each product would be a task of
its own that stores one element.
"""

from __future__ import annotations

from typing import Any

import numpy

import diffuse.numpy as np
from diffuse.numpy.arrays import core
from diffuse.numpy.ops import functions


class Basis:
    """A matrix whose rows are separate arrays: `v[k, :]` is read and written as a whole."""

    __array_ufunc__ = None  # so that `y @ v` calls our __rmatmul__

    def __init__(self, count: int) -> None:
        self.rows: list[Any] = [None] * count

    def __getitem__(self, index: tuple[Any, slice]) -> Any:
        found = self.rows[index[0]]
        if not isinstance(found, list):
            return found
        part = Basis(0)
        part.rows = found
        return part

    def __setitem__(self, index: tuple[int, slice], row: Any) -> None:
        if row is not self.rows[index[0]]:  # an operation in place assigns the row itself
            self.rows[index[0]] = np.array(row)

    def __rmatmul__(self, weights: Any) -> Any:
        if functions.small(*self.rows):
            return weights @ np.array(self.rows)
        found = weights[0] * self.rows[0]
        for weight, row in zip(weights[1:], self.rows[1:], strict=True):
            found = found + weight * row
        return found


class Coefficients:
    """A matrix of numbers, some of which are pending numbers until an element is read."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.values = numpy.zeros(shape, dtype)
        self.pending: list[tuple[Any, Any]] = []

    def __setitem__(self, index: Any, value: Any) -> None:
        self.pending.append((index, value))

    def __getitem__(self, index: Any) -> Any:
        for place, value in self.pending:
            self.values[place] = value.value() if type(value) in core.PENDING else value
        self.pending.clear()
        return self.values[index]


def empty(shape: Any, dtype: Any = float, *args: Any, **options: Any) -> Any:
    """`numpy.empty` for a solver."""
    if isinstance(shape, list) and len(shape) == 2 and not (args or options):
        return Basis(shape[0])
    return np.empty(shape, dtype, *args, **options)


def zeros(shape: Any, dtype: Any = float, *args: Any, **options: Any) -> Any:
    """`numpy.zeros` for a solver."""
    if isinstance(shape, list) and len(shape) == 2 and not (args or options):
        return Coefficients(shape, dtype)
    return np.zeros(shape, dtype, *args, **options)
