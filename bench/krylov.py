"""What the benchmarks of the sparse solvers share: their start, kernels for Numba, JAX's product."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from case import application, options

BLOCK = 1024
"""Rows whose products one thread adds up; blocks are added in order, so that threads change no bit."""


def prepared(name: str, args: argparse.Namespace) -> tuple[ModuleType, Any]:
    """An application and its state, with NumPy and SciPy."""
    app = application(name)
    return app, app.setup(options(app, args))


def unsigned(A: Any) -> tuple[Any, Any, Any]:
    """CSR as Numba likes it: with signed indices it would provide for negative ones, at twice the time."""
    import numpy as np

    return A.indptr.astype(np.uint32), A.indices.astype(np.uint32), A.data


def numba_kernels() -> SimpleNamespace:
    """Loops over rows: sums in blocks of fixed size, added in order; matrices are (indptr, indices, data).

    The product's own sum keeps its order, as SciPy's does; dot products of vectors may be reordered within
    a block, as without that no compiler vectorises them.
    """
    import numba

    inline = numba.njit(error_model="numpy", inline="always")
    exact = numba.njit(error_model="numpy", parallel=True)
    loose = numba.njit(error_model="numpy", parallel=True, fastmath={"reassoc", "nsz"})

    @inline
    def row(A, i, x):  # type: ignore[no-untyped-def]
        total = x.dtype.type(0)
        for k in range(A[0][i], A[0][i + 1]):
            total += A[2][k] * x[A[1][k]]
        return total

    @exact
    def apply(A, p, other, q, sums):  # type: ignore[no-untyped-def]
        """q = A p, and the sums of q * other of each block."""
        for block in numba.prange(len(sums)):
            total = 0.0
            for i in range(block * BLOCK, min(len(p), (block + 1) * BLOCK)):
                value = row(A, i, p)
                q[i] = value
                total += value * other[i]
            sums[block] = total

    return SimpleNamespace(row=row, exact=exact, loose=loose, prange=numba.prange, apply=apply)


def jax_product(A: Any) -> Callable[[Any], Any]:
    """x to A x: rows filled up to one length (ELL), one gather for each place in a row."""
    import jax.numpy as jnp
    import numpy as np

    lengths = np.diff(A.indptr)
    width = int(lengths.max())
    columns = np.zeros((width, A.shape[0]), dtype=np.int32)
    values = np.zeros((width, A.shape[0]), dtype=A.dtype)
    rows = np.repeat(np.arange(A.shape[0]), lengths)
    places = np.arange(A.nnz) - np.repeat(A.indptr[:-1], lengths)
    columns[places, rows], values[places, rows] = A.indices, A.data
    filled = [(jnp.asarray(columns[place]), jnp.asarray(values[place])) for place in range(width)]

    def product(x: Any) -> Any:
        return sum(value * x[column] for column, value in filled)

    return product
