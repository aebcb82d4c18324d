"""What an array is made of: a store, the part of it that the array shows, and memory once it is known.

`Array` holds this and nothing else; `ndarray` and the lazy scalar add NumPy's methods to it.  An array
begins its life in one of two ways: *recorded* (a store, perhaps without memory yet; `meta` is a mirror)
or *hosted* (`meta` is a real NumPy array; a store is attached when the first task touches it).
"""

from __future__ import annotations

from threading import RLock
from typing import Any

import numpy

from diffuse import library
from diffuse.library import Point, view
from diffuse.numpy.arrays.forms import (
    BASE,
    RESERVE,
    Form,
    Mirror,
    Span,
    address,
    form,
    form_of,
    row_major,
)
from diffuse.numpy.arrays.lending import lender

Operand = tuple[Any, view.View]

NEAR = 1 << 16
"""Bytes of a store that is fetched whole for one element of it."""


class Array:
    """The common part of `ndarray` and the lazy scalar."""

    __slots__ = ("storage", "form", "part", "meta", "memory", "owner", "__weakref__")

    storage: Any
    """The engine's handle of the store; None while no task has touched a hosted array."""
    form: Form
    part: view.View | None
    """The part of the store that this array shows; None until a task needs it."""
    meta: Mirror
    """Shape, strides, type, offset and flags: a mirror, or the real memory of a hosted array."""
    memory: Mirror | None
    """The memory as NumPy sees it, once known; valid to read while the store is not busy."""
    owner: Array | None
    """The array whose store this is a view of."""


array_class: Any = Array
scalar_class: Any = Array
"""The classes that results get; arrays/array.py fills them in."""

UFUNCS: dict[str, Any] = {}
"""The ufunc objects by NumPy's names; ops/ufuncs.py fills them in."""

ARRAYS: set[type] = set()
"""Both classes, for a test of an operand's type that costs one look-up."""

_allocate = object.__new__


class Unaddressable(Exception):
    """Raised for a view that no affine access map describes; NumPy then computes the operation."""


_FAMILIES = type(numpy.dtypes.StrDType)


def element_type(dtype: Any) -> numpy.dtype[Any]:
    """The element type that an argument asks for.

    `numpy.dtype` takes a class of element types (`numpy.dtypes.Float32DType`) for any class of Python
    objects, and whatever has an element type for that type: also an array that was meant for `out`.
    """
    if isinstance(dtype, Array):
        raise TypeError("Cannot construct a dtype from an array")
    return numpy.empty(0, dtype).dtype if isinstance(dtype, _FAMILIES) else numpy.dtype(dtype)


def recorded(shape_form: Form) -> Any:
    """Return a new array over a new store, which the next task has to write."""
    x = _allocate(array_class)
    x.storage = library.create(shape_form.frame, shape_form.name)
    x.form = shape_form
    x.part = shape_form.root
    x.meta = shape_form.mirror
    x.memory = x.owner = None
    return x


def holding(storage: Any, whole: Form) -> Any:
    """Return a new row-major array over the whole of an existing store."""
    x = _allocate(array_class)
    x.storage, x.form, x.part, x.meta = storage, whole, whole.root, whole.mirror
    x.memory = x.owner = None
    return x


def hosted(array: Mirror, known: Form | None = None) -> Any:
    """A Diffuse array over the memory of a NumPy array that is packed and owns its elements."""
    x = _allocate(array_class)
    x.meta = x.memory = array
    x.form = form_of(array) if known is None else known
    x.storage = x.part = x.owner = None
    return x


def viewing(parent: Array, meta: Mirror) -> Any:
    """A view of `parent`'s store, described by a view of its meta."""
    x = _allocate(array_class)
    x.owner = parent if parent.owner is None else parent.owner
    x.storage = x.owner.storage
    x.form = form(meta.shape, meta.strides, meta.dtype)
    x.part = None
    x.meta = meta
    x.memory = meta if x.owner.meta is x.owner.memory else None
    return x


def showing(storage: Any, part: view.View) -> Any:
    """Return a new array over the part of an existing store that a view describes."""
    dtype = numpy.dtype(storage.store.dtype)
    whole = holding(storage, row_major(storage.store.shape, dtype))
    if part is whole.part:
        return whole
    x = viewing(whole, numpy.ndarray(part.shape, part.dtype, RESERVE, part.offset, part.strides))
    x.part = part
    return x


_attaching = RLock()
"""Held while an array gets its store: one each for two threads would not wait for each other."""


def storage_of(x: Array) -> Any:
    """The store of an array, attached now if no task has touched it before."""
    storage = x.storage
    if storage is None:
        root = x if x.owner is None else x.owner
        with _attaching:
            if root.storage is None:
                memory = root.meta
                if not memory.flags.c_contiguous:
                    order = sorted(range(memory.ndim), key=lambda d: -memory.strides[d])
                    memory = memory.transpose(order)
                root.storage = library.attach(memory)
        storage = x.storage = root.storage
    return storage


def view_of(x: Array) -> view.View:
    """The part of its store that an array shows, in bytes and, by `view.of`, in coordinates."""
    found = x.part
    if found is None:
        storage = storage_of(x)
        f = x.form
        if x.owner is None:
            found = f.root
        else:
            found = _located(storage, f, address(x.meta) - start_of(x))
        x.part = found
    return found


def start_of(x: Array) -> int:
    """Where the store's memory begins in the address space of the array's meta."""
    root = x if x.owner is None else x.owner
    return address(root.meta) if root.meta is root.memory else BASE


def view_in(x: Array, meta: Mirror) -> view.View:
    """The view for a part of `x` that is given by a view of its meta: a target of an assignment."""
    return _located(storage_of(x), unfolded(form_of(meta)), address(meta) - start_of(x))


def unfolded(f: Form) -> Form:
    """Return the form of a task's output, or raise where two of its elements share memory."""
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


def ready(x: Array) -> bool:
    """May the memory be used now, without waiting?"""
    storage = x.storage
    if storage is None:
        if x.owner is None or x.owner.storage is None:
            return True
        storage = x.storage = x.owner.storage
    return not library.busy(storage)


def at_hand(x: Array) -> Mirror | None:
    """The memory of an array if it may be read now, without waiting; else None.

    To be read only: tasks that read it, too, may be pending.
    """
    storage = x.storage
    if storage is None:
        owner = x.owner
        if owner is None or owner.storage is None:
            return x.memory
        storage = x.storage = owner.storage
    if not library.busy(storage):
        return host(x)
    memory = library.look(storage)
    if memory is not None and x.memory is None:
        x.memory = over(x, memory)
    return None if memory is None else x.memory


def distant(x: Array) -> bool:
    """Return whether reading one element would fetch a large store from other memory."""
    return (not library.current().runtime.host_sees and x.storage is not None and library.busy(x.storage)
            and x.storage.nbytes > NEAR)


def host(x: Array) -> Mirror:
    """Return the memory of an array for reading; waits for the pending tasks that write it."""
    if x.memory is not None and ready(x):
        return x.memory
    storage = storage_of(x)
    memory = library.fetch(storage)
    if x.memory is None:
        x.memory = over(x, memory)
    if storage.shared:  # a copy; writing there would be lost
        locked = x.memory.view()
        locked.flags.writeable = False
        return locked
    return x.memory


def locked(x: Array) -> Mirror:
    """The memory of an array, for code that must not write to it."""
    memory = host(x).view()
    memory.flags.writeable = False
    return memory


def owned(x: Array) -> Mirror:
    """The memory of an array, for code that holds it and may write to it at some time."""
    memory = host(x)
    if x.storage is not None:
        library.own(x.storage)
    return memory


def writable(x: Array) -> Mirror:
    """The memory of an array, for the host to write to: `wrote` has to follow."""
    memory = owned(x)
    if x.storage is not None:
        x.storage.version += 1
        if x.storage.shared and x.memory is not None:  # `owned` gives a view that is locked
            return x.memory
    return memory


def wrote(x: Array) -> None:
    """Tell the store that the host wrote to the memory of an array."""
    if x.storage is not None:
        library.write_back(x.storage)


def put(x: Array, index: Any, value: Any) -> None:
    """`x[index] = value` by NumPy, at once."""
    memory: Any = writable(x)
    memory[index] = value
    if x.storage is not None and x.storage.shared:
        library.write_back(x.storage)


def unboxed(x: Any) -> Any:
    """The element of a 0-d array, as NumPy's functions return it; anything else as it is."""
    return x[()] if type(x) is array_class and not x.form.ndim else x


def over(x: Array, memory: Mirror) -> Mirror:
    """NumPy's view of `memory` (a store's bytes) as the elements of `x`."""
    f = x.form
    if f.size == 0:
        real = numpy.ndarray(f.shape, f.dtype)
    else:
        offset = address(x.meta) - start_of(x)
        real = numpy.ndarray(f.shape, f.dtype, memory, offset, f.strides)
    if not x.meta.flags.writeable:
        real.flags.writeable = False
    return real


def exported(x: Array) -> Mirror:
    """The memory of an array for code outside: it stays valid as long as that code holds it, and for so long
    the engine runs operations on it at once.  Of a store that another library of Legate's holds, a copy that
    cannot be written to."""
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
    """A Diffuse array sharing the memory of any NumPy view: its owner covers the bytes between the ends."""
    low = high = address(array)
    for n, s in zip(array.shape, array.strides, strict=True):
        low, high = low + min(0, s * (n - 1)), high + max(0, s * (n - 1))
    count = (high - low) // array.itemsize + 1
    root = hosted(numpy.asarray(Span(low, (count,), array.dtype.str, array)))
    return viewing(root, array)
