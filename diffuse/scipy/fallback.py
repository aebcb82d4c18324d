"""SciPy's modules with their functions wrapped: Diffuse arrays in and out, one warning per call site.

The conversion, the warning and the setting `DIFFUSE_FALLBACK` are those of `diffuse.numpy.bridge.fallback`.
A name is looked up once; classes, exceptions and constants are SciPy's own.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy

from diffuse.numpy.bridge import fallback
from diffuse.numpy.bridge.namespace import FallbackUfunc, public

MIRRORED = ("fft", "linalg", "ndimage", "special")
"""The modules of SciPy whose functions are wrapped, down to their submodules."""

SILENT = frozenset("""scipy.fft.next_fast_len scipy.fft.prev_fast_len scipy.fft.get_workers
scipy.fft.set_workers scipy.fft.set_backend scipy.fft.set_global_backend scipy.fft.skip_backend
scipy.fft.register_backend scipy.linalg.get_blas_funcs scipy.linalg.get_lapack_funcs
scipy.linalg.find_best_blas_type scipy.special.seterr scipy.special.geterr""".split())
"""Functions that compute with no elements, and so deserve no warning."""


def ours(real: ModuleType, name: str) -> Any:
    """What a name of a SciPy module is in the module of Diffuse that stands for it."""
    path = f"{real.__name__}.{name}"
    try:
        value = getattr(real, name)
    except AttributeError:
        if name.startswith("_") or importlib.util.find_spec(path) is None:
            raise AttributeError(f"module 'diffuse.{real.__name__}' has no attribute {name!r}: "
                                 f"{real.__name__} has none", name=name) from None
        value = importlib.import_module(path)
    if isinstance(value, ModuleType):
        below = value.__name__.startswith(real.__name__ + ".")
        return importlib.import_module("diffuse." + value.__name__) if below else value
    if isinstance(value, type) or not callable(value):
        return value
    if isinstance(value, numpy.ufunc):
        return FallbackUfunc(value, path)
    found = fallback.wrapped(value, path, "inspection" if path in SILENT else None)
    found.__module__ = f"diffuse.{real.__name__}"
    return found


def lookup(name: str, names: dict[str, Any]) -> Callable[[str], Any]:
    """The `__getattr__` of the module of Diffuse that stands for SciPy's module `name`."""
    def __getattr__(wanted: str) -> Any:
        if wanted.startswith("__"):
            raise AttributeError(f"module 'diffuse.{name}' has no attribute {wanted!r}", name=wanted)
        value = names[wanted] = ours(importlib.import_module(name), wanted)
        return value

    return __getattr__


def listing(name: str) -> list[str]:
    """The public names of SciPy's module."""
    return public(importlib.import_module(name))


class Mirror(ModuleType):
    """A module below one of ours (`linalg.blas`, `fft._pocketfft`, ...) with its functions wrapped."""

    def __getattr__(self, name: str) -> Any:
        real = importlib.import_module(self.__name__.removeprefix("diffuse."))
        if name.startswith("__"):
            if name in ("__all__", "__doc__"):
                return getattr(real, name)
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)
        value = ours(real, name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(self.__name__.removeprefix("diffuse.")))


class _Finder(MetaPathFinder, Loader):
    """Finds `diffuse.scipy.linalg.X` where `scipy.linalg.X` exists and Diffuse has no file of its own."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        parts = fullname.split(".")
        if parts[:2] != ["diffuse", "scipy"] or len(parts) < 4 or parts[2] not in MIRRORED:
            return None
        try:
            found = importlib.util.find_spec(fullname.removeprefix("diffuse."))
        except (ImportError, ValueError):
            return None
        return None if found is None else ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Mirror(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs: a mirror looks its names up when they are used."""


def install_finder() -> None:
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
