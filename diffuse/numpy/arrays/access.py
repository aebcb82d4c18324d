"""The memory of arrays: may it be read or written now, must the program wait, and who else holds it?"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from threading import RLock
from typing import Any
from weakref import ref

import numpy

from diffuse import library
from diffuse.library import Bounded
from diffuse.numpy.arrays import core, soon, walks
from diffuse.numpy.arrays.core import ENGINE, NDARRAY, NUMBERS, Array, hosted, slow
from diffuse.numpy.arrays.forms import BASE, EXTENT, NATIVE, Mirror, address


def lend(x: Array, found: Mirror) -> bool:
    """May the program get this view of the memory of `x` as NumPy's array?  It may if the view has few
    elements, as results that stay NumPy's have, and the array is small and has no store yet.

    From then on tasks read a snapshot of the array, and operations that write to it run at once, as long as
    somebody holds such a view.
    """
    root = x if x.owner is None else x.owner
    if found.size >= core.TINY or root.storage is not None:
        return False
    if root.meta.size >= core.SMALL or found.base is not root.meta:
        return False
    root.lent = True
    return True


def lending(x: Array) -> Mirror | None:
    """A view of the memory of a small array without a store, lent to code outside; None of other arrays."""
    root = x if x.owner is None else x.owner
    if root.storage is not None or root.meta.size >= core.SMALL or root.meta.base is not None:
        return None
    memory = x.meta.view()
    if memory.base is not root.meta:
        return None
    root.lent = True
    return memory


def seen(memory: Mirror) -> Callable[[], bool]:
    """What tells whether anybody holds views of this memory: references beside the two fields of the array,
    the store's view, the function's own and that of the call."""
    return lambda: getrefcount(memory) > 5


def lent(root: Array) -> bool:
    """Does the program hold views of the memory of a hosted array without a store, as NumPy's arrays?"""
    if not root.lent:
        return False
    memory = root.meta
    # the two fields of the array, the variable here, and the argument of the call; several ranks have to
    # decide alike, whatever their references say
    root.lent = getrefcount(memory) > 4 or not ENGINE.runtime.host_sees
    return root.lent


_snapshots: dict[Any, tuple[Any, bytes, Any]] = Bounded(64)
"""Snapshots of small arrays of NumPy's: the array that owns the memory, its elements at that time, and our
array.  By the identity of the owner, and what is read of its memory."""
_constants: dict[Any, Any] = Bounded(256)
"""Those of the smallest: our array by its elements, for programs that make the same ones in every turn."""
LITTLE = 1 << 10
"""Bytes of an array whose elements are compared sooner than it is told whether they are the same."""


def snapshot(array: Mirror, owner: Any = None) -> Any:
    """An array with the elements that a small array of NumPy's has now, for tasks to read: the program may
    change its own before they run.  The same array as long as the elements are."""
    elements = array.tobytes()
    if len(elements) <= LITTLE:
        key: Any = elements, array.shape, array.strides, array.dtype.char
        found = _constants.get(key)
        if found is None:
            found = _constants[key] = hosted(array.copy(order="K"))
            slow.locate(found)
        return found
    whole = array if owner is None else owner
    key = id(whole), array.shape, array.strides, 0 if owner is None else address(array)
    known = _snapshots.get(key)
    if known is not None:
        whose, before, found = known
        if whose() is whole and before == elements and found.meta.dtype is array.dtype:
            return found
    found = hosted(array.copy(order="K"))
    slow.locate(found)
    _snapshots[key] = ref(whole), elements, found
    return found


def steady(x: Array) -> Any:
    """An array as tasks read it: a snapshot if the program holds views of its memory as NumPy's arrays."""
    root = x if x.owner is None else x.owner
    if x.storage is None and root.storage is None and root.lent and lent(root):
        return snapshot(x.meta, root.meta)
    return x


latest: tuple[int, Any] = 0, None
"""The identity of the memory of the last large result that NumPy made at once, and what counts how often the
program waited for that operation alone (ops/single.py)."""
DOUBTED = 1 << 40
"""A count that has the next call recorded."""


def made_at_once(memory: Mirror, counted: Any) -> Any:
    """A large result of NumPy's, which a task may use next: then the operation was not waited for alone."""
    global latest
    latest = id(memory), counted
    return hosted(memory)


def doubt(x: Array) -> None:
    """Note that a task uses an array for the first time."""
    memory = x.meta if x.owner is None else x.owner.meta
    if id(memory) == latest[0]:
        latest[1].alone = DOUBTED


_attaching = RLock()
"""Held while an array gets its store: one each for two threads would not wait for each other."""


def storage_of(x: Array) -> Any:
    """The store of an array, attached now if no task has touched it before."""
    storage = x.storage
    if storage is None:
        root = x if x.owner is None else x.owner
        with _attaching:
            if root.storage is None:
                memory, held = root.meta.view(), lent(root)
                if not memory.flags.c_contiguous:
                    order = sorted(range(memory.ndim), key=lambda d: -memory.strides[d])
                    memory = memory.transpose(order)
                root.storage = storage = library.attach(memory)
                if held and ENGINE.runtime.host_sees:
                    storage.show_while(seen(root.meta))
                elif held:
                    storage.show(None)
        storage = x.storage = root.storage
    return storage


def offset_of(x: Array, meta: Mirror) -> int:
    """Bytes from the beginning of the store of `x` to the first element of a view of that."""
    place = address(meta)
    if BASE <= place < BASE + EXTENT:
        return place - BASE
    root = x if x.owner is None else x.owner
    assert root.memory is not None
    return place - address(root.memory)


def ready(x: Array) -> bool:
    """May the memory be used now, without waiting?"""
    storage = x.storage
    if storage is None:
        if x.owner is None or x.owner.storage is None:
            return True
        storage = x.storage = x.owner.storage
    return bool(storage.touched != ENGINE.epoch)


def host(x: Array) -> Mirror:
    """Return the memory of an array for reading; waits for the pending tasks that write it."""
    soon.looked()
    if x.memory is not None and ready(x):
        return x.memory
    storage = storage_of(x)
    memory = library.fetch(storage)
    found = x.memory
    if found is None:
        found = remember(x, memory)
    if storage.shared:  # a copy; writing there would be lost
        found = found.view()
        found.flags.writeable = False
    return found


def remember(x: Array, memory: Mirror) -> Mirror:
    """Note where the elements of an array are in `memory` (a store's bytes), and first those of its owner."""
    core.see(library.current().runtime.host_sees)
    root = x.owner
    if root is not None and root.memory is None:
        root.memory = over(root, memory)
    found = x.memory = over(x, memory)
    return found


def over(x: Array, memory: Mirror) -> Mirror:
    """NumPy's view of `memory` (a store's bytes) as the elements of `x`."""
    f = x.form
    if f.size == 0:
        real = numpy.ndarray(f.shape, f.dtype)
    else:
        offset = offset_of(x, x.meta)
        real = numpy.ndarray(f.shape, f.dtype, memory, offset, f.strides)
    if not x.meta.flags.writeable:
        real.flags.writeable = False
    return real


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
    if storage.touched != ENGINE.epoch:
        known = x.memory
        return host(x) if known is None else known
    memory = library.look(storage)
    if memory is not None and x.memory is None:
        remember(x, memory)
    return None if memory is None else x.memory


def near(x: Array) -> Mirror | None:
    """The memory of a small array if it may be read now; else None.  Waits where the program walks.

    To be read only, as `at_hand`'s.
    """
    memory = x.memory
    if memory is not None:
        storage = x.storage
        if storage is None:
            owner = x.owner
            if owner is None or owner.storage is None:
                return memory if memory.size < core.SMALL else None
        elif storage.touched != ENGINE.epoch:
            return memory if memory.size < core.SMALL else None
    size = x.meta.size
    if size >= core.SMALL:
        return None
    memory = at_hand(x)
    return host(x) if memory is None and walks.begun() else memory


def near_to_write(x: Array) -> Mirror | None:
    """The memory of a small array if it may be written now; else None.  Waits where the program walks."""
    size = x.meta.size
    return None if size >= core.SMALL else mine(x)


def mine(x: Array) -> Mirror | None:
    """The memory of an array for the host to write to, if nothing pending uses it and no other process or
    library has a copy; else None.  Waits where the program walks."""
    storage = x.storage
    if storage is None:
        owner = x.owner
        if owner is None or owner.storage is None:
            return x.memory
        storage = x.storage = owner.storage
    if not library.take(storage):
        if not walks.begun():
            return None
        host(x)
        if not library.take(storage):
            return None
    if not core.SEES:
        core.see(True)
    known = x.memory
    return host(x) if known is None else known


def number_or_near(x: Any) -> Any:
    """A number as it is, and the memory of a small array at hand; None for all else."""
    kind = type(x)
    if kind is core.array_class:
        return near(x)
    if kind is float or kind is int or kind in NUMBERS:
        return x
    if kind is core.scalar_class:
        memory = near(x)
        return None if memory is None else memory[()]
    return x if kind is NDARRAY and x.dtype in NATIVE and x.size < core.SMALL else None


slow.host = host
