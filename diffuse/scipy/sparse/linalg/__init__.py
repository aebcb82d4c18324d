"""Drop-in scipy.sparse.linalg: `import diffuse.scipy.sparse.linalg`.

Solvers, operators and norms in array code over Diffuse arrays, which fuse with what the program does; every
other name is SciPy's own, wrapped so that Diffuse arrays and sparse arrays go in and come out.
"""

from __future__ import annotations

from typing import Any

import scipy.sparse.linalg as _real

from diffuse.scipy.sparse.linalg import conversion as _conversion
from diffuse.scipy.sparse.linalg.conjugate import bicg as bicg
from diffuse.scipy.sparse.linalg.conjugate import cg as cg
from diffuse.scipy.sparse.linalg.generalized import gmres as gmres
from diffuse.scipy.sparse.linalg.interface import LinearOperator as LinearOperator
from diffuse.scipy.sparse.linalg.least import lsqr as lsqr
from diffuse.scipy.sparse.linalg.matrices import aslinearoperator as aslinearoperator
from diffuse.scipy.sparse.linalg.minimal import minres as minres
from diffuse.scipy.sparse.linalg.norm import norm as norm
from diffuse.scipy.sparse.linalg.squared import bicgstab as bicgstab
from diffuse.scipy.sparse.linalg.squared import cgs as cgs

__all__ = [*_real.__all__]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    value = getattr(_real, name)
    if callable(value) and not isinstance(value, type):
        value = _conversion.wrapped(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__})
