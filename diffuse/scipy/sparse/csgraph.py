"""`scipy.sparse.csgraph` on Diffuse's sparse and dense arrays: SciPy's compiled routines on graphs."""

from __future__ import annotations

import scipy.sparse.csgraph as _real

from diffuse.scipy.sparse.functions import fill as _fill

_fill(globals(), _real)
__all__ = list(_real.__all__)
