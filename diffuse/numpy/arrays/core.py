"""Arrays, and what small ones do at once: Python's operators on NumPy's memory.

`Array` holds what an array is made of and nothing else; `Operators` adds Python's operators, and `ndarray`
and the lazy scalar NumPy's methods.  An array begins its life in one of two ways: *recorded* (a store,
perhaps without memory yet; `meta` is a mirror) or *hosted* (`meta` is a real NumPy array; a store is attached
when the first task touches it).

An array of fewer than DIFFUSE_SMALL elements that nothing pending writes behaves as NumPy's, bits, warnings
and errors included, and costs little more: no form is looked up, nothing is recorded.  So does a small view
of a large array: what happens while tasks on that are pending, walks.py decides.

Where the extension is there (../small/), its classes and functions take the place of those of the same names
here: what changes in one has to change in the other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from sys import getrefcount
from threading import RLock
from typing import Any
from weakref import ref

import numpy

from diffuse import library
from diffuse.library import Bounded, view
from diffuse.numpy.arrays import walks
from diffuse.numpy.arrays.forms import BASE, EXTENT, NATIVE, Form, Mirror, address, form_of
from diffuse.numpy.small import native
from diffuse.settings import config, watch

NDARRAY = numpy.ndarray
ENGINE = library.current()

NUMBERS: set[type] = {float, int, complex, bool, *(dtype.type for dtype in NATIVE)}
"""Types of the numbers that operations take by value."""


_new = object.__new__


class Array:
    """The common part of `ndarray` and the lazy scalar."""

    __slots__ = ("storage", "_form", "part", "meta", "memory", "owner", "lent", "__weakref__")

    storage: Any
    """The engine's handle of the store; None while no task has touched a hosted array."""
    _form: Form | None
    """Shape, strides and element type, interned; None until somebody asks."""
    part: view.View | None
    """The part of the store that this array shows; None until a task needs it."""
    meta: Mirror
    """Shape, strides, type, offset and flags: a mirror, or the real memory of a hosted array.  A view of a
    mirror may be real; the memory of its owner is known then."""
    memory: Mirror | None
    """The memory as NumPy sees it, once known; valid to read while the store is not busy."""
    owner: Array | None
    """The array whose store this is a view of."""
    lent: bool
    """Of a hosted array: did the program get views of it as arrays of NumPy's (`lend`)?"""

    @property
    def form(self) -> Form:
        """Shape, strides and element type, interned."""
        found = self._form
        if found is None:
            found = self._form = form_of(self.meta)
        return found

    @form.setter
    def form(self, form: Form) -> None:
        self._form = form


array_class: Any = Array
scalar_class: Any = Array
"""The classes that results get (`set_classes`)."""

ARRAYS: set[type] = set()
"""Both classes, for a test of an operand's type that costs one look-up."""


def set_classes(array: Any, scalar: Any) -> None:
    """Say of which classes arrays and lazy scalars are."""
    global array_class, scalar_class
    array_class, scalar_class = array, scalar
    ARRAYS.update((array, scalar))
    if native is not None:
        native.set_classes(array, scalar)

SMALL = config.small
"""Elements of an array below which it behaves as NumPy's: what is at hand is computed at once, by NumPy."""

TINY = min(128, SMALL)
"""Elements of an array below which a result that NumPy computed stays NumPy's array: Python's operators and
methods on it are NumPy's own.  Two such arrays never broadcast to a large one, which NumPy would keep."""


def set_small(elements: int) -> None:
    """Change which arrays are small."""
    global SMALL, TINY
    SMALL, TINY = elements, min(128, elements)
    if native is not None:
        native.set_sizes(SMALL, TINY)


watch("small", set_small)

SEES = False
"""Is the memory of arrays that is known the stores' own, not a copy?  Then views are made of it."""


def _look_again(_: Any) -> None:
    _see(False)


def _see(sees: bool) -> None:
    global SEES
    SEES = sees
    if native is not None:
        native.set_sees(sees)


watch("runtime", _look_again)


def recorded(shape_form: Form) -> Any:
    """Return a new array over a new store, which the next task has to write."""
    x = Array.__new__(array_class)
    x.storage = library.new(shape_form.frame)
    x._form = shape_form
    x.part = shape_form.root
    x.meta = shape_form.mirror
    x.memory = x.owner = None
    return x


def hosted(array: Mirror, known: Form | None = None) -> Any:
    """A Diffuse array over the memory of a NumPy array that is packed and owns its elements."""
    x = Array.__new__(array_class)
    x.meta = x.memory = array
    x._form = known
    x.storage = x.part = x.owner = None
    x.lent = False
    return x


def given(found: Mirror) -> Any:
    """What the program gets of a new array of NumPy's that is packed and owns its elements."""
    return found if found.size < TINY or found.dtype not in NATIVE else hosted(found)


def viewing(parent: Array, meta: Mirror) -> Any:
    """A view of `parent`'s store, described by a view of its meta."""
    x = Array.__new__(array_class)
    owner = parent if parent.owner is None else parent.owner
    x.owner = owner
    x.storage = owner.storage
    x._form = x.part = None
    x.meta = meta
    x.memory = meta if parent.meta is parent.memory else None
    return x


def looking(parent: Array, memory: Mirror) -> Any:
    """A view of `parent`'s store, given by a view of its memory, which is known."""
    x = Array.__new__(array_class)
    owner = parent if parent.owner is None else parent.owner
    x.owner = owner
    x.storage = owner.storage
    x._form = x.part = None
    x.meta = x.memory = memory
    return x


def lend(x: Array, found: Mirror) -> bool:
    """May the program get this view of the memory of `x` as NumPy's array?  It may if the view has few
    elements, as results that stay NumPy's have, and the array is small and has no store yet.

    From then on tasks read a snapshot of the array, and operations that write to it run at once, as long as
    somebody holds such a view.
    """
    root = x if x.owner is None else x.owner
    if found.size >= TINY or root.storage is not None:
        return False
    if root.meta.size >= SMALL or found.base is not root.meta:
        return False
    root.lent = True
    return True


def lending(x: Array) -> Mirror | None:
    """A view of the memory of a small array without a store, lent to code outside; None of other arrays."""
    root = x if x.owner is None else x.owner
    if root.storage is not None or root.meta.size >= SMALL or root.meta.base is not None:
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
    _see(library.current().runtime.host_sees)
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
                return memory if memory.size < SMALL else None
        elif storage.touched != ENGINE.epoch:
            return memory if memory.size < SMALL else None
    size = x.meta.size
    if size >= SMALL:
        return None
    memory = at_hand(x)
    return host(x) if memory is None and walks.begun() else memory


def near_to_write(x: Array) -> Mirror | None:
    """The memory of a small array if it may be written now; else None.  Waits where the program walks."""
    size = x.meta.size
    return None if size >= SMALL else mine(x)


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
    if not SEES:
        _see(True)
    known = x.memory
    return host(x) if known is None else known


def number_or_near(x: Any) -> Any:
    """A number as it is, and the memory of a small array at hand; None for all else."""
    kind = type(x)
    if kind is array_class:
        return near(x)
    if kind is float or kind is int or kind in NUMBERS:
        return x
    if kind is scalar_class:
        memory = near(x)
        return None if memory is None else memory[()]
    return x if kind is NDARRAY and x.dtype in NATIVE and x.size < SMALL else None


MOVING: set[Any] = set()
"""NumPy's ufuncs that some place of the program calls on other views every turn (ops/moving.py): these look
there first."""
GRANTS: dict[tuple[Any, ...], tuple[Any, ...]] = Bounded(1 << 10)
"""By NumPy's ufunc and an instruction of the program (its code's identity and its offset): how many calls on
the same views the extension may do at once there, and of operands of which types; nothing where all calls are
recorded."""


def spreads(left: Any, right: Any) -> bool:
    """Is the result of two arrays larger than small arrays are?"""
    if type(left) is not NDARRAY or type(right) is not NDARRAY or left.shape == right.shape:
        return False
    if left.size * right.size < SMALL:
        return False
    try:
        return bool(numpy.broadcast(left, right).size >= SMALL)
    except ValueError:  # NumPy's function says why
        return False


def binary(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """NumPy's function on two operands, if both are small and at hand; else the same operation recorded, if
    it was recorded on these views before; else None."""
    if type(a) is not array_class or a.meta.size < SMALL:
        left = number_or_near(a)
        if left is not None:
            right = number_or_near(b)
            if right is not None and (type(right) is not NDARRAY or not spreads(left, right)):
                found = function(left, right)
                return given(found) if type(found) is NDARRAY else found
    return None if function in MOVING else slow.known(function, a, b)


def product(a: Any, b: Any) -> Any:
    """NumPy's matrix product of two operands; None unless both, and what they make, are small."""
    left = number_or_near(a)
    if left is None:
        return None
    right = number_or_near(b)
    if right is None:
        return None
    if type(left) is NDARRAY and type(right) is NDARRAY and left.size * right.size >= SMALL:
        rows, columns = left.shape[-2:-1], right.shape[-1:] if right.ndim > 1 else ()
        try:
            stack = numpy.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        except ValueError:  # NumPy's function says why
            stack = ()
        if prod(stack) * prod(rows) * prod(columns) >= SMALL:
            return None
    found = numpy.matmul(left, right)
    return given(found) if type(found) is NDARRAY else found


UFUNCS: set[Any] = {found for found in vars(numpy).values()
                    if isinstance(found, numpy.ufunc) and found.nout == 1 and found.signature is None}
"""NumPy's ufuncs that go element by element."""


def called(function: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """NumPy's ufunc, called by NumPy's arrays and scalars, with arrays of ours among the operands.

    None unless all are small and at hand.
    """
    if function not in UFUNCS or len(inputs) != function.nin or len(inputs) > 2:
        return None
    values = [number_or_near(inputs[0])]
    if len(inputs) == 2 and values[0] is not None:
        values.append(number_or_near(inputs[1]))
    if values[-1] is None or len(values) == 2 and spreads(*values):
        return None
    if options:
        out = options["out"][0] if options.keys() == {"out"} else None
        return function(*values, out) if type(out) is NDARRAY and out.size < SMALL else None
    found = function(*values)
    return given(found) if type(found) is NDARRAY else found


def unary(function: Callable[[Any], Any], a: Any) -> Any:
    """NumPy's function on one operand, likewise."""
    if type(a) is not array_class or a.meta.size < SMALL:
        memory = number_or_near(a)
        if memory is not None:
            found = function(memory)
            return given(found) if type(found) is NDARRAY else found
    return slow.known_unary(function, a)


def inplace(function: Callable[[Any, Any, Any], Any], a: Any, b: Any) -> bool:
    """`a op= b` by NumPy's ufunc, if both are small and at hand and nobody else knows of `a`; else recorded,
    if it was recorded on these views before; else False."""
    memory = near_to_write(a)
    if memory is not None:
        right = number_or_near(b)
        if right is not None:
            function(memory, right, memory)
            return True
    return False if function in MOVING else slow.known_inplace(function, a, b)


def into(function: Any, operands: tuple[Any, ...], target: Any) -> bool:
    """NumPy's ufunc with an output array, if all are small and at hand; else False."""
    memory = near_to_write(target)
    if memory is None:
        return False
    values = []
    for x in operands:
        value = number_or_near(x)
        if value is None:
            return False
        values.append(value)
    function(*values, memory)
    return True


class Slow:
    """What operators and attributes do with arrays that are not small and at hand, filled in by the modules
    that know."""

    known: Callable[[Any, Any, Any], Any]
    known_unary: Callable[[Any, Any], Any]
    known_inplace: Callable[[Any, Any, Any], bool]
    forward: Callable[[str, Any, Any], Any]
    reflected: Callable[[str, Any, Any], Any]
    equality: Callable[[str, Any, Any], Any]
    alone: Callable[[str, Any], Any]
    power: Callable[[Any, Any], Any]
    update: Callable[[str, Any, Any], Any]
    getitem: Callable[[Any, Any], Any]
    setitem: Callable[[Any, Any, Any], None]
    locate: Callable[[Any], bool]
    set_shape: Callable[[Any, Any], None]
    set_dtype: Callable[[Any, Any], None]
    form_of: Callable[[Mirror], Form]
    subscript: Callable[[Any, Any], Any]
    assign: Callable[[Any, Any, Any], None]
    array_ufunc: Callable[..., Any]
    component: Callable[[Any, str], Any]
    set_component: Callable[[Any, str, Any], None]
    host: Callable[[Any], Mirror]
    buffer: Callable[[Any], Mirror]


slow = Slow()
slow.form_of, slow.host = form_of, host


class Operators(Array):
    """Arithmetic, comparison and bitwise operators."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        found = binary(numpy.add, self, other)
        return slow.forward("add", self, other) if found is None else found

    def __radd__(self, other: Any) -> Any:
        found = binary(numpy.add, other, self)
        return slow.reflected("add", self, other) if found is None else found

    def __sub__(self, other: Any) -> Any:
        found = binary(numpy.subtract, self, other)
        return slow.forward("subtract", self, other) if found is None else found

    def __rsub__(self, other: Any) -> Any:
        found = binary(numpy.subtract, other, self)
        return slow.reflected("subtract", self, other) if found is None else found

    def __mul__(self, other: Any) -> Any:
        found = binary(numpy.multiply, self, other)
        return slow.forward("multiply", self, other) if found is None else found

    def __rmul__(self, other: Any) -> Any:
        found = binary(numpy.multiply, other, self)
        return slow.reflected("multiply", self, other) if found is None else found

    def __truediv__(self, other: Any) -> Any:
        found = binary(numpy.divide, self, other)
        return slow.forward("divide", self, other) if found is None else found

    def __rtruediv__(self, other: Any) -> Any:
        found = binary(numpy.divide, other, self)
        return slow.reflected("divide", self, other) if found is None else found

    def __floordiv__(self, other: Any) -> Any:
        found = binary(numpy.floor_divide, self, other)
        return slow.forward("floor_divide", self, other) if found is None else found

    def __rfloordiv__(self, other: Any) -> Any:
        found = binary(numpy.floor_divide, other, self)
        return slow.reflected("floor_divide", self, other) if found is None else found

    def __mod__(self, other: Any) -> Any:
        found = binary(numpy.remainder, self, other)
        return slow.forward("remainder", self, other) if found is None else found

    def __rmod__(self, other: Any) -> Any:
        found = binary(numpy.remainder, other, self)
        return slow.reflected("remainder", self, other) if found is None else found

    def __lshift__(self, other: Any) -> Any:
        found = binary(numpy.left_shift, self, other)
        return slow.forward("left_shift", self, other) if found is None else found

    def __rlshift__(self, other: Any) -> Any:
        found = binary(numpy.left_shift, other, self)
        return slow.reflected("left_shift", self, other) if found is None else found

    def __rshift__(self, other: Any) -> Any:
        found = binary(numpy.right_shift, self, other)
        return slow.forward("right_shift", self, other) if found is None else found

    def __rrshift__(self, other: Any) -> Any:
        found = binary(numpy.right_shift, other, self)
        return slow.reflected("right_shift", self, other) if found is None else found

    def __and__(self, other: Any) -> Any:
        found = binary(numpy.bitwise_and, self, other)
        return slow.forward("bitwise_and", self, other) if found is None else found

    def __rand__(self, other: Any) -> Any:
        found = binary(numpy.bitwise_and, other, self)
        return slow.reflected("bitwise_and", self, other) if found is None else found

    def __or__(self, other: Any) -> Any:
        found = binary(numpy.bitwise_or, self, other)
        return slow.forward("bitwise_or", self, other) if found is None else found

    def __ror__(self, other: Any) -> Any:
        found = binary(numpy.bitwise_or, other, self)
        return slow.reflected("bitwise_or", self, other) if found is None else found

    def __xor__(self, other: Any) -> Any:
        found = binary(numpy.bitwise_xor, self, other)
        return slow.forward("bitwise_xor", self, other) if found is None else found

    def __rxor__(self, other: Any) -> Any:
        found = binary(numpy.bitwise_xor, other, self)
        return slow.reflected("bitwise_xor", self, other) if found is None else found

    def __matmul__(self, other: Any) -> Any:
        found = product(self, other)
        return slow.forward("matmul", self, other) if found is None else found

    def __rmatmul__(self, other: Any) -> Any:
        found = product(other, self)
        return slow.reflected("matmul", self, other) if found is None else found

    def __lt__(self, other: Any) -> Any:
        found = binary(numpy.less, self, other)
        return slow.forward("less", self, other) if found is None else found

    def __le__(self, other: Any) -> Any:
        found = binary(numpy.less_equal, self, other)
        return slow.forward("less_equal", self, other) if found is None else found

    def __gt__(self, other: Any) -> Any:
        found = binary(numpy.greater, self, other)
        return slow.forward("greater", self, other) if found is None else found

    def __ge__(self, other: Any) -> Any:
        found = binary(numpy.greater_equal, self, other)
        return slow.forward("greater_equal", self, other) if found is None else found

    def __eq__(self, other: Any) -> Any:
        found = binary(numpy.equal, self, other)
        return slow.equality("equal", self, other) if found is None else found

    def __ne__(self, other: Any) -> Any:
        found = binary(numpy.not_equal, self, other)
        return slow.equality("not_equal", self, other) if found is None else found

    def __neg__(self) -> Any:
        found = unary(numpy.negative, self)
        return slow.alone("negative", self) if found is None else found

    def __pos__(self) -> Any:
        found = unary(numpy.positive, self)
        return slow.alone("positive", self) if found is None else found

    def __abs__(self) -> Any:
        found = unary(numpy.absolute, self)
        return slow.alone("absolute", self) if found is None else found

    def __invert__(self) -> Any:
        found = unary(numpy.invert, self)
        return slow.alone("invert", self) if found is None else found

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            return NotImplemented
        found = binary(operator.pow, self, other)
        return slow.power(self, other) if found is None else found

    def __rpow__(self, other: Any, modulo: Any = None) -> Any:
        found = binary(operator.pow, other, self)
        return slow.reflected("power", self, other) if found is None else found


INDICES: set[type] = {int, slice, type(None), type(Ellipsis), *(t.type for t in NATIVE if t.kind in "iu")}
"""Types of indices that select a view or an element."""


def simple(index: Any) -> bool:
    """Does an index select a view or an element, whatever the array?"""
    kind = type(index)
    if kind is tuple:
        for part in index:
            if type(part) not in INDICES:
                return False
        return True
    return kind in INDICES


def _raise(x: Any, y: Any, out: Any) -> None:
    """`x **= y` of NumPy's arrays, which knows simpler functions for some exponents."""
    x **= y


SLICES: dict[tuple[Any, ...], tuple[Any, ...]] = Bounded(1 << 12)
"""Large slices of views: form, view and mirror of the slice, and the mirror that was sliced; nothing for one
that was seen once.  By the token of the view, and the bounds."""


def sliced(view: int, index: Any) -> tuple[Any, ...] | None:
    """What tells a slice from others: the bounds in all dimensions, integers and new dimensions; None for
    other indices, and for those of elements."""
    if type(index) is slice:
        start, stop, step = index.start, index.stop, index.step
        if ((start is None or type(start) is int) and (stop is None or type(stop) is int)
                and (step is None or type(step) is int)):
            return view, start, stop, step
        return None
    if type(index) is not tuple or not index:  # an empty one picks the element of an array without dimensions
        return None
    bounds: list[Any] = [view]
    element = True
    for part in index:
        kind = type(part)
        if kind is int:
            bounds += (int, part)
            continue
        element = False
        if kind is slice:
            for bound in (part.start, part.stop, part.step):
                if bound is not None and type(bound) is not int:
                    return None
                bounds.append(bound)
        elif part is None or part is Ellipsis:
            bounds.append(kind)
        else:
            return None
    return None if element else tuple(bounds)


def part_of(x: Array, index: Any, key: tuple[Any, ...], memory: Any) -> Any:
    """A slice of an array; looked up if the same view was sliced before (twice in programs whose views move:
    many of these never come again).  `memory` is the same slice of its memory, if that is known."""
    known = SLICES.get(key)
    hosted_there = x.meta is x.memory
    if known and (hosted_there or known[3] is x.meta):
        part = _new(array_class)  # as `viewing` makes them
        part._form, part.part, part.meta, _ = known
        part.memory = memory
        if hosted_there:
            part.meta = memory
        part.storage = x.storage
        part.owner = x if x.owner is None else x.owner
        return part
    if known is None and memory is not None and MOVING:
        SLICES[key] = ()
        return looking(x, memory)
    part = viewing(x, x.meta[index])
    if memory is not None:
        part.memory = memory
    if part.meta.size >= SMALL and slow.locate(part):
        SLICES[key] = part.form, part.part, part.meta, x.meta
    return part


def subscript(x: Array, index: Any) -> Any:
    """`x[index]`."""
    memory, found, kind = x.memory, None, type(index)
    if (memory is not None and (SEES or memory is x.meta)
            and (kind is int or kind is slice or simple(index))):
        found = memory[index]
        if type(found) is not NDARRAY:  # an element
            storage = x.storage
            if storage is not None and storage.touched != ENGINE.epoch:
                return memory[index]
            memory = at_hand(x)
            return slow.getitem(x, index) if memory is None else memory[index]
        if x.part is None or found.size < SMALL:
            if found.size < TINY and lend(x, found):
                return found
            part = _new(array_class)
            owner = x.owner
            if owner is None:
                owner = x
            part.owner = owner
            part.storage = owner.storage
            part._form = part.part = None
            part.meta = part.memory = found
            return part
    if x.part is not None:
        key = sliced(x.part.token, index)
        if key is not None:
            return part_of(x, index, key, found)
    if type(index) is int and x.meta.ndim == 1:
        memory = at_hand(x)
        if memory is not None:
            return memory[index]
    return slow.getitem(x, index)


def assign(x: Array, index: Any, value: Any) -> None:
    """`x[index] = value`."""
    memory: Any = x.memory
    if memory is not None and (type(index) is int or simple(index)):
        right = value if type(value) is float else number_or_near(value)
        if right is not None:
            target = memory if memory.size < SMALL else memory[index]
            if type(target) is not NDARRAY or target.size < SMALL:
                storage = x.storage
                if SEES and storage is not None and storage.touched != ENGINE.epoch:
                    storage.version += 1
                else:
                    memory = mine(x)
                if memory is not None:
                    memory[index] = right
                    return
    slow.setitem(x, index, value)


slow.subscript, slow.assign = subscript, assign


class Described(Operators):
    """What an array looks like, its elements, and the operators that change them."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        found: tuple[int, ...] = self.meta.shape
        return found

    @shape.setter
    def shape(self, shape: Any) -> None:
        slow.set_shape(self, shape)

    @property
    def dtype(self) -> numpy.dtype[Any]:
        return self.meta.dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        slow.set_dtype(self, dtype)

    @property
    def ndim(self) -> int:
        return self.meta.ndim

    @property
    def size(self) -> int:
        return self.meta.size

    @property
    def T(self) -> Any:
        return viewing(self, self.meta.T)

    @property
    def real(self) -> Any:
        return slow.component(self, "real")

    @real.setter
    def real(self, value: Any) -> None:
        slow.set_component(self, "real", value)

    @property
    def imag(self) -> Any:
        return slow.component(self, "imag")

    @imag.setter
    def imag(self, value: Any) -> None:
        slow.set_component(self, "imag", value)

    def __index__(self) -> int:
        if self.form.ndim:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return operator.index(slow.host(self))

    def __buffer__(self, flags: int) -> Any:
        """Python's buffer protocol, from 3.12 on; the extension has it for all versions."""
        return slow.buffer(self).data

    def __len__(self) -> int:
        return len(self.meta)

    def __getitem__(self, index: Any) -> Any:
        return subscript(self, index)

    def __iadd__(self, other: Any) -> Any:
        return self if inplace(numpy.add, self, other) else slow.update("add", self, other)

    def __isub__(self, other: Any) -> Any:
        return self if inplace(numpy.subtract, self, other) else slow.update("subtract", self, other)

    def __imul__(self, other: Any) -> Any:
        return self if inplace(numpy.multiply, self, other) else slow.update("multiply", self, other)

    def __itruediv__(self, other: Any) -> Any:
        return self if inplace(numpy.divide, self, other) else slow.update("divide", self, other)

    def __ifloordiv__(self, other: Any) -> Any:
        return self if inplace(numpy.floor_divide, self, other) else slow.update("floor_divide", self, other)

    def __imod__(self, other: Any) -> Any:
        return self if inplace(numpy.remainder, self, other) else slow.update("remainder", self, other)

    def __ilshift__(self, other: Any) -> Any:
        return self if inplace(numpy.left_shift, self, other) else slow.update("left_shift", self, other)

    def __irshift__(self, other: Any) -> Any:
        return self if inplace(numpy.right_shift, self, other) else slow.update("right_shift", self, other)

    def __iand__(self, other: Any) -> Any:
        return self if inplace(numpy.bitwise_and, self, other) else slow.update("bitwise_and", self, other)

    def __ior__(self, other: Any) -> Any:
        return self if inplace(numpy.bitwise_or, self, other) else slow.update("bitwise_or", self, other)

    def __ixor__(self, other: Any) -> Any:
        return self if inplace(numpy.bitwise_xor, self, other) else slow.update("bitwise_xor", self, other)

    def __ipow__(self, other: Any, modulo: Any = None) -> Any:
        return self if inplace(_raise, self, other) else slow.update("power", self, other)

    def __setitem__(self, index: Any, value: Any) -> None:
        assign(self, index, value)

    def __delitem__(self, key: Any) -> None:
        raise ValueError("cannot delete array elements")


if native is not None:
    native.connect(slow, ENGINE, near, near_to_write, NUMBERS, MOVING, UFUNCS)
    native.connect_moving(GRANTS, library.trace.counters, BASE, EXTENT)
    set_small(config.small)
    for _name in ("Array", "Operators", "Described", "hosted", "given", "viewing", "looking"):
        globals()[_name] = getattr(native, _name)
    _new = native.Array.__new__
