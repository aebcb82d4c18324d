"""`ndarray`: NumPy's array, its operations recorded as tasks instead of computed."""

from __future__ import annotations

import functools
import importlib
import operator
import sys
from collections.abc import Callable
from functools import cache, wraps
from operator import attrgetter
from types import GenericAlias, MethodDescriptorType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

import numpy

from diffuse import library
from diffuse.numpy.arrays import assign, base, core, inplace, views
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.base import exported
from diffuse.numpy.arrays.core import Array, viewing
from diffuse.numpy.arrays.flags import Flags
from diffuse.numpy.arrays.forms import NATIVE, Mirror, copying
from diffuse.numpy.arrays.interface import Held, Interface, Pointers
from diffuse.numpy.arrays.lending import origin
from diffuse.numpy.arrays.methods import Methods
from diffuse.numpy.arrays.operators import defers
from diffuse.numpy.arrays.scalar import PENDING, scalar
from diffuse.numpy.bridge import exposed, overrides
from diffuse.numpy.bridge.refusals import documented, worded
from diffuse.numpy.ops import creation, elementwise
from diffuse.numpy.ops.operands import lowered, shared, wrap
from diffuse.numpy.ops.ufuncs import UFUNCS
from diffuse.numpy.small import native

COLLECTED = sys.getsizeof([]) - [].__sizeof__()
"""Bytes that the garbage collector keeps in front of an object that may be part of a cycle."""
MANAGED = 3 << 3
"""The flags of classes in front of whose objects Python keeps two more pointers, to weak references and to
the dictionary of attributes."""
MERGING = getattr(getattr(functools, "_c3_merge", None), "__code__", None)
"""The code of `functools.singledispatch` that orders classes; it takes classes that compare equal for one."""


if TYPE_CHECKING or native is None:
    Classes = type
else:
    Classes = native.Kind


def _printed(x: Array) -> Mirror:
    """A NumPy array that prints as `x` does."""
    if library.current().host_sees:
        return host(x)
    from diffuse.numpy.arrays import edges

    return edges.printed(x)


class ArrayType(Classes):
    """The metaclass of `ndarray`.  NumPy's own arrays are instances, too, as small results are such
    arrays."""

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any], **options: Any) -> Any:
        """Derive a program's subclass from NumPy's array, because only that calls the hooks of subclasses."""
        plain = tuple([overrides.Derived if type(base) is ArrayType else base for base in bases])
        if plain != bases:
            derived = type(name, plain, members, **options)
            overrides.meet(derived)
            return derived
        return super().__new__(cls, name, bases, members, **options)

    def __repr__(cls) -> str:
        """What `print(type(x))` shows, in NumPy's words."""
        return "<class 'numpy.ndarray'>"

    def __dir__(cls) -> list[str]:
        """List the names of NumPy's array, without the slots."""
        return [name for name in super().__dir__() if name.startswith("_") or hasattr(numpy.ndarray, name)]

    def __eq__(cls, kind: object) -> Any:
        """Equal NumPy's class, which is the class of short arrays: `type(x) == np.ndarray` holds for all
        arrays.

        A program's tables of types find both, because the hashes are equal too, and Diffuse's own tables
        tell them apart (small/kind.c).  So does `functools.singledispatch` where it takes classes out of a
        list of the classes that it may choose.
        """
        if kind is numpy.ndarray:
            return sys._getframe(1).f_code is not MERGING
        return super().__eq__(kind)

    __hash__ = type.__hash__ if native is None else native.Kind.__hash__

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, numpy.ndarray) or super().__instancecheck__(value)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, numpy.ndarray) or super().__subclasscheck__(kind)


def of_either(name: str, theirs: Callable[..., Any]) -> property:
    """A method for calls through the class (`np.ndarray.sum(x)`), which calls NumPy's for NumPy's own arrays.

    A property of the metaclass, which leaves all other attributes of the class to Python: NumPy looks for
    `__array_ufunc__` there at each call.
    """
    @cache
    def found(cls: ArrayType) -> Callable[..., Any]:
        ours = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))

        @wraps(ours)
        def run(*args: Any, **kwargs: Any) -> Any:
            chosen = theirs if args and isinstance(args[0], numpy.ndarray) else ours
            return chosen(*args, **kwargs)

        return run

    return property(found)


for _name, _method in vars(numpy.ndarray).items():
    if type(_method) is MethodDescriptorType and not _name.startswith("_"):
        setattr(ArrayType, _name, of_either(_name, _method))


def of_one(kind: Callable[[Any], Any]) -> Any:
    """A method that converts the only element; for more elements NumPy raises its error."""
    def convert(self: Any) -> Any:
        return kind(host(self) if self.form.size == 1 else numpy.empty(2))

    return convert


class ndarray(Methods, metaclass=ArrayType):
    """An array whose operations are recorded, and run when elements are read or the window is full."""

    __slots__ = ()
    __hash__: Any = None

    def __new__(cls, *args: Any, **options: Any) -> Any:
        if cls is not ndarray:
            kind: Any = cls
            return numpy.ndarray.__new__(kind, *args, **options)
        if args and type(args[0]) in (int, tuple) and len((*args, *options)) < 3 and {"dtype"} >= {*options}:
            dtype = options["dtype"] if options else args[1] if len(args) > 1 else float
            if base.element_type(dtype) in NATIVE:
                return creation.empty(args[0], dtype)
        found: Mirror = numpy.ndarray(*map(lowered, args), **{k: lowered(v) for k, v in options.items()})
        return found if found.size < core.TINY else wrap(found) if found.base is None else shared(found)

    def __dir__(self) -> list[str]:
        """List the names of NumPy's array, as the class does."""
        return dir(type(self))

    def __class_getitem__(cls, item: Any) -> GenericAlias:
        numpy.ndarray[item]  # raises unless there are one or two
        return GenericAlias(cls, item)

    # -- what it looks like ------------------------------------------------------------------------------

    @property
    def strides(self) -> tuple[int, ...]:
        return self.form.strides

    @strides.setter
    def strides(self, strides: Any) -> None:
        inplace.set_strides(self, strides)

    @strides.deleter
    def strides(self) -> None:
        raise AttributeError("Cannot delete array strides")

    itemsize = property(attrgetter("form.itemsize"))

    @property
    def nbytes(self) -> int:
        return self.form.size * self.form.itemsize

    @property
    def flags(self) -> Flags:
        return Flags(self)

    @worded
    def setflags(self, write: Any = None, align: Any = None, uic: Any = None) -> None:
        flags = Flags(self)
        for name, value in (("aligned", align), ("writebackifcopy", uic), ("writeable", write)):
            if value is not None:
                flags[name] = value

    @property
    def base(self) -> Any:
        owner = self.owner
        return origin(self.meta) if owner is None and self.meta is self.memory else owner

    @property
    def device(self) -> str:
        return "cpu"

    def _become(self, reshape: Callable[[Mirror], Mirror]) -> None:
        """Change the shape in place, as `reshape` does to a NumPy array without a copy."""
        other = viewing(self, reshape(self.meta))
        if other.memory is None and self.memory is not None:  # with which views of it find their place
            other.memory = reshape(self.memory)
        self.form, self.part, self.meta, self.memory = other.form, other.part, other.meta, other.memory
        if self.owner is None and other.form.packed:
            self.part = None if self.storage is None else base.view_of(other)

    def __repr__(self) -> str:
        return repr(_printed(self))

    def __str__(self) -> str:
        return str(_printed(self))

    @worded
    def __format__(self, spec: str) -> str:
        return host(self).__format__(spec)

    # -- elements ----------------------------------------------------------------------------------------

    @worded
    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __bool__(self) -> bool:
        if self.form.size == 1:
            return bool(host(self))
        return bool(numpy.empty(self.form.shape, bool)) if self.form.size < 2 else bool(numpy.empty(2, bool))

    __int__, __float__, __complex__ = of_one(int), of_one(float), of_one(complex)

    def __imatmul__(self, other: Any) -> Any:
        if defers(other, True):
            return NotImplemented
        if overrides.answer((other,)):
            return UFUNCS["matmul"](self, other, out=(self,))
        base.writable(self).__imatmul__(host(other) if isinstance(other, Array) else other)
        base.wrote(self)
        return self

    # -- other libraries ---------------------------------------------------------------------------------

    @worded
    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> Any:
        base.raise_postponed(self)
        copy, dtype = copying(copy), base.element_type(dtype) if isinstance(dtype, Array) else dtype
        memory = host(self) if copy else exported(self)
        return memory.__array__(dtype, copy=copy)  # itself, where NumPy needs no copy

    @property
    def __array_interface__(self) -> Any:
        return Interface(self)

    if native is not None:  # NumPy then uses the buffer; with a capsule it would be unknown who holds it
        @property
        def __array_struct__(self) -> Any:
            """A capsule for C code, which holds NumPy's array on the same memory."""
            return exported(self).__array_struct__

    @worded
    def __array_namespace__(self, /, *, api_version: Any = None) -> Any:
        numpy.empty(0).__array_namespace__(api_version=api_version)  # raises for versions that NumPy lacks
        return importlib.import_module("diffuse.numpy")

    def __array_finalize__(self, array: Any, /) -> None:
        """A hook for code that looks it up; derived classes are NumPy's (bridge/overrides.py)."""

    @worded
    def __array_wrap__(self, array: Any, /, *options: Any) -> Any:
        plain = lowered(array)
        found = numpy.empty(0).__array_wrap__(plain, *options)
        if found is plain and plain is not array:
            return array
        return shared(found) if isinstance(found, numpy.ndarray) else found

    @property
    def __cuda_array_interface__(self) -> Any:
        """The array's memory on the GPU, for CuPy, torch and Numba; with the cuda runtime only."""
        return importlib.import_module("diffuse.numpy.bridge.device").interface(self)

    @worded
    def __dlpack__(self, **options: Any) -> Any:
        """A capsule for other libraries, with the memory on the GPU if that has the current elements."""
        gpu = exposed.tensors()
        return exported(self).__dlpack__(**options) if gpu is None else gpu.capsule(self, **options)

    def __dlpack_device__(self) -> Any:
        gpu = exposed.tensors()
        return numpy.empty(0).__dlpack_device__() if gpu is None else gpu.device_of(self)

    def __diffuse__(self) -> Any:
        """The store and the view that other libraries on the stream use (diffuse.library); those of a copy,
        if no view describes the elements."""
        try:
            view = base.view_of(self)
        except base.Unaddressable:
            return elementwise.duplicate(self).__diffuse__()
        return self.storage, view

    @property
    def __legate_data_interface__(self) -> Any:
        """Legate's store of the array; of a copy if Legate cannot name the part (steps, another frame)."""
        legate = importlib.import_module("diffuse.numpy.bridge.legate")
        return legate.interface(self) or legate.interface(elementwise.duplicate(self))

    @property
    def ctypes(self) -> Any:
        """NumPy's `ctypes` object over the memory; its pointers keep this array alive."""
        memory = exported(self).view(Held)
        memory.array = self
        return Pointers(memory, memory.ctypes.data)

    @property
    def data(self) -> Any:
        return exported(self).data

    def __sizeof__(self) -> int:
        """The size of the object as NumPy counts it: with its elements, unless it is a view.  It is less what
        `sys.getsizeof` adds for what Python keeps in front of it, which NumPy's arrays do not have."""
        before = COLLECTED + (16 if type(self).__flags__ & MANAGED else 0)
        own = numpy.ndarray.__basicsize__ + 16 * self.form.ndim - before
        return own if self.owner is not None else own + self.nbytes

    # -- copies ------------------------------------------------------------------------------------------

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle; out-of-band buffers of protocol 5 are the array's own memory, and non-contiguous elements
        are copied into the stream."""
        if operator.index(protocol) < 5:
            return creation.stored, (_copied(self),)
        if self.form.packed:
            return creation.stored, (exported(self),)
        return creation.assembled, _copied(self).__reduce__()

    def __reduce__(self) -> Any:
        return creation.blank, (), _copied(self).__reduce__()[2]

    @worded
    def __setstate__(self, state: Any, /) -> None:
        memory = numpy.empty(0)
        memory.__setstate__(state)
        inplace.take(self, wrap(memory))
        self.owner = None

    @worded
    def __copy__(self) -> Any:
        return elementwise.duplicate(self)

    @worded
    def __deepcopy__(self, memo: Any, /) -> Any:
        return elementwise.duplicate(self)


def _copied(x: Array) -> Any:
    """A copy of the elements in the order of NumPy's `copy(order="A")`; where the host sees copies of stores,
    their strides are not those of the array."""
    return host(x).copy(order="F" if x.meta.flags.fnc else "C")


def _copies(array: Mirror, shape: Any) -> bool:
    """Would NumPy have to copy an array to give it another shape?  If it refuses the shape, it does not."""
    try:
        array.reshape(shape, copy=False)
    except ValueError as error:
        return str(error).startswith("Unable to avoid")
    except TypeError:
        pass
    return False


def set_shape(x: Any, shape: Any) -> None:
    """Assign `x.shape = shape`, which keeps the elements in place."""
    def reshaped(array: Mirror) -> Mirror:
        found = array.view()
        if _copies(array, shape):
            numpy.empty((2, 2)).T.shape = -1  # raises; NumPy copies elements before, which mirrors have not
        found.shape = shape
        return found

    x._become(reshaped)


documented(ndarray)
core.set_classes(ndarray, scalar, PENDING)
NAMED = ref(ndarray)
"""The weak reference to the class that all weak tables share; it keeps the hash of the first look-up."""
WeakSet[Any]().discard(ndarray)  # asks for it from Python's module, so that it is the hash outside of Diffuse
core.slow.getitem, core.slow.setitem, core.slow.locate = views.getitem, assign.setitem, base.locate
core.slow.set_shape, core.slow.set_dtype = set_shape, inplace.set_dtype
core.slow.component, core.slow.set_component = views.component, views.set_component
core.slow.buffer = base.buffer
if native is not None:
    native.teach(base.writable, base.wrote, host)
