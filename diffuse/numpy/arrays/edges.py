"""Prints large arrays by their edges: nothing else of a store in other memory is fetched.

The edges are copied into memory for an array of the whole shape, which the system allocates page by page as
it is touched, and NumPy prints that: it reads no other element of an array that it abbreviates.
"""

from __future__ import annotations

import mmap
from itertools import product
from math import prod
from typing import Any

import numpy

from diffuse import library
from diffuse.numpy.arrays.access import NEAR, host, storage_of, whole
from diffuse.numpy.arrays.core import slow
from diffuse.numpy.arrays.forms import Mirror

DIMENSIONS = 4
"""The most dimensions of such arrays; each doubles the number of corners."""
UNRESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000
"""Flags of a mapping for which no memory is reserved (MAP_NORESERVE): pages are allocated when touched."""
KINDS = "biufc"
"""Kinds of element types that NumPy prints without reading the other elements."""


def printed(x: Any) -> Mirror:
    """A NumPy array of the shape of `x` that prints as `x` does by NumPy's `str` or `repr`, if printed
    now."""
    found = edges(x)
    return host(x) if found is None else found


def edges(x: Any) -> Mirror | None:
    """An array of the shape of `x` with only the elements that NumPy prints; None if all are printed or at
    hand."""
    options: Any = numpy.get_printoptions()
    shape, kept = x.form.shape, options["edgeitems"]
    if (x.form.size <= options["threshold"] or options.get("override_repr") is not None or kept < 1
            or not 0 < len(shape) <= DIMENSIONS or x.form.dtype.kind not in KINDS):
        return None
    storage = storage_of(x)
    if storage.nbytes <= NEAR or not library.busy(storage) and library.look(storage) is not None:
        return None
    ends = [[slice(None)] if n <= 2 * kept else [slice(0, kept), slice(n - kept, n)] for n in shape]
    corners = list(product(*ends))
    gathered = [slow.gathered(x[corner]) for corner in corners]
    if any(each is None for each in gathered):
        return None
    try:
        pages = mmap.mmap(-1, prod(shape) * x.form.itemsize, flags=UNRESERVED)
    except (OSError, OverflowError, ValueError):  # the address space is full
        return None
    found: Mirror = numpy.frombuffer(pages, x.form.dtype).reshape(shape)
    for corner, part in zip(corners, gathered, strict=True):
        found[corner] = whole(part)
    return found
