"""The pending number: the result of a full reduction while its value is still being computed.

It behaves as the NumPy scalar that it will be (immutable, hashable, a `numpy.float64` to `isinstance`);
arithmetic with it is recorded, and only reading the value waits.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable
from functools import wraps
from types import GetSetDescriptorType
from typing import Any

import numpy

from diffuse.numpy.arrays import arithmetic, base, core
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.forms import NATIVE
from diffuse.numpy.arrays.operators import Protocols

SEQUENCES = (list, tuple, str, bytes)
"""Types that an integer repeats by multiplication."""


def described(name: str, found: Callable[[Any], Any]) -> Any:
    """A property with NumPy's error for an assignment, where Python words one of its own."""
    return property(found, lambda self, given: setattr(self.value(), name, given))


def of_value(function: Callable[[Any], Any]) -> Any:
    """A method that waits for the value and passes it to a function."""
    def apply(self: Any) -> Any:
        return function(self.value())

    return apply


class NumberKind(type):
    """The metaclass of pending numbers: one's class stands for NumPy's class of its element type, whose
    objects are instances, too.

    It equals NumPy's class, while tables of types tell the two apart by the hash, which is that of any class.
    """

    _number: type[numpy.generic]
    """NumPy's class."""

    def __repr__(cls) -> str:
        return repr(cls._number)

    def __eq__(cls, kind: object) -> bool:
        return True if kind is cls._number else super().__eq__(kind)

    __hash__ = type.__hash__

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls._number)

    def __subclasscheck__(cls, kind: type) -> bool:
        """Either of `kind` and NumPy's class may derive from the other: `statistics.mean` asks both ways, and
        Python cannot be told that the class of a pending number derives from `float`."""
        return issubclass(kind, cls._number) or issubclass(cls._number, kind)

    @property
    def dtype(cls) -> numpy.dtype[Any]:
        """The element type, which `numpy.dtype` asks a class for."""
        return numpy.dtype(cls._number)


class scalar(Protocols, arithmetic.Operators, metaclass=NumberKind):
    """A 0-d result that is not computed yet, with the behaviour of a NumPy scalar."""

    __slots__ = ()
    _number = numpy.generic

    def __new__(cls, *values: Any, **options: Any) -> Any:
        """Convert a value, for code that uses a number's type to convert others."""
        return cls._number(*values, **options)

    @staticmethod
    def of(x: Any) -> Any:
        """Make the pending number over the store of a fresh 0-d array."""
        found = core.Array.__new__(PENDING[x.form.dtype])
        found.storage, found._form, found.part, found.meta = x.storage, x._form, x.part, x.meta
        found.memory = found.owner = None
        return found

    __class__: Any = property(lambda self: self.form.dtype.type)
    dtype: Any = described("dtype", lambda self: self.form.dtype)
    itemsize: Any = described("itemsize", lambda self: self.form.dtype.itemsize)
    nbytes: Any = described("nbytes", lambda self: self.form.dtype.itemsize)
    shape, ndim = described("shape", lambda self: ()), described("ndim", lambda self: 0)
    size = described("size", lambda self: 1)

    def value(self) -> Any:
        """The NumPy scalar; waits for it."""
        return host(self)[()]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__array_"):
            raise AttributeError(name)
        return getattr(self.value(), name)

    def __getitem__(self, index: Any) -> Any:
        """Index with `()`, `...` or None; NumPy's IndexError for anything else."""
        return self.value()[index]

    __iter__ = None  # Python would iterate from index 0 on, while NumPy's scalars are not iterable

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, SEQUENCES):
            return self.value() * other
        return arithmetic.Operators.__mul__(self, other)

    def __rmul__(self, other: Any) -> Any:
        if isinstance(other, SEQUENCES):
            return other * self.value()
        return arithmetic.Operators.__rmul__(self, other)

    def __radd__(self, other: Any) -> Any:
        if isinstance(other, (str, bytes)):  # to which no number is added
            return other + self.value()
        return arithmetic.Operators.__radd__(self, other)

    def __matmul__(self, other: Any) -> Any:
        return self.value() @ other

    def __rmatmul__(self, other: Any) -> Any:
        return other @ self.value()

    def __conform__(self, protocol: Any) -> Any:
        """The value, for `sqlite3`, which adapts what it does not know by this method."""
        return self.value()

    __float__, __int__, __complex__ = of_value(float), of_value(int), of_value(complex)
    __bool__ = of_value(bool)
    __repr__, __str__, __trunc__ = of_value(repr), of_value(str), of_value(math.trunc)

    def __format__(self, spec: str) -> str:
        return format(self.value(), spec)

    def __hash__(self) -> int:
        """The value's hash; NaN, which equals nothing, is found by the object that it is."""
        value = self.value()
        return hash(value) if value == value else object.__hash__(self)

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.value()) if digits is None else round(self.value(), digits)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.value().__reduce_ex__(protocol)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __buffer__(self, flags: int) -> Any:
        """Python's buffer protocol, from 3.12 on; the extension provides it for all versions."""
        return base.buffer(self, flags).data

    def __reduce__(self) -> Any:
        return self.value().__reduce__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        base.raise_postponed(self)
        return numpy.asarray(self.value(), dtype)


for _name, _found in vars(numpy.generic).items():
    if type(_found) is GetSetDescriptorType and not _name.startswith("__") and _name not in vars(scalar):
        setattr(scalar, _name, described(_name, of_value(operator.attrgetter(_name))))


def _after_complex(name: str) -> Any:
    """A reflected operator of a pending float64, which is a float to Python: its own complex numbers compute
    with it, and give one of Python's."""
    plain, computed = getattr(scalar, f"__r{name}__"), getattr(complex, f"__{name}__")

    def apply(self: Any, other: Any, *modulus: Any) -> Any:
        if type(other) is complex and not modulus:
            return computed(other, float(self.value()))
        return plain(self, other, *modulus)

    return apply


def _kind(number: type[numpy.generic]) -> Any:
    """The class of pending numbers that stand for numbers of one of NumPy's classes."""
    members: dict[str, Any] = {"__slots__": (), "__doc__": number.__doc__, "__module__": "numpy",
                               "_number": number}
    if issubclass(number, numpy.integer):
        members["__index__"] = of_value(operator.index)
    if number is numpy.float64:
        names = "add", "sub", "mul", "truediv", "pow"
        members.update({f"__r{name}__": _after_complex(name) for name in names})
    return NumberKind(number.__name__, (scalar,), members)


PENDING: dict[numpy.dtype[Any], Any] = {dtype: _kind(dtype.type) for dtype in NATIVE}
"""The classes of pending numbers of each element type."""


def settled(value: Any) -> Any:
    """Replace pending numbers in `value` by numbers, at any depth of dicts, lists and tuples."""
    if type(value) in core.PENDING:
        return value.value()
    if type(value) is dict:
        return {settled(k): settled(v) for k, v in value.items()}
    return [settled(v) for v in value] if type(value) in (list, tuple) else value


def _encode_values() -> None:
    """Let Python's JSON encoder, which inspects objects in C, find the values of pending numbers."""
    encoder: Any = json.JSONEncoder
    plain = encoder.iterencode

    @wraps(plain)
    def iterencode(self: json.JSONEncoder, o: Any, _one_shot: bool = False) -> Any:
        return plain(self, settled(o), _one_shot)

    encoder.iterencode = iterencode


_encode_values()
