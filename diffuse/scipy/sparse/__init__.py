"""`scipy.sparse` on Diffuse: products and arithmetic on values are recorded, while SciPy handles structure.

The classes derive from SciPy's and hold a SciPy object each; see `state`.  Products of csr, csc, coo and dia
with dense vectors and matrices, scaling, casts and functions of the values are tasks that fuse with others.
Building, converting, indexing and arithmetic of two sparse arrays run by SciPy's compiled code.
"""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

import scipy.sparse as _real

from diffuse.scipy.sparse.classes import NAMES as _NAMES
from diffuse.scipy.sparse.construct import kronsum as _kronsum
from diffuse.scipy.sparse.functions import fill as _fill
from diffuse.scipy.sparse.functions import wrapped as _wrapped

globals().update(_NAMES)
kronsum = _wrapped(_kronsum, "scipy.sparse")
_fill(globals(), _real)

__all__ = list(_real.__all__)


def __getattr__(name: str) -> _Any:
    if name in ("linalg", "csgraph"):
        return _importlib.import_module(f"{__name__}.{name}")
    value = getattr(_real, name, None)
    if value is None or name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return value


def __dir__() -> list[str]:
    return __all__
