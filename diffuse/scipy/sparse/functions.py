"""The functions of `scipy.sparse`: SciPy's, with our arrays in and out."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from diffuse.numpy.bridge.fallback import dressed
from diffuse.scipy.sparse import conversion

KEPT = frozenset("""issparse isspmatrix isspmatrix_bsr isspmatrix_coo isspmatrix_csc isspmatrix_csr
isspmatrix_dia isspmatrix_dok isspmatrix_lil get_index_dtype""".split())
"""Functions that accept our arrays unchanged."""


def wrapped(real: Any, module: str) -> Callable[..., Any]:
    """Wrap a SciPy function for our arrays, with the same name, signature and documentation."""
    def run(*args: Any, **kwargs: Any) -> Any:
        return conversion.call(real, args, kwargs, real.__name__)

    return dressed(run, real, f"diffuse.{module}")


def fill(namespace: dict[str, Any], real: ModuleType) -> None:
    """Add wrappers of the public names of a SciPy module that `namespace` lacks."""
    for name in real.__all__:
        value = vars(real).get(name)  # submodules that have not been imported are not loaded
        if value is None or name in namespace or isinstance(value, ModuleType):
            continue
        function = callable(value) and not isinstance(value, type) and name not in KEPT
        namespace[name] = wrapped(value, real.__name__) if function else value
