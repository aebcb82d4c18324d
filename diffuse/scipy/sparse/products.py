"""Products of sparse matrices with dense vectors and matrices: from rows in memory to the task `spmv`.

Sums of rows are the task `reduceat`, which is the same without columns and without a dense operand.

The rows come as CSR has them: `positions` (where each row begins, and where the last one ends), `columns` and
`values`.  The task iterates over the rows (and over the columns of a dense matrix), so that it fuses with
what follows over the same space: the dot product of a conjugate gradient step, say.  The elements of the
dense operand that a row needs are data-dependent: the task reads all of it, and depends on all tasks that
write it.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse import library
from diffuse.library import View
from diffuse.numpy.arrays.access import storage_of
from diffuse.numpy.arrays.base import view_of
from diffuse.numpy.arrays.core import recorded, viewing
from diffuse.numpy.arrays.forms import NATIVE, row_major
from diffuse.numpy.ops.creation import zeros


def recordable(*dtypes: Any) -> bool:
    """Are there kernels for matrices and vectors of these element types?"""
    return all(numpy.dtype(d) in NATIVE for d in dtypes)


class PackedMatrix:
    """A sparse matrix of m rows, and the precomputed inputs of its products.

    `positions` (m + 1,), `columns` and `values` (stored elements,) are packed Diffuse arrays; positions rise
    from 0 and columns lie in [0, n), which is not checked again.
    """

    __slots__ = ("count", "stored", "template", "_arrays", "_ends", "_inputs", "_results")

    def __init__(self, positions: Any, columns: Any, values: Any) -> None:
        self.count = positions.shape[0] - 1
        self.stored = values.shape[0]
        self.template: Any = None
        """The template of the last product that was recorded."""
        self._arrays = values, columns
        self._ends = ends(positions)
        self._inputs: dict[tuple[int, ...], tuple[Any, ...]] = {}
        self._results: dict[Any, tuple[Any, tuple[str, ...]]] = {}

    def inputs(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """The operands of a task over `shape`, except for the dense one."""
        found = self._inputs.get(shape)
        if found is None:
            found = self._inputs[shape] = (*[_along(x, shape) for x in self._ends],
                                           *[_gathered(x, shape) for x in self._arrays])
        return found

    def result(self, dense: Any) -> tuple[Any, tuple[str, ...]]:
        """The element type and signature of a product with operands of the element type `dense`."""
        found = self._results.get(dense)
        if found is None:
            values, columns = self._arrays
            dtype = numpy.result_type(values.dtype, dense)
            names = [NATIVE[d] for d in (values.dtype, columns.dtype, dense, dtype)]
            found = self._results[dense] = dtype, ("int64", "int64", *names)
        return found


def ends(positions: Any) -> tuple[Any, Any]:
    """Where the rows of a sparse matrix begin and end, as views for tasks, however few elements they have."""
    return viewing(positions, positions.meta[:-1]), viewing(positions, positions.meta[1:])


def spmv(rows: PackedMatrix, dense: Any) -> Any:
    """The product of a sparse matrix (m, n) and a dense vector (n,) or matrix (n, k), as a lazy array.

    Each element of the result is summed over the row as it is stored, from zero, in the common element type
    of values and `dense`, which are the bits of SciPy's `csr_matvec` and `csr_matvecs`.
    """
    dense = dense if dense.form.ordered else dense.copy()
    shape = (rows.count, *dense.form.shape[1:])
    dtype, signature = rows.result(dense.form.dtype)
    if not rows.stored or 0 in shape:
        return zeros(shape, dtype)
    out = recorded(row_major(shape, dtype))
    rows.template = library.record("spmv", signature, shape, (*rows.inputs(shape), _gathered(dense, shape)),
                                   ((out.storage, out.part),))
    return out


def totals(positions: Any, values: Any) -> Any:
    """The sums (m,) of the rows that begin at `positions` (m + 1,) among `values`, as a lazy array.

    In the element type in which NumPy adds up `values`, and with the bits of `numpy.add.reduceat`, added to
    zero.  Positions rise from 0 to the number of values, which is not checked again.
    """
    rows = positions.shape[0] - 1
    dtype = numpy.add.reduce(numpy.empty(0, values.dtype)).dtype
    if not rows or not values.size:
        return zeros(rows, dtype)
    out, shape = recorded(row_major((rows,), dtype)), (rows,)
    inputs = (*[_along(end, shape) for end in ends(positions)], _gathered(values, shape))
    library.record("reduceat", ("int64", "int64", NATIVE[values.dtype], NATIVE[dtype]), shape, inputs,
                  ((storage_of(out), view_of(out)),))
    return out


def _along(x: Any, shape: tuple[int, ...]) -> tuple[Any, View]:
    """A vector with one element per row, broadcast along the columns."""
    view = view_of(x)
    return storage_of(x), view if len(shape) == 1 else view.kept(shape, (0,))


def _gathered(x: Any, shape: tuple[int, ...]) -> tuple[Any, View]:
    """An array whose first index is data-dependent."""
    return storage_of(x), view_of(x).gathered(shape)
