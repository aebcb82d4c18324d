"""The methods of `ndarray`: each to the function, view or fallback that does the work."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy

from diffuse.numpy import assign, base, elementwise, fallback, folds, moments, namespace, reductions, views
from diffuse.numpy.base import Array, host, viewing
from diffuse.numpy.forms import NATIVE
from diffuse.numpy.operands import wrap
from diffuse.numpy.operators import Operators
from diffuse.numpy.ufuncs import UFUNCS

_NoValue = numpy._NoValue
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


class Methods(Operators):
    """What an array can be asked to do."""

    __slots__ = ()

    # -- views -------------------------------------------------------------------------------------------

    @property
    def T(self) -> Any:
        return viewing(self, self.meta.T)

    @property
    def mT(self) -> Any:
        return viewing(self, self.meta.mT)

    @property
    def real(self) -> Any:
        return views.component(self, "real")

    @real.setter
    def real(self, value: Any) -> None:
        views.component(self, "real")[...] = value

    @property
    def imag(self) -> Any:
        return views.component(self, "imag")

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.form.name[0] != "c":
            raise TypeError("array does not have imaginary part to set")
        views.component(self, "imag")[...] = value

    @property
    def flat(self) -> Any:
        return base.exported(self).flat

    @flat.setter
    def flat(self, value: Any) -> None:
        memory: Any = base.writable(self)
        memory.flat = host(value) if isinstance(value, Array) else value
        base.wrote(self)

    def reshape(self, *shape: Any, order: Any = "C", copy: bool | None = None) -> Any:
        return views.reshape(self, shape[0] if len(shape) == 1 else shape, order, copy)

    def transpose(self, *axes: Any) -> Any:
        return viewing(self, self.meta.transpose(*axes))

    def swapaxes(self, axis1: Any, axis2: Any) -> Any:
        return viewing(self, self.meta.swapaxes(axis1, axis2))

    def squeeze(self, axis: Any = None) -> Any:
        found = self.meta.squeeze(axis)
        return self if found is self.meta else viewing(self, found)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return viewing(self, self.meta.diagonal(offset, axis1, axis2))

    def ravel(self, order: str = "C") -> Any:
        return views.ravel(self, order)

    def flatten(self, order: str = "C") -> Any:
        return views.flatten(self, order)

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        if dtype is base.array_class or dtype is None and type in (None, base.array_class):
            return viewing(self, self.meta)
        if type is not None or isinstance(dtype, builtin_type) and issubclass(dtype, numpy.ndarray):
            return base.exported(self).view(dtype) if type is None else base.exported(self).view(type)
        return views.retyped(self, dtype)

    # -- copies and conversions --------------------------------------------------------------------------

    def copy(self, order: str = "C") -> Any:
        return elementwise.duplicate(self, None, order)

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
               copy: bool = True) -> Any:
        if casting == "same_value":  # NumPy looks at the values
            return wrap(host(self).astype(dtype, order, casting, subok, copy))  # type: ignore[call-overload]
        target = numpy.dtype(dtype)
        if not numpy.can_cast(self.form.dtype, target, casting):  # type: ignore[arg-type]
            numpy.empty(0, self.form.dtype).astype(target, casting=casting)  # type: ignore[call-overload]
        if target not in NATIVE:
            return host(self).astype(target, order=order)  # type: ignore[call-overload]
        flags = self.meta.flags
        fits = {"K": True, "A": flags.forc, "C": flags.c_contiguous, "F": flags.f_contiguous}
        if not copy and target == self.form.dtype and fits.get(order):
            return self
        return elementwise.duplicate(self, target, order)

    def item(self, *args: Any) -> Any:
        if not args and self.form.size == 1:
            return host(self).item()
        if self.form.size == 0 or not args:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return host(self).item(*args)

    def tolist(self) -> Any:
        return host(self).tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        return host(self).tobytes(order)

    def fill(self, value: Any) -> None:
        assign.fill(self, value)

    def resize(self, *shape: Any, refcheck: bool = True) -> None:
        wanted = shape[0] if len(shape) == 1 else shape
        if self.owner is not None:
            raise ValueError("cannot resize this array: it does not own its data")
        memory = host(self).copy()
        memory.resize(wanted, refcheck=False)
        fresh = wrap(memory)
        self.storage, self.form, self.part = fresh.storage, fresh.form, fresh.part
        self.meta, self.memory = fresh.meta, fresh.memory

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        if device != "cpu":
            raise ValueError(f"Unsupported device: {device}. Only 'cpu' is accepted.")
        return self

    def conj(self) -> Any:
        return UFUNCS["conjugate"](self) if self.form.name[0] == "c" else self

    def conjugate(self) -> Any:
        return self.conj()

    # -- reductions --------------------------------------------------------------------------------------

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
            initial: Any = _NoValue, where: Any = True) -> Any:
        return folds.reduce("sum", self, axis, dtype, out, keepdims, initial, where)

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
             initial: Any = _NoValue, where: Any = True) -> Any:
        return folds.reduce("prod", self, axis, dtype, out, keepdims, initial, where)

    def min(self, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _NoValue,
            where: Any = True) -> Any:
        return folds.reduce("min", self, axis, None, out, keepdims, initial, where)

    def max(self, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _NoValue,
            where: Any = True) -> Any:
        return folds.reduce("max", self, axis, None, out, keepdims, initial, where)

    def any(self, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
        return folds.reduce("any", self, axis, None, out, keepdims, _NoValue, where)

    def all(self, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
        return folds.reduce("all", self, axis, None, out, keepdims, _NoValue, where)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
             where: Any = True) -> Any:
        return moments.mean_of(self, axis, dtype, out, keepdims, where)

    def var(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: Any = False,
        *,
        where: Any = True,
        mean: Any = _NoValue,
    ) -> Any:
        return moments.variance("var", self, axis, dtype, out, ddof, keepdims, where, mean, _NoValue)

    def std(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: Any = False,
        *,
        where: Any = True,
        mean: Any = _NoValue,
    ) -> Any:
        return moments.variance("std", self, axis, dtype, out, ddof, keepdims, where, mean, _NoValue)

    def ptp(self, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        return reductions.ptp(self, axis, out, keepdims)

    def argmin(self, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        return folds.extreme("argmin", self, axis, out, keepdims)

    def argmax(self, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        return folds.extreme("argmax", self, axis, out, keepdims)

    def cumsum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return folds.scan("cumsum", self, axis, dtype, out)

    def cumprod(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return folds.scan("cumprod", self, axis, dtype, out)

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
    ) -> Any:
        return folds.reduce("sum", self.diagonal(offset, axis1, axis2), -1, dtype, out)

    # -- the rest ----------------------------------------------------------------------------------------

    clip, dot, repeat = by_function("clip"), by_function("dot"), by_function("repeat")
    round = by_function("round")
    take, compress, choose = by_function("take"), by_function("compress"), by_function("choose")
    argsort, argpartition = by_function("argsort"), by_function("argpartition")
    nonzero, searchsorted = by_function("nonzero"), by_function("searchsorted")
    put, sort, partition = by_numpy("put"), by_numpy("sort"), by_numpy("partition")
    byteswap, tofile, dump, dumps = (
        by_numpy("byteswap"),
        by_numpy("tofile", "text"),
        by_numpy("dump", "text"),
        by_numpy("dumps", "text"),
    )
    getfield, setfield, setflags = by_numpy("getfield"), by_numpy("setfield"), by_numpy("setflags")


builtin_type = type
