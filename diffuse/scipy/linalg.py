"""`scipy.linalg`: LAPACK and BLAS on Diffuse arrays: whole-array functions, run by SciPy."""

from __future__ import annotations

from diffuse.scipy import fallback as _fallback

__all__ = _fallback.listing("scipy.linalg")
__path__: list[str] = []  # has submodules: see bridge/mirrors.py
__getattr__ = _fallback.lookup("scipy.linalg", globals())


def __dir__() -> list[str]:
    return sorted(__all__)
