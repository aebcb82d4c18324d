"""Norms of sparse matrices: sums and extremes over stored values, by rows or columns.

Source: the documentation of scipy.sparse.linalg.norm.
"""

from __future__ import annotations

from typing import Any

import numpy

import diffuse.numpy as np
from diffuse.scipy.sparse.linalg import conversion
from diffuse.scipy.sparse.state import Sparse

FORMATS = ("csr", "csc", "coo")
"""Formats whose values are each stored once, in canonical form."""


def norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    """The norm of a sparse array (M, N), or of its rows (`axis` 1) or columns (0).

    `ord` of a matrix is "fro" (also None), 1, -1, inf, -inf or 2; of rows and columns any number.  Frobenius'
    norm and those with sums of magnitudes are recorded, the others are SciPy's.
    Raises TypeError for what is not sparse, ValueError for axes and orders that there are not.
    Source: scipy.sparse.linalg.norm.
    """
    if not conversion.is_sparse(x):
        raise TypeError(f"input is not sparse ({type(x).__name__}). use numpy.linalg.norm")
    found = _recorded(x, ord, axis) if isinstance(x, Sparse) else None
    return conversion.scipys("norm", x, ord, axis) if found is None else found


def _recorded(x: Any, ord: Any, axis: Any) -> Any:
    """The norm from the stored values; None where SciPy has to say."""
    if x.ndim != 2 or x.format not in FORMATS or x.dtype.char not in "fdFD" or not x.has_canonical_format:
        return None
    if axis is None and (ord is None or isinstance(ord, str) and ord in ("fro", "f")):
        return np.linalg.norm(x.data)
    if axis is None or isinstance(axis, tuple) and len(axis) == 2:
        return _of_matrix(x, ord, (0, 1) if axis is None else axis)
    if isinstance(axis, tuple) or not conversion.is_integer(axis) or axis not in (-2, -1, 0, 1):
        return None
    if ord is None or ord == 2:
        magnitudes = abs(x.data)
        return np.sqrt(_totals(x, magnitudes * magnitudes, axis % 2))
    return _totals(x, abs(x.data), axis % 2) if ord == 1 else None


def _of_matrix(x: Any, ord: Any, axis: tuple[Any, Any]) -> Any:
    """The largest or smallest sum of magnitudes of a column (ord 1, -1) or row (inf, -inf)."""
    if {*axis} - {-2, -1, 0, 1} or axis[0] % 2 == axis[1] % 2 or isinstance(ord, str) or ord is None:
        return None
    if abs(ord) not in (1, numpy.inf) or 0 in x.shape:
        return None
    totals = _totals(x, abs(x.data), axis[0 if abs(ord) == 1 else 1] % 2)
    return totals.max() if ord > 0 else totals.min()


def _totals(x: Any, values: Any, axis: int) -> Any:
    """The sums along an axis of a matrix with the structure of `x` and these real values: one product."""
    rows, columns = x.shape
    kind = type(x)
    if x.format == "coo":
        matrix = kind((values, (x.row, x.col)), shape=x.shape)
    else:
        matrix = kind((values, x.indices, x.indptr), shape=x.shape)
    if axis == 1:
        return matrix @ np.ones(columns, dtype=values.dtype)
    return matrix.T @ np.ones(rows, dtype=values.dtype)
