"""The text of large arrays that ranks have in parts: NumPy's, of which it prints the edges alone."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy
from numpy._core import arrayprint

from diffuse import library
from diffuse.numpy.arrays import core
from diffuse.numpy.arrays.access import host


def text(x: Any, of: str) -> str | None:
    """The text of an array by one of NumPy's functions, `repr` or `str`, from its edges; None if NumPy prints
    all of it, or if the array is at hand."""
    options: Any = numpy.get_printoptions()
    edge = options["edgeitems"]
    write: Any = getattr(arrayprint, f"_array_{of}_implementation", None)
    if (x.size <= max(options["threshold"], core.SMALL) or not x.ndim or edge < 1 or write is None
            or options.get("override_repr") is not None or library.current().runtime.ranks == 1):
        return None
    small = _small(x, edge)

    def short(_: Any, *args: Any, **named: Any) -> str:
        return numpy.array2string(small, *args, **named, threshold=0)

    return str(write(x.meta, array2string=short))


def _small(x: Any, edge: int) -> Any:
    """An array with the edges of another one: along each long axis these, and one index between."""
    small = numpy.ones([min(n, 2 * edge + 1) for n in x.shape], x.dtype)
    ends = (slice(edge), slice(-edge, None))
    for piece in product(*[ends if n > 2 * edge else (slice(None),) for n in x.shape]):
        small[piece] = host(x[piece].copy())
    return small
