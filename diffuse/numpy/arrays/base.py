"""Finds the views of stores that arrays show, and gives the memory of arrays to other code.

Tasks work on views of stores, NumPy and other libraries on memory; the array itself is in core.py.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy

from diffuse import library
from diffuse.library import Point, view
from diffuse.numpy.arrays import access, core
from diffuse.numpy.arrays.access import host, offset_of, storage_of
from diffuse.numpy.arrays.core import Array, hosted, viewing
from diffuse.numpy.arrays.forms import (
    RESERVE,
    Form,
    Mirror,
    Span,
    address,
    form_of,
    row_major,
)
from diffuse.numpy.arrays.lending import lender

Operand = tuple[Any, view.View]
WRITABLE, FORMAT = 1, 4
"""What a request for a buffer asks for: memory to write to, and the type of its elements (`PyBUF_*`)."""

UFUNCS: dict[str, Any] = {}
"""The ufunc objects by NumPy's names; ops/ufuncs.py fills them in."""


class Unaddressable(Exception):
    """Raised for a view that no affine access map describes; NumPy then computes the operation."""


FAMILIES = type(numpy.dtypes.StrDType)


def element_type(dtype: Any) -> numpy.dtype[Any]:
    """The element type that an argument specifies.

    `numpy.dtype` takes a class of element types (`numpy.dtypes.Float32DType`) for any class of Python
    objects, and any object that has an element type for that type, even an array that was meant for `out`.
    """
    if isinstance(dtype, Array):
        if type(dtype) is core.array_class:
            raise TypeError("Cannot construct a dtype from an array")
        return dtype.form.dtype  # of a pending number
    return numpy.empty(0, dtype).dtype if isinstance(dtype, FAMILIES) else numpy.dtype(dtype)


def check_subok(subok: Any) -> None:
    """Raise NumPy's error for a `subok` argument that is neither a truth value nor an integer of C."""
    if type(subok) is not bool:
        numpy.empty_like(0, subok=subok)


def holding(storage: Any, whole: Form) -> Any:
    """Make a row-major array over a whole existing store."""
    x = Array.__new__(core.array_class)
    x.storage, x._form, x.part, x.meta = storage, whole, whole.root, whole.mirror
    x.memory = x.owner = None
    return x


def showing(storage: Any, part: view.View) -> Any:
    """Make an array over the part of an existing store that a view describes."""
    dtype = numpy.dtype(storage.store.dtype)
    whole = holding(storage, row_major(storage.store.shape, dtype))
    if part is whole.part:
        return whole
    x = viewing(whole, numpy.ndarray(part.shape, part.dtype, RESERVE, part.offset, part.strides))
    x.part = part
    return x


def view_of(x: Array) -> view.View:
    """The part of its store that an array shows, in bytes and, by `view.of`, in coordinates."""
    found = x.part
    if found is None:
        if x.storage is None:
            access.doubt(x)
        storage = storage_of(x)
        f = x.form
        if x.owner is None:
            found = f.root
        else:
            view_of(x.owner)  # with which slices like this one are found again
            found = _located(storage, f, offset_of(x, x.meta))
        x.part = found
    return found


def locate(x: Array) -> bool:
    """Set `x.part`, the view of its store that an array shows; returns False if no view describes it."""
    try:
        view_of(x)
    except Unaddressable:
        return False
    return True


def view_in(x: Array, meta: Mirror) -> view.View:
    """The view of the part of `x` that a view of its meta describes: a target of an assignment."""
    return _located(storage_of(x), unfolded(form_of(meta)), offset_of(x, meta))


def unfolded(f: Form) -> Form:
    """The form of a task's output; raises if two of its elements share memory."""
    if f.folded:
        raise Unaddressable("elements that share memory")
    return f


def _located(storage: Any, f: Form, offset: int) -> view.View:
    store = storage.store
    try:
        found = view.of(store.shape, store.dtype, f.name, f.itemsize, offset, f.strides, f.shape)
    except ValueError as error:
        raise Unaddressable(str(error)) from None
    if storage.scattered and (found.frame != store.shape or found.dtype != store.dtype):
        raise Unaddressable("elements of part of a larger store, under other coordinates than its own")
    return found


def operand(x: Array, shape: Point) -> Operand:
    """An array as an input of a task over `shape`."""
    found = x.part
    if found is None:
        found = view_of(x)
    return x.storage, (found if found.shape == shape else found.broadcast(shape))


def argument(x: Array) -> Operand:
    """An array as an argument of a host function: its store, and the view of it that the array shows."""
    return storage_of(x), view_of(x)


def distant(x: Array) -> bool:
    """Would reading one element fetch a large store from other memory?"""
    return (not library.current().host_sees and x.storage is not None and library.busy(x.storage)
            and x.storage.nbytes > access.NEAR)


def locked(x: Array) -> Mirror:
    """The memory of an array, read-only."""
    memory = host(x).view()
    memory.flags.writeable = False
    return memory


def owned(x: Array) -> Mirror:
    """The memory of an array, for code that holds it and may write to it at any time."""
    memory = access.whole(x)
    if x.storage is not None:
        library.own(x.storage)
    return memory


def writable(x: Array) -> Mirror:
    """The memory of an array, for the host to write to; `wrote` must be called afterwards."""
    memory = owned(x)
    if x.storage is not None:
        x.storage.version += 1
        if x.storage.shared and x.memory is not None:  # `owned` gives a read-only view
            return x.memory
    return memory


def wrote(x: Array) -> None:
    """Tell the store that the host wrote to the memory of an array."""
    if x.storage is not None:
        library.write_back(x.storage)


def put(x: Array, index: Any, value: Any) -> None:
    """Assign `x[index] = value` by NumPy, at once."""
    memory: Any = writable(x)
    memory[index] = value
    if x.storage is not None and x.storage.shared:
        library.write_back(x.storage)


def unboxed(x: Any) -> Any:
    """The element of a 0-d array, as NumPy's functions return it; anything else as it is."""
    return x[()] if type(x) is core.array_class and not x.form.ndim else x


_postponed: tuple[Any, BaseException] | None = None
"""A weak reference to the array that last failed to provide a buffer, and the exception."""


def shown(x: Array) -> None:
    """Mark the memory of an array as exported for good: code that nobody can ask may hold it."""
    if x.form.size:
        storage_of(x).show(None)


def buffer(x: Array, flags: int) -> Mirror:
    """Return the memory of an array for the buffer protocol.

    NumPy's `frombuffer` and `ndarray(buffer=...)` release the buffer and go on to use the memory.  Their
    requests are for plain bytes to write to, which a number refuses.  NumPy ignores any error there, even an
    interrupt, and calls `__array__` next, which raises it again.  `memoryview` passes it on, and no later
    request shall meet it.  Of a number it is a copy, to which NumPy's `asarray` lets programs write.
    """
    global _postponed
    if _postponed is not None and _postponed[0]() is x:  # not another thread's
        _postponed = None
    number, plain = type(x) in core.PENDING, flags & (WRITABLE | FORMAT) == WRITABLE
    if number and plain:
        raise BufferError("scalar buffer is readonly")
    try:
        if plain:
            shown(x)
        return host(x).copy() if number else exported(x)
    except BaseException as error:
        _postponed = ref(x), error
        raise


def raise_postponed(x: Array) -> None:
    """Raise the error that kept an array from providing a buffer, once."""
    global _postponed
    if _postponed is not None:
        (failed, error), _postponed = _postponed, None
        try:
            if failed() is x:
                raise error
        finally:
            del error  # whose traceback refers to this call, and so to the array


def exported(x: Array) -> Mirror:
    """The memory of an array for outside code.  It stays valid as long as that code holds it, and for that
    time the engine runs operations on it at once.  Of a store that another library of Legate's holds, a
    read-only copy."""
    raise_postponed(x)
    lent = access.lending(x)
    if lent is not None:
        return lent
    memory = owned(x)
    if x.storage is not None and x.storage.shared:
        memory = memory.copy()
        memory.flags.writeable = False
        return memory
    if x.form.size == 0:
        return memory
    theirs: Mirror | None = lender(memory)
    if theirs is not None:
        return theirs
    f, storage = x.form, storage_of(x)
    span = Span(address(memory), f.shape, f.dtype.str, (storage, memory), f.strides)
    storage.show(span)
    out = numpy.asarray(span)
    if not memory.flags.writeable:
        out.flags.writeable = False
    return out


def spanned(array: Mirror) -> Any:
    """A Diffuse array sharing the memory of any NumPy view; its owner covers the bytes from the first to the
    last."""
    low = high = address(array)
    for n, s in zip(array.shape, array.strides, strict=True):
        low, high = low + min(0, s * (n - 1)), high + max(0, s * (n - 1))
    count = (high - low) // array.itemsize + 1
    root = hosted(numpy.asarray(Span(low, (count,), array.dtype.str, array)))
    return viewing(root, array)
