"""SciPy's modules with their functions wrapped: Diffuse arrays in and out.

SciPy's code gets NumPy's arrays, which its tests of types and its C code expect, and the program continues
with Diffuse's.  The conversion, the warning and the setting `DIFFUSE_FALLBACK` are those of
`diffuse.numpy.bridge.fallback`.  A name is looked up once; classes, exceptions and constants are SciPy's own.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy

from diffuse.numpy.bridge import adapters, fallback, mirrors
from diffuse.numpy.bridge.namespace import FallbackUfunc, gated, public
from diffuse.numpy.ops.readers import SCIPYS
from diffuse.scipy import backends

WARNING = ("fft", "linalg", "ndimage", "special")
"""Modules whose functions warn once for each line that calls them, as NumPy's own functions do: a program may
well call them where it could record something else."""

MIRRORED = (*WARNING, "cluster", "integrate", "interpolate", "signal", "spatial")
"""The modules of SciPy whose functions are wrapped, down to their submodules."""

SILENT = frozenset("""scipy.fft.next_fast_len scipy.fft.prev_fast_len scipy.fft.get_workers
scipy.fft.set_workers scipy.fft.set_backend scipy.fft.set_global_backend scipy.fft.skip_backend
scipy.fft.register_backend scipy.linalg.get_blas_funcs scipy.linalg.get_lapack_funcs
scipy.linalg.find_best_blas_type scipy.special.seterr scipy.special.geterr""".split())
"""Functions of these modules that compute no elements, and so need no warning."""


def ours(real: ModuleType, name: str) -> Any:
    """The attribute of Diffuse's module that stands for attribute `name` of a SciPy module."""
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
    if isinstance(value, type) or not callable(value) or hasattr(type(value), "__getitem__"):
        return value  # Cython's functions of several types (`f[dtype]`) take numbers
    if isinstance(value, numpy.ufunc):
        return FallbackUfunc(value, path)
    if path in backends.SETTERS:
        value = backends.told(value)
    loud = path.split(".")[1] in WARNING
    run = value
    if path == "scipy.linalg.solve_banded":
        from diffuse.scipy.banded import tridiagonal  # not in programs without it

        run = tridiagonal(value)
    found: Any = fallback.wrapped(run, path, "inspection" if path in SILENT else None if loud else "library")
    found.__module__, found.__wrapped__ = f"diffuse.{real.__name__}", value
    if path in SCIPYS:
        return gated(found, value, found.__module__)
    return adapters.Receiver(value, found) if adapters.is_fortran(value) else found


def lookup(name: str, names: dict[str, Any]) -> Callable[[str], Any]:
    """The `__getattr__` of Diffuse's module that stands for SciPy's module `name`."""
    def __getattr__(wanted: str) -> Any:
        if wanted.startswith("__"):
            raise AttributeError(f"module 'diffuse.{name}' has no attribute {wanted!r}", name=wanted)
        value = names[wanted] = ours(importlib.import_module(name), wanted)
        return value

    return __getattr__


def listing(name: str) -> list[str]:
    """The public names of SciPy's module."""
    return public(importlib.import_module(name))


for _name in MIRRORED:
    mirrors.mirrored(f"diffuse.scipy.{_name}", ours)
