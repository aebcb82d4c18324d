"""Sums and means of sparse arrays: along rows or columns by the task `reduceat` or a product with ones.

SciPy's sums along the axis that its format goes along (the rows of csr, the columns of csc) are those of
`numpy.add.reduceat`, added to zero, and other sums along one axis are products with ones; here they are the
same, and have the same bits (but where a csr array has values that belong to no row, which SciPy adds to the
last one).  A sum of everything is the sum of the values, as `diffuse.numpy.sum` adds them up.  Matrices
(whose sums are `numpy.matrix`), formats other than csr, csc and coo, `out=` and errors are left to SciPy.
Source: SciPy's `_spbase.sum` and `mean`, and `_cs_matrix.sum`.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy
import scipy.sparse

import diffuse.numpy as np
from diffuse.numpy.arrays import access
from diffuse.numpy.arrays.core import Array
from diffuse.scipy.sparse import checks, conversion, matmul, narrow, products, rows
from diffuse.scipy.sparse.state import NUMBERS, Sparse, fetched, made, put, shell, stand_in

FORMATS = ("csr", "csc", "coo")
CASTS_SUMS = numpy.lib.NumpyVersion(scipy.__version__) < "1.18.0"
"""Does SciPy cast sums to the type that is asked for?  Later versions cast the elements."""


class Reductions(Sparse):
    """The reducing methods of formats whose values are one array."""

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Sum of all elements, or along one axis; see SciPy's `csr_array.sum`."""
        found = None
        if out is None and (dtype is None or CASTS_SUMS):
            sought = _sought(self, axis)
            found = None if sought is None else _sum(self, sought, dtype)
        return conversion.method(self, "sum", axis=axis, dtype=dtype, out=out) if found is None else found

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Mean of all elements, zeros too, or along one axis; see SciPy's `csr_array.mean`."""
        found = None
        if out is None:
            sought = _sought(self, axis)
            if sought is not None and _canonical(self):
                found = _mean(self, sought._replace(native=False), dtype)
        return conversion.method(self, "mean", axis=axis, dtype=dtype, out=out) if found is None else found


class Sought(NamedTuple):
    """A requested reduction."""

    axes: tuple[int, ...]
    """The axes to reduce, one or both, counted from 0."""
    native: bool
    """Is it the axis along which the format stores elements, given as a number?  SciPy then sums pairwise."""


def _sum(a: Sparse, sought: Sought, dtype: Any) -> Any:
    """The lazy sum, or None if SciPy has to compute it."""
    values = a._part("data")
    if len(sought.axes) == 2:
        if not _canonical(a):  # SciPy sums duplicates in the array itself
            conversion.method(a, "sum_duplicates")
            values = a._part("data")
        return np.sum(values, dtype=dtype)
    wanted = numpy.add.reduce(numpy.empty(0, values.dtype)).dtype
    if dtype is not None and not numpy.can_cast(wanted, dtype, "same_kind"):
        return None
    if sought.native:
        found = products.totals(*_positions(a))
    else:
        axis = sought.axes[0]
        found = matmul.product(a if axis else a.transpose(), np.ones(a._held.shape[axis], wanted))
    return found if found is None or dtype is None else found.astype(dtype, copy=False)


def _positions(a: Sparse) -> tuple[Any, Any]:
    """The positions at which rows (of csc: columns) begin, and the values."""
    narrowed = narrow.rows_of(a)
    if narrowed is not None:
        return narrowed[0], narrowed[2]
    checks.check(a)
    return rows.contiguous(a._part("indptr")), rows.contiguous(a._part("data"))


def _mean(a: Sparse, sought: Sought, dtype: Any) -> Any:
    """The mean, as the sum of divided values, which is SciPy's method: along one axis always a product."""
    values: Any = a._part("data")
    if values.dtype.kind in "biu":
        values = values.astype(numpy.float64)
    values = values * (1.0 / prod(a._held.shape[k] for k in sought.axes))
    found = _sum(_beside(a, values), sought, None)
    return found if found is None or dtype is None else found.astype(dtype, copy=False)


def _beside(a: Sparse, values: Any) -> Any:
    """A matrix that shares the structure of `a` with other values, for internal use."""
    held = shell(a._held)
    held.data = stand_in(values)
    found = made(held, {**{name: a._part(name) for name in a._part_names()}, "data": values})
    put(found, "_checked", a._checked)
    put(found, "_kept", {**a._kept})
    return found


def _sought(a: Sparse, axis: Any) -> Sought | None:
    """The reduction along `axis`, if it is worth recording; else None."""
    axes = _axes(a, axis)
    if axes is None or len(axes) == 2:
        return None if axes is None else Sought(axes, False)
    held, values = a._held, a._part("data")
    if isinstance(a, scipy.sparse.spmatrix) or matmul.soon(a, values):
        return None
    along = (held.format, axes[0]) in (("csr", 1), ("csc", 0))
    if not along and access.ready(values) and not any(name.startswith("order") for name in a._kept):
        return None  # sorting by rows takes longer than summing
    return Sought(axes, along and not isinstance(axis, tuple))


def _canonical(a: Sparse) -> bool:
    """Is the matrix free of duplicates?  Does not wait for a lazy structure if this is already known."""
    held = a._held
    known = held.format == "coo" or "_has_canonical_format" in vars(held)
    return bool((held if known else a._structured()).has_canonical_format)


def _axes(a: Sparse, axis: Any) -> tuple[int, ...] | None:
    """The axes to reduce, counted from 0, if the format is supported; None leaves the reduction to SciPy."""
    held = a._held
    if held.format not in FORMATS or held.ndim != 2 or not held.nnz or not checks.integers(a):
        return None
    values, structure = a._part("data"), ("indices",) if held.format != "coo" else (0, 1)
    if not isinstance(values, Array) or values.form.dtype.char not in NUMBERS or any(
            len(a._parts.get(name, fetched(held, name))) != values.form.shape[0] for name in structure):
        return None
    if axis is None:
        return 0, 1
    given = axis if isinstance(axis, tuple) else (axis,)
    if not all((type(k) is int or isinstance(k, numpy.integer)) and -2 <= k < 2 for k in given):
        return None
    axes = tuple(sorted({int(k) % 2 for k in given}))
    if len(axes) != len(given) or not axes:
        return None
    return axes
