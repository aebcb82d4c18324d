"""Drop-in scipy.sparse.linalg: `import diffuse.scipy.sparse.linalg`.

Solvers and operators are SciPy's own code, executed over Diffuse's arrays, so that they fuse with the
program's operations; every other name is SciPy's own, wrapped so that Diffuse arrays and sparse arrays go in
and come out.
"""

from __future__ import annotations

from typing import Any

import scipy.sparse.linalg as _real

from diffuse.scipy.sparse.linalg import conversion as _conversion
from diffuse.scipy.sparse.linalg.norm import norm as norm
from diffuse.scipy.sparse.linalg.operators import aslinearoperator as aslinearoperator
from diffuse.scipy.sparse.linalg.solvers import recorder as _recorder
from diffuse.scipy.sparse.linalg.solvers import solver as _solver
from diffuse.scipy.sparse.linalg.sources import LinearOperator as LinearOperator

cg, bicg, cgs = [_solver("_isolve.iterative", _name) for _name in ("cg", "bicg", "cgs")]
bicgstab, gmres = [_solver("_isolve.iterative", _name) for _name in ("bicgstab", "gmres")]
minres = _solver("_isolve.minres", "minres")
lsqr = _solver("_isolve.lsqr", "lsqr")
lsmr = _recorder("_isolve.lsmr", "lsmr")
qmr, tfqmr = _recorder("_isolve.iterative", "qmr"), _recorder("_isolve.tfqmr", "tfqmr")

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
