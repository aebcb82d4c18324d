"""Drop-in NumPy: `import diffuse.numpy as np`.

Every public name of NumPy is here.  What Diffuse implements itself (the array, the ufuncs, creation,
reductions, and the functions of `manipulation`, `joining`, `functions`, `calculus`, `products`) is recorded,
fused and run on all threads; the rest is NumPy's own, wrapped so that Diffuse arrays go in and come out.
"""

from __future__ import annotations

from diffuse.numpy.bridge import garbage as _garbage  # first: it looks at what the program has by then

# isort: split

import sys as _sys
from typing import Any

import numpy as _numpy

from diffuse.library import prepare as _prepare
from diffuse.numpy.arrays import array as _array  # noqa: F401 (gives results their class)
from diffuse.numpy.bridge import adapted as _adapted
from diffuse.numpy.bridge import errors as _errors  # noqa: F401 (reports errors before filters and modes change)
from diffuse.numpy.bridge import mirrors as _mirrors
from diffuse.numpy.bridge import namespace as _namespace
from diffuse.numpy.small import native as _native
from diffuse.settings import check_environment as _check_environment
from diffuse.settings import config as _config

_check_environment()
_mirrors.mirrored("diffuse.numpy", _namespace.member)
_sys.modules[__name__].__class__ = _mirrors.Whole
_prepare(_config.runtime)
_adapted.adapt_imported()
_garbage.freeze(None if _native is None else _native.thaw)

__version__ = _numpy.__version__
__all__ = [*_numpy.__all__]


def __getattr__(name: str) -> Any:
    if name == "__all__":  # a namespace with a copy of this function is asked for a list of its own names
        raise AttributeError(f"module 'numpy' has no attribute {name!r}")
    value = _namespace.resolve(name)
    if name in vars(_numpy):  # NumPy's `__getattr__` warns of each use of the names that it provides
        globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
