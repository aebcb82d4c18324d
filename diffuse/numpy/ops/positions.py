"""Conversions between several indices and one flat index: arithmetic on recorded arrays."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from diffuse.numpy.arrays import core
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops.creation import empty
from diffuse.numpy.ops.manipulation import asking, is_array
from diffuse.numpy.ops.ufuncs import UFUNCS


def _large(x: Any) -> bool:
    """Is this a large array of signed integers in C order?"""
    return bool(is_array(x) and x.dtype.kind == "i" and x.form.ordered and x.form.ndim
                and x.form.size >= max(core.SMALL, 1))


def _outside(x: Any, extent: int) -> bool:
    """Does an array of integers have an element that is no index below `extent`?  Waits for its extremes."""
    return bool(x.min() < 0) or bool(x.max() >= extent)


@asking(numpy.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """NumPy's `unravel_index`: converts flat positions to coordinates in an array of a shape."""
    extents = (shape,) if isinstance(shape, int) else shape
    plain = type(extents) is tuple and extents and all([type(n) is int and n > 0 for n in extents])
    named = type(order) is str and order in ("C", "F")
    wide = not plain or prod(extents) >= 2**62
    if wide or not named or not _large(indices) or _outside(indices, prod(extents)):
        return fallback.silently(numpy.unravel_index, indices, shape, order)
    rest, rank = indices.astype(numpy.intp), len(extents)
    places = empty((*indices.shape, rank), numpy.intp)
    for d in range(rank) if order == "F" else reversed(range(rank)):
        above = UFUNCS["floor_divide"](rest, extents[d])
        places[..., d] = rest - above * extents[d]
        rest = above
    return tuple([places[..., d] for d in range(rank)])


def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """NumPy's `ravel_multi_index`: converts coordinates in an array of a shape to flat positions."""
    parts = multi_index if type(multi_index) is tuple else ()
    plain = type(dims) is tuple and len(dims) == len(parts) and all([type(n) is int and n > 0 for n in dims])
    large = [x for x in parts if _large(x)]
    named = type(mode) is type(order) is str and mode == "raise" and order in ("C", "F")
    if (not plain or not named or prod(dims) >= 2**62 or not large or len(large) < len(parts)
            or any([x.shape != parts[0].shape for x in parts])
            or any([_outside(x, n) for x, n in zip(parts, dims, strict=True)])):
        return fallback.silently(numpy.ravel_multi_index, multi_index, dims, mode, order)
    found: Any = None
    for x, n in zip(parts, dims, strict=True) if order == "C" else zip(parts[::-1], dims[::-1], strict=True):
        found = x.astype(numpy.intp) if found is None else found * n + x
    return found
