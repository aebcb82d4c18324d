"""Products of sparse matrices with dense vectors and matrices: from rows in memory to the task `spmv`.

Sums of rows are the task `reduceat`, which is the same without columns and without a dense operand.

The rows come as CSR has them: `positions` (where each row begins, and where the last one ends), `columns` and
`values`.  The task iterates over the rows (and over the columns of a dense matrix), so that it fuses with
what follows over the same space: the dot product of a conjugate gradient step, say.  Which elements of the
dense operand a row needs is data: the task reads all of it, and waits for whoever still writes it.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse import engine
from diffuse.numpy.base import recorded, storage_of, view_of
from diffuse.numpy.creation import zeros
from diffuse.numpy.forms import NATIVE, row_major
from diffuse.view import View


def recordable(*dtypes: Any) -> bool:
    """Are there kernels for matrices and vectors of these element types?"""
    return all(numpy.dtype(d) in NATIVE for d in dtypes)


def spmv(positions: Any, columns: Any, values: Any, dense: Any) -> Any:
    """The product of a sparse matrix (m, n) and a dense vector (n,) or matrix (n, k), as a lazy array.

    `positions` (m + 1,), `columns` and `values` (stored elements,) are Diffuse arrays; positions rise from 0
    and columns lie in [0, n): nobody looks again.  Each element of the result is summed over the row as it
    is stored, from zero, in the common element type of `values` and `dense`, which are the bits of SciPy's
    `csr_matvec` and `csr_matvecs`.
    """
    rows = positions.shape[0] - 1
    dtype = numpy.result_type(values.dtype, dense.dtype)
    shape = (rows, *dense.shape[1:])
    if not values.size or 0 in shape:
        return zeros(shape, dtype)
    out = recorded(row_major(shape, dtype))
    first, last = positions[:-1], positions[1:]
    dense = packed(dense)
    inputs = (_along(first, shape), _along(last, shape), _gathered(values, shape), _gathered(columns, shape),
              _gathered(dense, shape))
    signature = ("int64", "int64", NATIVE[values.dtype], NATIVE[columns.dtype], NATIVE[dense.dtype],
                 NATIVE[dtype])
    engine.record("spmv", signature, shape, inputs, ((storage_of(out), view_of(out)),))
    return out


def totals(positions: Any, values: Any) -> Any:
    """The sums (m,) of the rows that begin at `positions` (m + 1,) among `values`, as a lazy array.

    In the element type in which NumPy adds up `values`, and with the bits of `numpy.add.reduceat`; of a row
    without elements, zero.  Positions rise from 0 to the number of values: nobody looks again.
    """
    rows = positions.shape[0] - 1
    dtype = numpy.add.reduce(numpy.empty(0, values.dtype)).dtype
    if not rows or not values.size:
        return zeros(rows, dtype)
    out, shape = recorded(row_major((rows,), dtype)), (rows,)
    inputs = (_along(positions[:-1], shape), _along(positions[1:], shape), _gathered(values, shape))
    engine.record("reduceat", ("int64", "int64", NATIVE[values.dtype], NATIVE[dtype]), shape, inputs,
                  ((storage_of(out), view_of(out)),))
    return out


def packed(x: Any) -> Any:
    """The array itself if its elements lie one after another in memory, else a copy of it."""
    return x if x.strides == row_major(x.shape, x.dtype).strides else x.copy()


def _along(x: Any, shape: tuple[int, ...]) -> tuple[Any, View]:
    """A vector with one element a row, alike for all columns."""
    view = view_of(x)
    return storage_of(x), view if len(shape) == 1 else view.kept(shape, (0,))


def _gathered(x: Any, shape: tuple[int, ...]) -> tuple[Any, View]:
    """An array whose first index is data."""
    return storage_of(x), view_of(x).gathered(shape)
