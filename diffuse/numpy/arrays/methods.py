"""The methods of `ndarray`: each calls the function, view or fallback that implements it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numpy

from diffuse.numpy.arrays import access, assign, base, core, elements, inplace, views
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.core import viewing
from diffuse.numpy.arrays.forms import NATIVE, computable, memory_order
from diffuse.numpy.arrays.operators import Protocols
from diffuse.numpy.bridge import fallback, namespace
from diffuse.numpy.bridge.refusals import worded
from diffuse.numpy.ops import elementwise, folds, gates, moments, reductions
from diffuse.numpy.ops.operands import lowered, wrap
from diffuse.numpy.ops.ufuncs import UFUNCS

_NoValue = numpy._NoValue
NOTHING: Any = None
PLAIN = frozenset((int, tuple))
resolved = cache(namespace.resolve)


def by_numpy(name: str, silent: str | None = None) -> Callable[..., Any]:
    """A method that NumPy computes on the array's memory."""
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        return fallback.call(
            getattr(numpy.ndarray, name), (self, *args), kwargs, f"numpy.ndarray.{name}", silent
        )

    apply.__name__ = name
    return apply


def by_function(name: str) -> Callable[..., Any]:
    """A method that is the namespace's function of the same name."""
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        return resolved(name)(self, *args, **kwargs)

    apply.__name__ = name
    return apply


def as_method(function: Any) -> Any:
    """A method with the code and arguments of a function: a separate function object, as each has the
    signature and documentation of its own counterpart in NumPy."""
    method = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    method.__kwdefaults__ = function.__kwdefaults__
    return method


def _truth(name: str, x: Any, axis: Any, dtype: Any, out: Any, keepdims: Any, where: Any) -> Any:
    """The methods `any` and `all`, which take an element type that NumPy does not document."""
    if dtype is None:
        return folds.reduce(name, x, axis, None, out, keepdims, _NoValue, where)
    given = x, axis, dtype, out, keepdims
    return fallback.call(getattr(numpy.ndarray, name), given, {"where": where}, silent="inspection")


class Methods(Protocols, elements.Described):
    """The methods that NumPy documents for arrays."""

    __slots__ = ()
    __module__ = "numpy"
    """What libraries that do without NumPy, such as SymPy, look for among the bases of an object's class."""

    # -- views -------------------------------------------------------------------------------------------

    @property
    def mT(self) -> Any:
        return viewing(self, self.meta.mT)

    @property
    def flat(self) -> Any:
        from diffuse.numpy.arrays.flat import Flat

        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        memory: Any = base.writable(self)
        memory.flat = lowered(value)
        base.wrote(self)

    def reshape(self, *shape: Any, order: Any = "C", copy: bool | None = None) -> Any:
        if not shape:
            raise TypeError("reshape() takes exactly 1 argument (0 given)")
        extents = shape[0] if len(shape) == 1 else shape
        if (type(order) is str and order == "C" and copy is None and self.meta.flags.c_contiguous
                and type(extents) in PLAIN):
            return viewing(self, self.meta.reshape(extents))
        return views.reshape(self, extents, order, copy)

    def transpose(self, *axes: Any) -> Any:
        return viewing(self, self.meta.transpose(*axes))

    def swapaxes(self, axis1: Any, axis2: Any, /) -> Any:
        return viewing(self, self.meta.swapaxes(axis1, axis2))

    def squeeze(self, axis: Any = None) -> Any:
        found = self.meta.squeeze(axis)
        return self if found is self.meta else viewing(self, found)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return viewing(self, self.meta.diagonal(offset, axis1, axis2))

    def ravel(self, order: str = "C") -> Any:
        meta = self.meta
        if type(order) is str and order == "C" and meta.flags.c_contiguous:
            return viewing(self, meta.reshape(-1))
        return views.ravel(self, order)

    def flatten(self, order: str = "C") -> Any:
        return views.flatten(self, order)

    def view(self, dtype: Any = _NoValue, type: Any = _NoValue) -> Any:
        if type is _NoValue and isinstance(dtype, builtin_type) and issubclass(dtype, core.array_class):
            dtype, type = _NoValue, dtype
        if type is None:
            numpy.empty(0).view(type=NOTHING)  # raises
        if dtype is not _NoValue:
            base.element_type(dtype)
        if type is _NoValue or type is core.array_class:
            return viewing(self, self.meta.view()) if dtype is _NoValue else views.retyped(self, dtype)
        return base.exported(self).view(type=type, **({} if dtype is _NoValue else {"dtype": dtype}))

    # -- copies and conversions --------------------------------------------------------------------------

    def copy(self, order: str = "C") -> Any:
        return elementwise.duplicate(self, None, "C" if order is None else order)

    def astype(self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True,
               copy: bool = True) -> Any:
        if (casting if type(casting) is str else "") == "same_value":  # NumPy reads the values
            return wrap(host(self).astype(dtype, order, casting, subok, copy))
        if isinstance(copy, numpy._CopyMode):
            raise ValueError("_CopyMode enum is not allowed for astype function. Use true/false instead.")
        base.check_subok(subok)
        target = base.element_type(dtype)
        if type(casting) is not str or casting != "unsafe":
            numpy.empty(0, self.form.dtype).astype(target, casting=casting)  # raises
        if not computable(target):
            return host(self).astype(dtype, order=order)
        flags, order = self.meta.flags, memory_order(order)
        fits = {"K": True, "A": flags.forc, "C": flags.c_contiguous, "F": flags.f_contiguous}
        if not copy and target == self.form.dtype and fits[order]:
            return self
        return elementwise.duplicate(self, target, order)

    def item(self, *args: Any) -> Any:
        return host(self).item(*args)

    def tolist(self) -> Any:
        return host(self).tolist()

    @worded
    def tobytes(self, order: Any = "C") -> bytes:
        return host(self).tobytes(order)

    def fill(self, value: Any, /) -> None:
        assign.fill(self, value)

    def resize(self, *shape: Any, **options: Any) -> None:
        if options.keys() - {"refcheck"}:
            numpy.empty(0).resize(*shape, **options)  # raises
        checks = options.get("refcheck", True)
        if type(checks) is not bool:
            numpy.empty(0).resize(0, refcheck=checks)  # raises, unless it is an integer
        inplace.resize(self, shape, bool(checks))

    @worded
    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        if stream is not None or device != "cpu":
            numpy.empty(0).to_device(device, stream=stream)  # raises
        return self

    def conjugate(self, out: Any = None, /) -> Any:
        if out is not None and (type(out) is not core.array_class or self.form.name[0] != "c"):
            return fallback.call(numpy.ndarray.conjugate, (self, out), {}, silent="inspection")
        return self if out is None and self.form.name[0] != "c" else UFUNCS["conjugate"](self, out=out)

    conj = conjugate

    # -- reductions --------------------------------------------------------------------------------------

    sum, prod, min, max, argmin, argmax, cumsum, cumprod = map(as_method, (
        reductions.sum, reductions.prod, reductions.min, reductions.max, reductions.argmin,
        reductions.argmax, reductions.cumsum, reductions.cumprod))

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
             where: Any = True) -> Any:
        return moments.mean_of(self, axis, dtype, out, keepdims, where, numpy.ndarray)

    def any(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
            where: Any = True) -> Any:
        return _truth("any", self, axis, dtype, out, keepdims, where)

    def all(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
            where: Any = True) -> Any:
        return _truth("all", self, axis, dtype, out, keepdims, where)

    def var(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False,
            *, where: Any = True, mean: Any = _NoValue) -> Any:
        return moments.variance("var", self, axis, dtype, out, ddof, keepdims, where, mean, _NoValue,
                                numpy.ndarray)

    def std(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False,
            *, where: Any = True, mean: Any = _NoValue) -> Any:
        return moments.variance("std", self, axis, dtype, out, ddof, keepdims, where, mean, _NoValue,
                                numpy.ndarray)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None,
              out: Any = None) -> Any:
        plain = PLAIN.issuperset(map(builtin_type, (offset, axis1, axis2)))
        if (out is not None and type(out) is not core.array_class or not plain
                or dtype is not None and numpy.dtype(dtype) not in NATIVE):
            return fallback.call(numpy.ndarray.trace, (self, offset, axis1, axis2, dtype, out), {},
                                 silent="inspection")
        short = out is None and min(self.meta.shape, default=0) < core.SMALL
        memory = access.at_hand(self) if short else None
        if memory is not None and self.meta.ndim == 2:
            return memory.trace(offset, axis1, axis2, dtype)
        return folds.reduce("sum", self.diagonal(offset, axis1, axis2), -1, dtype, out)

    # -- the rest ----------------------------------------------------------------------------------------

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **kwargs: Any) -> Any:
        return resolved("clip")(self, min, max, out, **kwargs)

    def sort(self, *args: Any, **kwargs: Any) -> None:
        from diffuse.numpy.order.sorting import sort_in_place

        sort_in_place(self, args, kwargs)

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Any:
        return resolved("compress")(condition, self, axis, out)

    def choose(self, *choices: Any, out: Any = None, mode: str = "raise") -> Any:
        """NumPy's `choose`: choices are given one by one, or as one sequence; `out` has to be given by name,
        as in NumPy."""
        if not choices:
            raise TypeError("choose() takes exactly 1 argument (0 given)")
        if len(choices) == 1 and not isinstance(choices[0], (list, tuple, numpy.ndarray, core.Array)):
            return fallback.call(numpy.ndarray.choose, (self, *choices), {"out": out, "mode": mode},
                                 silent="inspection")
        return resolved("choose")(self, choices[0] if len(choices) == 1 else choices, out, mode)

    @worded
    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        if self.meta.size < core.SMALL and access.ready(self):
            call = self, indices, values, mode
            fallback.call(numpy.ndarray.put, call, {}, "numpy.ndarray.put", "library")
        else:
            resolved("put")(self, indices, values, mode)

    dot, repeat = by_function("dot"), by_function("repeat")
    round, take = by_function("round"), by_function("take")
    argsort, argpartition = by_function("argsort"), by_function("argpartition")
    nonzero, searchsorted = by_function("nonzero"), by_function("searchsorted")
    partition = by_numpy("partition", "order")
    tofile, dump, dumps = by_numpy("tofile", "text"), by_numpy("dump", "text"), by_numpy("dumps", "text")
    byteswap, getfield, setfield = by_numpy("byteswap"), by_numpy("getfield"), by_numpy("setfield")


builtin_type = type

GATED = """sum prod min max mean any all var std argmin argmax cumsum cumprod trace flatten copy astype
conjugate conj clip compress choose dot repeat round take argsort argpartition nonzero searchsorted""".split()
"""Methods that only read, for which small arrays use NumPy's."""

LOOKING = "reshape transpose swapaxes squeeze diagonal ravel view item tolist fill".split()
"""Methods that return views or elements, or write elements, which the extension does."""

for _name in GATED:
    setattr(Methods, _name, gates.method(_name, vars(Methods)[_name]))
for _name in LOOKING:
    setattr(Methods, _name, gates.looking(_name, vars(Methods)[_name]))
