"""The meaning of the op `spmv`: rows of a sparse matrix times a dense vector or matrix, with NumPy.

Each row is summed element by element from zero, as the compiled kernel does it: step k adds the k-th element
of every row that has one, so that short rows take few steps; a long row is a running sum of its own.  The
products of rows that follow one another in memory are computed together, before these steps.  SciPy's
loops ignore floating-point errors, so none is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffuse.kernels.meaning.functions import cast
from diffuse.kernels.meaning.reduce import Array, Ranges

LONG = 64
"""Rows with more elements than this are summed separately."""

TERMS = 1 << 20
"""The most products that are computed together."""

Memory = Callable[[int, str, Sequence[int]], Array]


class SparseRows:
    """The op at one point of a launch; `ranges` are the iterations of the current block."""

    def __init__(self, memory: Memory, operands: Sequence[tuple[int, str]], box: Ranges,
                 width: int | None) -> None:
        self.memory = memory
        self.operands = operands
        """Address and element type of the values, the columns and the dense operand; or of the values to
        sum."""
        self.ranges = box
        self.width = width
        """Columns of the dense operand, or None if it is a vector."""

    def __call__(self, low: Array, high: Array, out: Array) -> None:
        if len(self.operands) == 1:
            self._total(low, high, out)
            return
        if self.width is not None:
            low, high = low[:, 0], high[:, 0]
        out[...] = 0
        end = int(high.max(initial=0))
        if not end:
            return
        values, columns = (self.memory(address, dtype, (end,)) for address, dtype in self.operands[:2])
        with np.errstate(all="ignore"):
            self._sum(low, high, out, values, columns)

    def _total(self, low: Array, high: Array, out: Array) -> None:
        """Sum rows that follow one another: each ends where the next one begins that is not empty."""
        (address, dtype), rows = self.operands[0], np.flatnonzero(high > low)
        out[...] = 0
        if len(rows):
            values = self.memory(address, dtype, (int(high[rows[-1]]),))
            out[rows] += np.add.reduceat(values, low[rows], dtype=out.dtype)  # to zero: never -0.0

    def _sum(self, low: Array, high: Array, out: Array, values: Array, columns: Array) -> None:
        counts = high - low
        shortest, longest, first = int(counts.min()), int(counts.max()), int(low.min())
        if not longest:
            return
        terms: Array | None = None
        if self.width is None and len(values) - first <= min(TERMS, 2 * int(counts.sum())):
            low, high, values, columns = low - first, high - first, values[first:], columns[first:]
            terms = self._terms(values, columns, out.dtype)
        for k in range(min(LONG, longest)):
            there = counts > k
            # a clipped index is one of a row that has no such element
            if terms is not None and 2 * np.count_nonzero(there) > len(there):
                np.add(out, terms.take(low + k, mode="clip"), out=out, where=True if k < shortest else there)
                continue
            rows = np.flatnonzero(there)
            at = low[rows] + k
            out[rows] += self._terms(values[at], columns[at], out.dtype) if terms is None else terms[at]
        for row in np.flatnonzero(counts > LONG):
            self._rest(out, int(row), slice(int(low[row]) + LONG, int(high[row])), values, columns)

    def _rest(self, out: Array, row: int, at: slice, values: Array, columns: Array) -> None:
        terms = self._terms(values[at], columns[at], out.dtype)
        running = np.concatenate((out[row][None], terms))
        out[row] = np.add.accumulate(running, axis=0, dtype=out.dtype)[-1]

    def _terms(self, values: Array, columns: Array, dtype: Any) -> Array:
        """values[k] * dense[columns[k]] in the computing type."""
        address, kind = self.operands[2]
        count = int(columns.max()) + 1
        if self.width is None:
            dense = self.memory(address, kind, (count,))[columns]
        else:
            low, high = self.ranges[-1]
            dense = self.memory(address, kind, (count, self.width))[:, low:high][columns]
            values = values[:, None]
        return _product(_as_type(values, dtype), _as_type(dense, dtype))


def _as_type(values: Array, dtype: Any) -> Array:
    if values.dtype == dtype:
        return values
    found = np.empty(values.shape, dtype)
    cast(values, out=found)
    return found


def _product(a: Array, b: Array) -> Array:
    """A product; each operation of a complex one is rounded, as in SciPy's loops but not in NumPy's."""
    if np.result_type(a, b).kind != "c":
        return np.asarray(np.multiply(a, b))
    found = np.empty(np.broadcast_shapes(a.shape, b.shape), np.result_type(a, b))
    found.real = a.real * b.real - a.imag * b.imag
    found.imag = a.real * b.imag + a.imag * b.real
    return found
