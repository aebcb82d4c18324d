"""Drop-in SciPy: `import diffuse.scipy.special`, `.sparse`, `.linalg`, `.signal` and others.

A module that Diffuse has is imported when it is first used, as an attribute or by an import; every other
module and name of this namespace is SciPy's own.
"""

from __future__ import annotations

import importlib as _importlib
import importlib.util as _util
from typing import Any

if _util.find_spec("scipy") is None:
    raise ModuleNotFoundError("diffuse.scipy needs SciPy for all that it does not compute itself, and it is "
                              "not installed: pip install 'scipy>=1.14'", name="scipy")

from diffuse.scipy import fallback as _fallback  # noqa: E402 (its first need is SciPy)

OURS = (*_fallback.MIRRORED, "sparse")
"""The modules that replace SciPy's; those without a file here are mirrors (numpy/bridge/mirrors.py)."""


def __getattr__(name: str) -> Any:
    if name in OURS:
        return _importlib.import_module(f"diffuse.scipy.{name}")
    try:
        value = getattr(_importlib.import_module("scipy"), name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: SciPy has none",
                             name=name) from None
    if not name.startswith("__"):
        globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*dir(_importlib.import_module("scipy")), *OURS})
