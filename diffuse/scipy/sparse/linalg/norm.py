"""Norms of sparse arrays, by SciPy's code (see `sources`) with sums of magnitudes by rows or columns."""

from __future__ import annotations

from typing import Any

import scipy.sparse.linalg

from diffuse.numpy.bridge import fallback
from diffuse.scipy.sparse.linalg import conversion
from diffuse.scipy.sparse.linalg.sources import load
from diffuse.scipy.sparse.state import Sparse


def _norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    if not isinstance(x, Sparse):
        return conversion.scipys("norm", x, ord, axis)
    axes = (0, 1) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    summed = ord is not None or len(axes) == 1
    if x.format == "csc" and summed and all(isinstance(a, int) and -2 <= a < 2 for a in axes):
        x, axis = x.T, tuple([-1 - a for a in axes])  # SciPy's code begins by a conversion to csr
    return load("_norm").norm(x, ord, axis)


norm = fallback.dressed(_norm, scipy.sparse.linalg.norm, f"diffuse.{conversion.NAME}")
