"""Rows whose positions and indices have 64 bits for no reason: a product follows the same numbers in 32.

SciPy keeps 64 bits where its own arithmetic had them (a Kronecker product of arrays that were given by
coordinates, say).  A csr array whose structure nobody has asked for has 32 instead from its first product on:
half the memory, half of what each product reads.  Who asks for the structure gets SciPy's 64 back, for good.
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
    """Positions and columns in 32 bits, and values, of a csr array; None where they stay as they are."""
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
    """Has a SciPy object 64-bit indices, and none that needs them?"""
    return (held.format == "csr" and {held.indices.dtype, held.indptr.dtype} == {numpy.dtype(numpy.int64)}
            and int(max(*held.shape, held.indices.size, held.data.size)) < LIMIT)


def _narrowed(held: Any, name: str) -> Any:
    """An array of the held object, there and as a Diffuse array, in 32 bits."""
    stored(held, name, getattr(held, name).astype(numpy.int32))
    return wrap(getattr(held, name))
