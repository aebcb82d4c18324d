"""Access to the memory of arrays: whether it may be read or written now, must be waited for, or is held
elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from threading import RLock
from typing import Any
from weakref import ref

import numpy

from diffuse import library
from diffuse.library import Bounded, trace
from diffuse.numpy.arrays import core, soon
from diffuse.numpy.arrays.core import ENGINE, NDARRAY, NUMBERS, Array, hosted, slow, viewing
from diffuse.numpy.arrays.forms import BASE, EXTENT, NATIVE, Mirror, address

FILLS = 5 << 20
"""The most bytes that are filled with zeros for a small operation; the fill might otherwise become part of a
task."""


def lend(x: Array, found: Mirror) -> bool:
    """Allow outside code to get this view of the memory of `x` as a NumPy array; returns False unless the
    array is small and has no store yet.

    As long as such a view lives, tasks read a snapshot of the array, and operations that write to it run at
    once.
    """
    root = x if x.owner is None else x.owner
    if root.storage is not None or root.meta.size >= core.SMALL or found.base is not root.meta:
        return False
    root.lent = True
    return True


def lending(x: Array) -> Mirror | None:
    """A view of the memory of a small array that has no store, for outside code; else None."""
    memory = x.meta.view()
    return memory if lend(x, memory) else None


def seen(memory: Mirror) -> Callable[[], bool]:
    """A function that tells whether views of this memory live: whether it has more references than the two
    fields of the array, the store's view, the function and the call."""
    return lambda: getrefcount(memory) > 5


def alone() -> bool:
    """May reference counts of this process affect decisions?  Not where several ranks run the program."""
    return ENGINE.host_sees or ENGINE.runtime.addressed


def lent(root: Array) -> bool:
    """Does the program hold NumPy arrays that are views of the memory of a hosted array without a store?"""
    if not root.lent:
        return False
    memory = root.meta
    # the two fields of the array, the variable here, and the argument of the call; several ranks have to
    # decide alike, whatever their references are
    root.lent = getrefcount(memory) > 4 or not alone()
    return root.lent


_snapshots: dict[Any, tuple[Any, bytes, Any]] = Bounded(64)
"""Snapshots of small NumPy arrays: the array that owns the memory, its elements at that time, and our array.
The key is the identity of the owner, with the address and layout of the part that is read."""
constants: dict[Any, Any] = Bounded(256)
"""Snapshots of the smallest arrays, keyed by their elements: a loop may make the same ones each iteration."""
LITTLE = 1 << 10
"""The most bytes of an array whose snapshot is looked up by its elements."""


def snapshot(array: Mirror, owner: Any = None, gaps: bool = False) -> Any:
    """An array with the current elements of a small NumPy array, for tasks to read: the program may change
    its own array before they run.  As long as the elements stay the same, so does the returned array.

    With `gaps`, the copy of an array that is not contiguous is not contiguous either.
    """
    if gaps and not array.flags.forc:
        return _spaced(array)
    elements = array.tobytes()
    if len(elements) <= LITTLE:
        key: Any = elements, array.shape, array.strides, array.dtype.char
        found = constants.get(key)
        if found is None:
            found = constants[key] = _copied(array)
        return found
    whole = array if owner is None else owner
    key = id(whole), array.shape, array.strides, 0 if owner is None else address(array)
    known = _snapshots.get(key)
    if known is not None:
        whose, before, found = known
        if whose() is whole and before == elements and found.meta.dtype is array.dtype:
            return found
    found = _copied(array)
    _snapshots[key] = ref(whole), elements, found
    return found


def _copied(array: Mirror) -> Any:
    """Copy a NumPy array with its dimensions in the same order in memory.  Dimensions of stride 0 keep it,
    because results are laid out by the strides of operands."""
    once = (*[slice(0, 1) if s == 0 else slice(None) for s in array.strides], ...)
    found = hosted(array[once].copy(order="K"))
    if 0 in array.strides:
        found = viewing(found, numpy.broadcast_to(found.meta, array.shape))
    slow.locate(found)
    return found


def _spaced(array: Mirror) -> Any:
    """Copy a NumPy array to every second element of new memory."""
    memory = numpy.empty((*array.shape, 2), array.dtype)
    memory[..., 0] = array
    return viewing(hosted(memory), memory[..., 0])


def steady(x: Array, gaps: bool = False) -> Any:
    """The array that tasks read for `x`: a snapshot if the program holds NumPy views of its memory."""
    root = x if x.owner is None else x.owner
    if x.storage is None and root.storage is None and root.lent and lent(root):
        return snapshot(x.meta, root.meta, gaps)
    return x


latest: tuple[Callable[[], Any], Any] = (lambda: None), None
"""A weak reference to the memory of the last large result that NumPy computed at once, and the template or
place that counts how often the program waited for that operation alone (ops/single.py)."""
DOUBTED = 1 << 40
"""A value of that count that makes the next call be recorded again."""


def made_at_once(memory: Mirror, counted: Any) -> Any:
    """Make an array over a large result of NumPy's.  If a task uses it next, its operation was not waited for
    alone, and is recorded again (`doubt`)."""
    global latest
    latest = ref(memory), counted
    return hosted(memory)


def doubt(x: Array) -> None:
    """Note that a task uses an array for the first time."""
    memory = x.meta if x.owner is None else x.owner.meta
    if memory is latest[0]():
        latest[1].alone = DOUBTED


_attaching = RLock()
"""Held while an array gets its store, so that two threads do not each give it one."""


def storage_of(x: Array) -> Any:
    """The store of an array; attaches one if no task has used the array before."""
    storage = x.storage
    if storage is None:
        root = x if x.owner is None else x.owner
        with _attaching:
            if root.storage is None:
                held, memory = lent(root), root.meta.view()  # in this order: the view would count
                if not memory.flags.c_contiguous:
                    order = sorted(range(memory.ndim), key=lambda d: -memory.strides[d])
                    memory = memory.transpose(order)
                root.storage = storage = library.attach(memory)
                if held and alone():
                    storage.show_while(seen(root.meta))
                elif held:
                    storage.show(None)
        storage = x.storage = root.storage
    return storage


def offset_of(x: Array, meta: Mirror) -> int:
    """The offset in bytes of a view, given by its meta, in the store of `x`."""
    place = address(meta)
    if BASE <= place < BASE + EXTENT:
        return place - BASE
    root = x if x.owner is None else x.owner
    assert root.memory is not None
    return place - address(root.memory)


def ready(x: Array) -> bool:
    """Can the memory be used now, without waiting?"""
    storage = x.storage
    if storage is None:
        if x.owner is None or x.owner.storage is None:
            return True
        storage = x.storage = x.owner.storage
    return bool(storage.touched != ENGINE.epoch)


def host(x: Array) -> Mirror:
    """The memory of an array, for reading now; waits for the pending tasks that write it.  Of a small part of
    a store in other memory it is a read-only copy."""
    soon.looked()
    if not core.SEES:
        noted()
    if x.memory is not None and ready(x):
        return x.memory
    found = short(x) if storage_of(x).nbytes > NEAR else None
    return whole(x) if found is None else found


NEAR = 1 << 16
"""The size in bytes up to which a store is fetched as a whole for one element."""
SPARSE = 8
"""A part of a store is gathered before it is fetched if it spans this many times its own size: from a device,
and from ranks of which none has room for the whole store and another such array."""


def short(x: Array) -> Mirror | None:
    """A copy of a part of a store in other memory, for reading now, if the part can be fetched separately;
    else None."""
    f, storage = x.form, x.storage
    running = library.current()
    if running.host_sees or not f.size:
        return None
    ends = [s * (n - 1) for s, n in zip(f.strides, f.shape, strict=True)]
    nbytes = sum(map(abs, ends)) + f.itemsize
    if nbytes + NEAR > storage.nbytes:
        fits = not running.runtime.addressed and 2 * storage.nbytes <= running.runtime.room
        if (fits or f.size * f.itemsize * SPARSE > nbytes
                or not library.busy(storage) or library.look(storage) is not None):
            return None
        gathered = slow.gathered(x)
        return None if gathered is None else whole(gathered)
    first = sum([end for end in ends if end < 0])
    bytes_ = library.piece(storage, offset_of(x, x.meta) + first, nbytes)
    if bytes_ is None:
        return None
    found: Mirror = numpy.ndarray(f.shape, f.dtype, bytes_, -first, f.strides)
    found.flags.writeable = False
    return found


def whole(x: Array) -> Mirror:
    """The memory of an array, fetched with its whole store; waits for the pending tasks that write it."""
    if x.memory is not None and ready(x):
        return x.memory
    storage = storage_of(x)
    memory = library.fetch(storage)
    found = x.memory
    if found is None:
        found = remember(x, memory)
    if storage.shared:  # a copy, to which writes would be lost
        found = found.view()
        found.flags.writeable = False
    return found


def remember(x: Array, memory: Mirror) -> Mirror:
    """Set the memory of an array, and first that of its owner, to views of `memory`, the bytes of their
    store."""
    core.see(library.current().host_sees)
    root = x.owner
    if root is not None and root.memory is None:
        root.memory = over(root, memory)
    found = x.memory = over(x, memory)
    return found


def over(x: Array, memory: Mirror) -> Mirror:
    """A NumPy view of `memory`, the bytes of a store, with the layout of `x`."""
    f = x.form
    if f.size == 0:
        real = numpy.ndarray(f.shape, f.dtype)
    else:
        offset = offset_of(x, x.meta)
        real = numpy.ndarray(f.shape, f.dtype, memory, offset, f.strides)
    if not x.meta.flags.writeable:
        real.flags.writeable = False
    return real


def noted() -> None:
    """Note that a small operation looks for memory where known memory of arrays may be a copy of a device's;
    the program then may go on on the host (stream/sides.py)."""
    sides = ENGINE.stores.sides
    if sides is not None and not ENGINE.host_sees:
        sides.looked(ENGINE)


def at_hand(x: Array) -> Mirror | None:
    """The memory of an array if it can be read now, without waiting; else None.

    It is for reading only, as other tasks that read it may be pending.
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


def loop_begun() -> bool:
    """Is this a loop over slices (stream/walk.py), or is nothing recorded except a few fills with zeros?  If
    so, wait for all pending tasks, so that this small operation and those that follow find their operands at
    hand."""
    if not ENGINE.host_sees:
        return False
    if ENGINE.walk.begun:
        trace.count("walks")
    elif not (0 < ENGINE.zeros.size <= FILLS and ENGINE.idle):
        return False
    ENGINE.fence("a loop over slices begins, which is done at once")
    return True


def near(x: Array) -> Mirror | None:
    """The memory of a small array if it can be read now; else None.  Waits in loops over slices
    (stream/walk.py).

    It is for reading only, like `at_hand`.
    """
    if not core.SEES:
        noted()
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
    return host(x) if memory is None and loop_begun() else memory


def near_to_write(x: Array) -> Mirror | None:
    """The memory of a small array if it can be written now; else None.  Waits in loops over slices."""
    size = x.meta.size
    return None if size >= core.SMALL else mine(x)


def mine(x: Array) -> Mirror | None:
    """The memory of an array for the host to write to, if nothing pending uses it and no other process or
    library has a copy; else None.  Waits in loops over slices."""
    if not core.SEES:
        noted()
    storage = x.storage
    if storage is None:
        owner = x.owner
        if owner is None or owner.storage is None:
            return x.memory
        storage = x.storage = owner.storage
    if not library.take(storage):
        if not loop_begun():
            return None
        host(x)
        if not library.take(storage):
            return None
    if not core.SEES:
        core.see(True)
    known = x.memory
    return host(x) if known is None else known


def number_or_near(x: Any) -> Any:
    """A number itself, or the memory of a small array at hand; None for anything else."""
    kind = type(x)
    if kind is core.array_class:
        return near(x)
    if kind is float or kind is int or kind in NUMBERS:
        return x
    if kind in core.PENDING:
        memory = near(x)
        return None if memory is None else memory[()]
    return x if kind is NDARRAY and x.dtype in NATIVE and x.size < core.SMALL else None


slow.host = host
