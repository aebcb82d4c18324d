"""New values for the same structure: scaling, casts and zero-preserving functions, recorded like other
operations.

Source: SciPy's `_data_matrix`, whose methods return a matrix with copies of the indices.  Methods that first
sum duplicates do so here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import scipy.sparse

import diffuse.numpy as np
from diffuse.numpy.arrays import core
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.ops import elementwise, rules
from diffuse.numpy.ops.operands import wrap
from diffuse.scipy.sparse import checks, conversion
from diffuse.scipy.sparse.state import NUMBERS, Kept, Sparse, made, put, shell, stand_in

FUNCTIONS = """sin tan arcsin arctan sinh tanh arcsinh arctanh rint sign expm1 log1p deg2rad rad2deg floor
ceil trunc sqrt""".split()
"""NumPy's functions with f(0) = 0, which are methods of sparse arrays."""


def scalar(x: Any) -> bool:
    """Is `x` a scalar operand: a number of Python's or NumPy's, a pending number, or a 0-d Diffuse array?"""
    kind = type(x)
    if kind in core.ARRAYS:
        return not x.form.ndim
    return kind in rules.WEAK or kind in rules.STRONG


def recordable(a: Sparse) -> bool:
    """Can an operation on the values be recorded?"""
    values = a._part("data")
    if not isinstance(values, Array) or values.form.dtype.char not in NUMBERS:
        return False
    if a._held.format == "dia":
        return values.form.ndim == 2
    rest = {name: a._part(name) for name in a._part_names() if name != "data"}
    return all(values.form.shape[0] == len(part) for name, part in rest.items() if name != "indptr")


def shrinks(a: Sparse) -> bool:
    """Would SciPy convert a new matrix to smaller indices if they fit?  (Its arrays keep theirs.)"""
    return isinstance(a, scipy.sparse.spmatrix) and any(
        a._part(name).dtype.itemsize > 4 for name in a._part_names() if name != "data")


def canonical(a: Sparse) -> bool:
    """Is the matrix free of duplicates?"""
    return a._held.format == "dia" or bool(a._structured().has_canonical_format)


def deduplicated(a: Sparse) -> bool:
    """Can an operation be recorded on values without duplicates?  Sums duplicates in the matrix itself first,
    as SciPy's methods do."""
    if not recordable(a):
        return False
    if not canonical(a):
        conversion.method(a, "sum_duplicates")
    return True


def with_values(a: Sparse, values: Any) -> Any:
    """A matrix with a copy of the structure and other values."""
    if shrinks(a):
        held = a._structured()._with_data(stand_in(values), copy=True)
        count = held.data.shape[0]  # SciPy cuts off what lies past the last position
        return made(held, {"data": values if values.shape[0] == count else values[:count]})
    held = shell(a._held)
    parts = {name: _copy(a._part(name)) for name in a._part_names() if name != "data"}
    held.data = stand_in(values)
    found = made(held, {"data": values, **parts})
    inherit(a, found)
    return found


def inherit(a: Sparse, found: Any) -> None:
    """Copy facts known about the structure of `a` to a matrix with the same structure."""
    if a._held.ndim != 2:
        return
    names = checks.STRUCTURE[a._held.format]
    stamp = a._stamp(*names)
    if a._checked == checks.stamp(a):
        put(found, "_checked", checks.stamp(found))
    order = a._kept.get("order")
    if order is not None and order.stamp == stamp:
        found._kept["order"] = Kept(found._stamp(*names), order.value)


def _copy(part: Any) -> Any:
    return elementwise.duplicate(part) if isinstance(part, Array) else part.copy()


def _plain_values(values: Any) -> bool:
    return isinstance(values, Array) and values.form.dtype.char in NUMBERS


def mapped(a: Sparse, function: Callable[[Any], Any]) -> Any:
    """The matrix of `function(values)`, or None if SciPy has to handle the element types."""
    values = wrap(function(a._part("data")))
    return with_values(a, values) if _plain_values(values) else None


class Arithmetic(Sparse):
    """Methods of formats whose values are one array."""

    def _mul_scalar(self, other: Any) -> Any:
        if scalar(other) and recordable(self):
            found = mapped(self, lambda values: values * other)
            if found is not None:
                return found
        return conversion.method(self, "_mul_scalar", other)

    def __truediv__(self, other: Any) -> Any:
        if not scalar(other) or not recordable(self):
            return conversion.method(self, "__truediv__", other)
        if numpy.can_cast(self.dtype, numpy.float64):
            return self.astype(numpy.float64, copy=False)._mul_scalar(1 / other)
        return self._mul_scalar(1 / other)

    def __neg__(self) -> Any:
        if recordable(self) and self.dtype.kind != "b":
            return mapped(self, lambda values: -values)
        return conversion.method(self, "__neg__")

    def __abs__(self) -> Any:
        return mapped(self, abs) if deduplicated(self) else conversion.method(self, "__abs__")

    def _in_place(self, name: str, other: Any, function: Callable[[Any], Any]) -> Any:
        if scalar(other) and recordable(self):
            self._replace("data", function(self._shown("data")))
            return self
        return conversion.method(self, name, other)

    def __imul__(self, other: Any) -> Any:
        return self._in_place("__imul__", other, lambda values: values.__imul__(other))

    def __itruediv__(self, other: Any) -> Any:
        return self._in_place("__itruediv__", other, lambda values: values.__imul__(1.0 / other))

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> Any:
        wanted = numpy.dtype(dtype)
        if wanted == self.dtype:
            return self.copy() if copy else self
        if wanted.char in NUMBERS and recordable(self) and canonical(self):
            return mapped(self, lambda values: values.astype(wanted, casting=casting, copy=True))
        return conversion.method(self, "astype", dtype, casting=casting, copy=copy)

    def copy(self) -> Any:
        return mapped(self, _copy) if recordable(self) else conversion.method(self, "copy")

    def conjugate(self, copy: bool = True) -> Any:
        if self.dtype.kind != "c":
            return self.copy() if copy else self
        found = mapped(self, lambda values: values.conj()) if copy and recordable(self) else None
        return conversion.method(self, "conjugate", copy=copy) if found is None else found

    def power(self, n: Any, dtype: Any = None) -> Any:
        number = type(n) in rules.WEAK or type(n) in rules.STRONG
        if number and n and (dtype is None or numpy.dtype(dtype).char in NUMBERS) and deduplicated(self):
            found = mapped(self, lambda values: (values if dtype is None else values.astype(dtype)) ** n)
            if found is not None:
                return found
        return conversion.method(self, "power", n, dtype=dtype)

    def _component(self, name: str) -> Any:
        if self.dtype.kind == "c" and recordable(self):
            return mapped(self, lambda values: getattr(values, name).copy())
        return conversion.method(self, "_" + name)

    def _real(self) -> Any:
        return self._component("real")

    def _imag(self) -> Any:
        return self._component("imag")

    @property
    def dtype(self) -> Any:
        return self._part("data").dtype

    @dtype.setter
    def dtype(self, kind: Any) -> None:
        self._replace("data", self._part("data").view(kind))


def _function(name: str) -> Callable[[Any], Any]:
    def apply(self: Any) -> Any:
        found = mapped(self, getattr(np, name)) if deduplicated(self) else None
        return conversion.method(self, name) if found is None else found

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Element-wise {name}; see `numpy.{name}`."
    return apply


for _name in FUNCTIONS:
    setattr(Arithmetic, _name, _function(_name))
