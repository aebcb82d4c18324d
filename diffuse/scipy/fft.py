"""`scipy.fft`: whole-array transforms of Diffuse arrays, run by SciPy's pocketfft."""

from __future__ import annotations

from diffuse.scipy import fallback as _fallback

__all__ = _fallback.listing("scipy.fft")
__path__: list[str] = []  # has submodules: see bridge/mirrors.py
__getattr__ = _fallback.lookup("scipy.fft", globals())


def __dir__() -> list[str]:
    return sorted(__all__)
