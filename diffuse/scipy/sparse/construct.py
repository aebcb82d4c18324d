"""Large Kronecker sums, built by blocks of rows: SciPy's result without its two intermediate products.

A discretised Laplacian of many dimensions is such a sum, and usually the largest object of its program:
SciPy's own method needs several times the memory of the result.
"""

from __future__ import annotations

from typing import Any

import numpy
import scipy.sparse

BLOCK = 1 << 18
"""The approximate number of rows that are made at a time; SciPy computes smaller sums."""


def kronsum(A: Any, B: Any, format: str | None = None) -> Any:
    """kron(I, A) + kron(B, I) of square sparse A (n, n) and B (m, m), of shape (m n, m n).

    The same matrix as SciPy's, element by element in the same order; errors are SciPy's.
    Source: scipy.sparse.kronsum.
    """
    if not all(scipy.sparse.issparse(x) and x.ndim == 2 and x.shape[0] == x.shape[1] for x in (A, B)):
        return scipy.sparse.kronsum(A, B, format)
    inner, outer = (scipy.sparse.csr_array(x) for x in (A, B))
    most = outer.shape[0] * inner.nnz + inner.shape[0] * outer.nnz
    rows = outer.shape[0] * inner.shape[0]
    plain = inner.has_canonical_format and outer.has_canonical_format
    if format != "csr" or rows <= BLOCK or max(rows, most) >= 2**31 or not plain:
        return scipy.sparse.kronsum(A, B, format)
    held = _in_blocks(inner, outer, most)
    arrays = any(isinstance(x, scipy.sparse.sparray) for x in (A, B))
    return held if arrays else scipy.sparse.csr_matrix(held)


def _in_blocks(inner: Any, outer: Any, most: int) -> Any:
    m, n = outer.shape[0], inner.shape[0]
    height = max(1, BLOCK // n)
    dtype = numpy.result_type(inner.dtype, outer.dtype)
    identity = scipy.sparse.eye_array(n, dtype=dtype)
    data, indices = numpy.empty(most, dtype), numpy.empty(most, numpy.int32)
    positions = numpy.zeros(m * n + 1, numpy.int32)
    count = 0
    for first in range(0, m, height):
        last = min(first + height, m)
        own = scipy.sparse.eye_array(last - first, m, k=first, dtype=dtype)
        block = (scipy.sparse.kron(own, inner, format="coo")
                 + scipy.sparse.kron(outer[first:last], identity, format="coo")).tocsr()
        end = count + block.nnz
        data[count:end], indices[count:end] = block.data, block.indices
        positions[first * n + 1:last * n + 1] = block.indptr[1:] + count
        count = end
    data.resize(count, refcheck=False)  # elements that both products have were counted twice
    indices.resize(count, refcheck=False)
    return scipy.sparse.csr_array((data, indices, positions), shape=(m * n, m * n))
