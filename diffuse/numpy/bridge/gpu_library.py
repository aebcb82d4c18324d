"""Delegates functions that Diffuse lacks on a GPU to CuPy: products of matrices, `solve`, transforms, sorts.

CuPy, where it is installed, computes on the memory of our arrays, in our stream, and takes memory from our
allocator; nothing is copied, and the host does not wait.  Only calls with the same meaning in both are
delegated: what CuPy refuses, or computes differently, goes to NumPy, and so do calls whose arrays are on the
host anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy

from diffuse import library, settings
from diffuse.library import trace
from diffuse.numpy.arrays import access, base, core
from diffuse.numpy.arrays.core import Array, slow
from diffuse.numpy.arrays.forms import NATIVE, row_major
from diffuse.numpy.bridge import tensors
from diffuse.numpy.bridge.device import INTERFACE, VERSION
from diffuse.numpy.ops import elementwise
from diffuse.numpy.ops.operands import shared

FLOATS = "fdFD"
"""Element types of libraries for linear algebra and transforms."""
SORTED = "?bhilqBHILQfd"
"""Element types whose order CuPy takes as NumPy does."""


class Asked(NamedTuple):
    """A call that has the same meaning in CuPy."""

    name: str
    """The name of the function in CuPy's namespace."""
    arrays: tuple[Any, ...]
    options: dict[str, Any]
    dtype: Any
    """The element type of NumPy's result."""


def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """The result of NumPy's function of this name, computed by CuPy, in a tuple; None if NumPy should compute
    it."""
    rule = RULES.get(name)
    if rule is None or elementwise.eager_errors or not settings.config.cupy or found() is None:
        return None
    try:
        asked: Asked | None = rule(*args, **kwargs)
    except TypeError:  # arguments that NumPy refuses, or that only it has
        return None
    if asked is None or not _simple(asked.options):
        return None
    if not any([tensors.on_gpu(x) for x in asked.arrays if isinstance(x, Array)]):
        return None
    try:
        result = _run(asked)
    except Exception as error:  # NumPy does it, or raises an error of its own
        _refused(name, error)
        return None
    if result is None:
        return None
    trace.count("by CuPy")
    if name in IN_PLACE:
        slow.setitem(args[0], Ellipsis, result)
        return (None,)
    return (result,)


@cache
def found() -> Any:
    """CuPy; None if it is not installed, or does not run here."""
    if find_spec("cupy") is None:
        return None
    try:
        return import_module("cupy")
    except ImportError as error:
        trace.event("on the host", f"CuPy is installed and cannot be imported: {error}")
        return None


def _refused(name: str, error: Exception) -> None:
    if isinstance(error, MemoryError):
        runtime: Any = library.current().runtime
        runtime.trim()
    trace.event("on the host", f"{name}, since CuPy raised {type(error).__name__}: {error}")


# -- which calls mean the same ------------------------------------------------------------------------------


def _kind(x: Any, types: str) -> str:
    """The letter of an operand's element type, if it is one of these and the operand is a nonempty array;
    else an empty string."""
    if type(x) is core.array_class:
        meta = x.meta
    elif type(x) is numpy.ndarray:
        meta = x
    else:
        return ""
    fits = meta.size and meta.ndim and meta.dtype.char in types and meta.dtype in NATIVE
    return str(meta.dtype.char) if fits else ""


def _simple(options: dict[str, Any]) -> bool:
    """Are these numbers, names and tuples of numbers, and not arrays?"""
    values = [v for value in options.values() for v in (value if type(value) in (list, tuple) else (value,))]
    return all([v is None or type(v) in (int, str) for v in values])


def _matmul(x: Any, y: Any, /) -> Asked | None:
    kind = _kind(x, FLOATS)
    if not kind or kind != _kind(y, FLOATS) or x.ndim + y.ndim < 3:
        return None
    return Asked("matmul", (x, y), {}, x.dtype)


def _dot(a: Any, b: Any, out: Any = None) -> Asked | None:
    if out is not None or not _kind(a, FLOATS) or not _kind(b, FLOATS) or a.ndim > 2 or b.ndim > 2:
        return None
    return _matmul(a, b)


def _solve(a: Any, b: Any) -> Asked | None:
    kind = _kind(a, FLOATS)
    if not kind or kind != _kind(b, FLOATS) or a.ndim != 2 or b.ndim > 2 or a.shape[0] != a.shape[1]:
        return None
    return Asked("linalg.solve", (a, b), {}, a.dtype) if b.shape[0] == a.shape[0] else None


def _inv(a: Any) -> Asked | None:
    if not _kind(a, FLOATS) or a.ndim != 2 or a.shape[0] != a.shape[1]:
        return None
    return Asked("linalg.inv", (a,), {}, a.dtype)


def _transform(name: str, takes: str, gives: dict[str, str], many: bool) -> Callable[..., Asked | None]:
    """The rule of a transform: the element types that it accepts, and those of its results."""
    def one(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Asked | None:
        kind = _kind(a, takes)
        if not kind or out is not None:
            return None
        return Asked(f"fft.{name}", (a,), {"n": n, "axis": axis, "norm": norm}, gives[kind])

    def several(a: Any, s: Any = None, axes: Any = axes_of(name), norm: Any = None, out: Any = None
                ) -> Asked | None:
        kind = _kind(a, takes)
        if not kind or out is not None or s is not None and (axes is None or -1 in s):
            return None  # what an extent of -1 and axes left out mean has changed from version to version
        return Asked(f"fft.{name}", (a,), {"s": s, "axes": axes, "norm": norm}, gives[kind])

    return several if many else one


def axes_of(name: str) -> Any:
    return (-2, -1) if name.endswith("2") else None


def _sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Asked | None:
    """A sort by a stable algorithm, which gives these elements the same order as any other kind."""
    if not _kind(a, SORTED) or order is not None or not _known(kind, stable):
        return None
    return Asked("sort", (a,), {"axis": axis}, a.dtype)


def _argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
             ) -> Asked | None:
    """An argsort; one that need not be stable may give any order of equal elements."""
    if not _kind(a, SORTED) or order is not None or not _known(kind, stable):
        return None
    return Asked("argsort", (a,), {"axis": axis}, numpy.intp)


def _known(kind: Any, stable: Any) -> bool:
    """Are these arguments that NumPy accepts?"""
    if stable is not None:
        return kind is None and type(stable) is bool
    return kind in (None, "quicksort", "heapsort", "mergesort", "stable")


def _sort_in_place(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
                   ) -> Asked | None:
    if type(a) is not core.array_class or axis is None or not a.meta.flags.writeable or a.form.folded:
        return None
    return _sort(a, axis, kind, order, stable=stable)


IN_PLACE = ("numpy.ndarray.sort",)
COMPLEX = {"f": "F", "d": "D", "F": "F", "D": "D"}
REAL = {"f": "f", "d": "d", "F": "f", "D": "d"}

RULES: dict[str, Callable[..., Asked | None]] = {
    "numpy.matmul": _matmul, "numpy.dot": _dot, "numpy.linalg.solve": _solve, "numpy.linalg.inv": _inv,
    "numpy.sort": _sort, "numpy.argsort": _argsort, "numpy.ndarray.sort": _sort_in_place,
    **{f"numpy.fft.{name}": _transform(name, FLOATS, COMPLEX, name[-1] in "2n")
       for name in ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn")},
    **{f"numpy.fft.{name}": _transform(name, "fd", COMPLEX, name[-1] in "2n")
       for name in ("rfft", "rfft2", "rfftn")},
    **{f"numpy.fft.{name}": _transform(name, FLOATS, REAL, name[-1] in "2n")
       for name in ("irfft", "irfft2", "irfftn")},
}
"""For each function, its call of CuPy, given NumPy's arguments; None for calls that are left to NumPy."""

# -- the call -----------------------------------------------------------------------------------------------


class Exhibit:
    """An object that CuPy accepts as an array of another library."""

    def __init__(self, x: Array, address: int) -> None:
        strides = None if x.meta.flags.c_contiguous else x.form.strides
        # no stream: CuPy would wait for it
        self.__cuda_array_interface__ = {"shape": x.form.shape, "typestr": x.form.dtype.str,
                                         "strides": strides, "data": (address, False), "version": VERSION}


class Ours:
    """Our stream in the form that other libraries accept."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def _run(asked: Asked) -> Any:
    """The result as a Diffuse array; None if it is not what NumPy's would be."""
    arrays = [_ready(shared(x) if type(x) is numpy.ndarray else x, asked.name) for x in asked.arrays]
    running, cupy = library.current(), found()
    sharing: Any = running.sharing
    library.flush("CuPy computes")
    with ExitStack() as inside:
        inside.enter_context(cupy.cuda.Device(sharing.device))
        inside.enter_context(_stream(cupy, sharing))
        inside.enter_context(cupy.cuda.using_allocator(_allocator(cupy, sharing)))
        inside.enter_context(import_module("cupyx").errstate(linalg="raise"))
        function = cupy
        for part in asked.name.split("."):
            function = getattr(function, part)
        result = function(*[cupy.asarray(Exhibit(x, _place(x))) for x in arrays], **asked.options)
        result = cupy.ascontiguousarray(result)
    dtype, shape = numpy.dtype(asked.dtype), tuple(result.shape)
    if result.dtype != dtype or not shape or 0 in shape:
        return None
    theirs = sharing.memory(getattr(result, INTERFACE)["data"][0], result.nbytes, result)
    storage = running.stores.adopt(sharing, theirs, shape, dtype.name)
    sharing.unshare(running.stores.instance(storage.id))  # nobody else holds the result
    storage.touched = storage.written = running.epoch
    return base.holding(storage, row_major(shape, dtype))


def _ready(x: Array, name: str) -> Array:
    """Convert an operand for CuPy: in row-major order, except for linear algebra."""
    if name == "matmul" or name.startswith("linalg") or x.meta.flags.c_contiguous:
        return x
    copied: Array = elementwise.duplicate(x)
    if not copied.meta.flags.c_contiguous:
        raise ValueError("elements in another order, in which NumPy's result would be")
    return copied


def _place(x: Array) -> int:
    """The address of an array's first element on the device, where its data is in the stream's order."""
    running = library.current()
    storage = access.storage_of(x)
    if storage.id in running.stores.lost:
        library.fetch(storage)  # raises the reason
    instance = running.stores.instance(storage.id)
    sharing: Any = running.sharing
    sharing.settled(instance, storage.shown())
    return instance.address + access.offset_of(x, x.meta)


def _stream(cupy: Any, sharing: Any) -> Any:
    make = getattr(cupy.cuda.Stream, "from_external", None)
    if make is not None:
        return make(Ours(sharing.stream))
    return cupy.cuda.ExternalStream(sharing.stream, sharing.device)


def _allocator(cupy: Any, sharing: Any) -> Callable[[int], Any]:
    """Connect CuPy to our allocator."""
    def allocate(nbytes: int) -> Any:
        lease = sharing.allocate(max(nbytes, 1))
        memory = cupy.cuda.UnownedMemory(lease.address, nbytes, lease, sharing.device)
        return cupy.cuda.MemoryPointer(memory, 0)

    return allocate
