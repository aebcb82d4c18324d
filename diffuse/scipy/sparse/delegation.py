"""Wraps methods of SciPy's classes: converts arguments, calls the held SciPy object, and converts results.

The wrappers are generated from SciPy's own classes, so that they include what later releases of SciPy add.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import update_wrapper
from types import FunctionType
from typing import Any

import scipy.sparse

from diffuse.scipy.sparse import conversion
from diffuse.scipy.sparse.state import Sparse, made, own, shell

KEPT = frozenset("""__init__ __new__ __dict__ __weakref__ __doc__ __module__ __slots__ __init_subclass__
__subclasshook__ __hash__ __abstractmethods__ __class_getitem__ __setstate__ __getstate__ __reduce__
__reduce_ex__ __iter__ __annotations__ __static_attributes__ __firstlineno__ __parameters__""".split())
"""Names that are not delegated to the held object."""

DESCRIBING = frozenset("""__repr__ nnz size _getnnz getnnz ndim shape format getformat get_shape getmaxprint
_getmaxprint has_sorted_indices has_canonical_format __len__ __bool__ _shape_as_2d""".split())
"""Methods and properties that need the structure only, and do not wait for values."""

REFLECTED = {"__radd__": operator.add, "__rsub__": operator.sub, "__rmul__": operator.mul,
             "__rmatmul__": operator.matmul, "__rtruediv__": operator.truediv}


def delegate(ours: type, real: type) -> None:
    """Add a wrapper to one of our classes for each method and property of SciPy's class that ours lacks."""
    own = {name for kind in ours.__mro__ if kind.__module__.startswith("diffuse.") for name in vars(kind)}
    for kind in real.__mro__:
        if not kind.__module__.startswith("scipy."):
            continue
        for name, value in vars(kind).items():
            if name in KEPT or name in own:
                continue
            if isinstance(value, FunctionType):
                setattr(ours, name, _method(name, value))
            elif isinstance(value, property):
                setattr(ours, name, _property(name, value))
            else:
                continue
            own.add(name)


def _method(name: str, real: FunctionType) -> Callable[..., Any]:
    def run(self: Sparse, *args: Any, **kwargs: Any) -> Any:
        if name in DESCRIBING and not args and not kwargs:
            return getattr(self._structured(False), name)()
        return conversion.method(self, name, *args, **kwargs)

    def reflect(self: Sparse, other: Any) -> Any:
        if scipy.sparse.issparse(other):  # SciPy's own, to the left of a class derived from it
            return conversion.call(REFLECTED[name], (other, self), {}, name)
        return conversion.method(self, name, other)

    return named(reflect if name in REFLECTED else run, real)


def named(function: Callable[..., Any], real: Any) -> Callable[..., Any]:
    """Give a wrapper the name, signature and documentation of SciPy's function."""
    return update_wrapper(function, real, ("__name__", "__qualname__", "__doc__"), ())


def _property(name: str, real: property) -> property:
    def get(self: Sparse) -> Any:
        if name in DESCRIBING:
            return getattr(self._structured(False), name)
        return conversion.call(lambda held: getattr(held, name), (self,), {}, name)

    def put(self: Sparse, value: Any) -> None:
        conversion.call(lambda held, new: setattr(held, name, new), (self, value), {}, "set " + name)

    return property(get, put if real.fset is not None else None, None, real.__doc__)


class Common(Sparse):
    """The common methods of sparse arrays of all formats."""

    def __iter__(self) -> Iterator[Any]:
        lowering = conversion.Lowering()
        return (lowering.raised(row) for row in lowering.lowered(self))

    def __copy__(self) -> Any:
        for name in self._part_names():
            self._part(name)  # one store for the memory that both have
        return self._with_own(made(shell(self.plain()), dict(self._parts), type(self)), own(self))

    def __deepcopy__(self, memo: Any) -> Any:
        from copy import deepcopy

        return self._with_own(made(deepcopy(self.plain(), memo), None, type(self)), deepcopy(own(self), memo))

    def _with_own(self, found: Any, attributes: dict[str, Any]) -> Any:
        own(found).update(attributes)
        return found

    def __reduce_ex__(self, protocol: Any) -> Any:
        return made, (self.plain(), None, type(self)), own(self) or None

    def __reduce__(self) -> Any:
        return self.__reduce_ex__(2)

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        own(self).update(attributes)
