"""Memory for the results and the temporaries of the functions of this folder.

The C library maps memory anew for each large array, whose pages the system then clears one by one; the
runtime keeps the memory of arrays that were freed.
"""

from __future__ import annotations

from typing import Any

import numpy

from diffuse import library
from diffuse.library import Span, address

Array = numpy.ndarray[Any, Any]

LARGE = 32 << 20
"""The size in bytes from which on memory comes from the runtime: glibc keeps smaller blocks for reuse."""


def empty(count: int, dtype: Any) -> Array:
    """An array of so many arbitrary elements."""
    dtype = numpy.dtype(dtype)
    running = library.current()
    if count * dtype.itemsize < LARGE or not running.host_sees:
        return numpy.empty(count, dtype)
    runtime = running.runtime
    runtime.fence()  # launches on a freed block may still be queued: the next ones would follow them
    block = runtime.host(runtime.scratch(count * dtype.itemsize), True)
    return numpy.asarray(Span(address(block), (count,), dtype.str, block))


def like(array: Array) -> Array:
    """An array of arbitrary elements with the shape, the layout and the type of another one."""
    if not array.flags.c_contiguous:
        return numpy.empty_like(array)
    return empty(array.size, array.dtype).reshape(array.shape)
