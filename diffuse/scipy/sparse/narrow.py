"""Narrows needlessly 64-bit positions and indices of csr arrays to 32 bits for products.

SciPy keeps 64 bits where its own arithmetic had them (a Kronecker product of arrays that were given by
coordinates, say).  A csr array whose structure the program has not accessed has 32-bit indices from its first
product on: they need half the memory, and each product reads half as much.  Accessing the structure restores
SciPy's 64 bits for good.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse.numpy.arrays.core import Array
from diffuse.numpy.ops.operands import wrap
from diffuse.scipy.sparse import checks
from diffuse.scipy.sparse.rows import contiguous
from diffuse.scipy.sparse.state import Sparse, put, stored

LIMIT = 2**31


def rows_of(a: Sparse) -> tuple[Any, Any, Any] | None:
    """Positions and columns in 32 bits, and values, of a csr array; None if it is not narrowed."""
    found = a._narrow
    if found is None:
        if a._asked or not fits(a._held):
            return None
        checks.check_compressed(a._held)
        found = _narrowed(a._held, "indptr"), _narrowed(a._held, "indices")
        put(a, "_narrow", found)
    positions, columns = found
    values: Any = a._part("data")
    if not isinstance(values, Array) or values.form.shape != columns.shape:
        a._widen()
        return None
    return positions, columns, contiguous(values)


def fits(held: Any) -> bool:
    """Does a SciPy object have 64-bit indices without needing them?"""
    return (held.format == "csr" and {held.indices.dtype, held.indptr.dtype} == {numpy.dtype(numpy.int64)}
            and int(max(*held.shape, held.indices.size, held.data.size)) < LIMIT)


def _narrowed(held: Any, name: str) -> Any:
    """Convert an array of the held object to 32 bits; returns it as a Diffuse array."""
    stored(held, name, getattr(held, name).astype(numpy.int32))
    return wrap(getattr(held, name))
