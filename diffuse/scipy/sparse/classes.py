"""The classes: csr_array, csc_array, coo_array, dia_array, bsr_array, lil_array, dok_array and the matrices.

Each derives from SciPy's class of its name, so that `issparse` and other libraries know it.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

import numpy
import scipy.sparse

from diffuse.numpy.arrays import access, core
from diffuse.numpy.arrays.core import Array
from diffuse.scipy.sparse import checks, conversion, matmul, parts
from diffuse.scipy.sparse.arithmetic import Arithmetic, recordable, scalar, shrinks
from diffuse.scipy.sparse.delegation import REFLECTED, Common, delegate, named
from diffuse.scipy.sparse.reductions import Reductions
from diffuse.scipy.sparse.state import CLASSES, NUMBERS, SLOTS, Name, fetched, made, put, stand_in

ARRAYS = {"csr": 3, "csc": 3, "bsr": 3, "coo": 2, "dia": 2}
"""For each format, the length of the tuple of values and structure that its constructor takes."""


class SparseType(ABCMeta):
    """The metaclass of our classes: instances of SciPy's own matrix classes, which libraries return, pass for
    instances of ours."""

    def __instancecheck__(cls, value: Any) -> bool:
        return cls.__subclasscheck__(type(value))

    def __subclasscheck__(cls, kind: type) -> bool:
        order = kind.__mro__
        return cls in order or vars(cls).get("_scipys") in order


class Product(Common):
    """Products, which SciPy's arrays write as `@` and its matrices also as `*`."""

    def _matmul_dispatch(self, other: Any) -> Any:
        return self._mul_scalar(other) if scalar(other) else matmul.matmul(self, other)

    def _rmatmul_dispatch(self, other: Any) -> Any:
        return self._mul_scalar(other) if scalar(other) else matmul.rmatmul(self, other)

    def __matmul__(self, other: Any) -> Any:
        if scalar(other):
            return conversion.method(self, "__matmul__", other)
        return matmul.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        if scalar(other):
            return conversion.method(self, "__rmatmul__", other)
        if scipy.sparse.issparse(other):
            return conversion.call(REFLECTED["__rmatmul__"], (other, self), {}, "__rmatmul__")
        return matmul.rmatmul(self, other)

    def __pow__(self, other: Any, *options: Any) -> Any:
        if isinstance(self, scipy.sparse.spmatrix):  # a product of matrices
            return conversion.method(self, "__pow__", other, *options)
        return self.power(other, *options)

    def dot(self, other: Any) -> Any:
        if self._held.format == "coo" and (self._held.ndim != 2 or numpy.ndim(getattr(other, "meta", 0)) > 2
                                           or not isinstance(other, Array)):
            return conversion.method(self, "dot", other)
        return self * other if numpy.isscalar(other) or type(other) in core.PENDING else self @ other


class ArrayLike(Product):
    """Formats whose values are one array: operations on them are recorded."""

    @property
    def T(self) -> Any:
        return self.transpose()

    @property
    def real(self) -> Any:
        return self._real()

    @property
    def imag(self) -> Any:
        return self._imag()

    @property
    def data(self) -> Any:
        return self._shown("data")

    @data.setter
    def data(self, value: Any) -> None:
        self._replace("data", value)

    def transpose(self, axes: Any = None, copy: bool = False) -> Any:
        held = self._held
        if held.format not in ("csr", "csc", "coo") or held.ndim != 2 or copy or axes is not None \
                or not recordable(self) or shrinks(self):
            return conversion.method(self, "transpose", axes=axes, copy=copy)
        if parts.apart(self):
            return parts.transposed(self)
        held = self._structured()
        found = made(held.transpose())
        for name in found._part_names():
            theirs = name if isinstance(name, str) else 1 - name
            part = self._part(theirs)
            if isinstance(part, Array):
                found._parts[name] = part
                if theirs in self._read and fetched(found._held, name) is part.memory:
                    found._read[name] = self._read[theirs]
        if self._checked is not None:
            was = self._checked
            put(found, "_checked", was if held.format != "coo" else (*was[1::-1], was[2]))
        put(found, "_kept", self._kept)
        return found

    def __mul__(self, other: Any) -> Any:
        if isinstance(self, scipy.sparse.spmatrix):
            return self._matmul_dispatch(other)
        return self.multiply(other)

    def __rmul__(self, other: Any) -> Any:
        if scipy.sparse.issparse(other):
            return conversion.call(REFLECTED["__rmul__"], (other, self), {}, "__rmul__")
        if isinstance(self, scipy.sparse.spmatrix):
            return self._rmatmul_dispatch(other)
        return self.multiply(other)

    def conj(self, copy: bool = True) -> Any:
        return self.conjugate(copy=copy)

    def multiply(self, other: Any) -> Any:
        return self._mul_scalar(other) if scalar(other) else conversion.method(self, "multiply", other)


class ValueArray(ArrayLike, Arithmetic, Reductions):
    pass


class Listed(Product):
    """Formats that keep values one by one, in Python lists or dictionaries."""

    def power(self, n: Any, dtype: Any = None) -> Any:
        return self.tocsr().power(n, dtype=dtype)


def _attribute(name: str) -> property:
    def get(self: Any) -> Any:
        return self._shown(name)

    def put(self: Any, value: Any) -> None:
        self._replace(name, value)

    return property(get, put)


class Compressed(ValueArray):
    _names: tuple[Name, ...] = ("data", "indices", "indptr")
    indices, indptr = _attribute("indices"), _attribute("indptr")


class Diagonal(ValueArray):
    _names: tuple[Name, ...] = ("data", "offsets")
    offsets = _attribute("offsets")


class Coordinate(ValueArray):
    def _part_names(self) -> tuple[Name, ...]:
        return ("data", *range(len(self._held.coords)))

    @property
    def coords(self) -> Any:
        return tuple([self._shown(k) for k in range(len(self._held.coords))])

    @coords.setter
    def coords(self, value: Any) -> None:
        lowering = conversion.Lowering()
        for k in [k for k in self._parts if k != "data"]:
            del self._parts[k]
        self._held.coords = tuple(lowering.lowered(list(value)))
        lowering.connect(self)

    @property
    def row(self) -> Any:
        if self._held.ndim > 1:
            return self._shown(self._held.ndim - 2)
        return conversion.call(lambda held: held.row, (self,), {}, "row")

    @row.setter
    def row(self, value: Any) -> None:
        if self._held.ndim < 2:
            raise ValueError("cannot set row attribute of a 1-dimensional sparse array")
        self._axis(self._held.ndim - 2, value)

    @property
    def col(self) -> Any:
        return self._shown(self._held.ndim - 1)

    @col.setter
    def col(self, value: Any) -> None:
        self._axis(self._held.ndim - 1, value)

    def _axis(self, name: int, value: Any) -> None:
        import diffuse.numpy as np

        self._replace(name, np.asarray(value, dtype=fetched(self._held, name).dtype))


KINDS: dict[str, type] = {"csr": Compressed, "csc": Compressed, "bsr": Compressed, "dia": Diagonal,
                          "coo": Coordinate, "lil": Listed, "dok": Listed}


def build(self: Any, real: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Initialise a matrix as SciPy's constructor does; values that are not computed yet stay lazy."""
    if parts.build(self, real, args, kwargs):
        return
    lowering = conversion.Lowering()
    given = {**dict(zip(("arg1", "shape", "dtype", "copy", "blocksize"), args, strict=False)), **kwargs}
    stored = given.get("arg1")
    put(self, "_held", None)
    values = _pending(self._format, given)
    if values is not None:
        values = values if given.get("dtype") is None else values.astype(given["dtype"], copy=False)
        values = values.copy() if given.get("copy") else values
        args, kwargs = (), {**given, "arg1": (stand_in(values), *given["arg1"][1:])}
    self._become(real(*[lowering.lowered(v) for v in args],
                      **{key: lowering.lowered(v) for key, v in kwargs.items()}))
    if values is not None:
        shape = self._held.data.shape
        if shape != values.shape:  # one diagonal, or elements past the last position
            values = values.reshape(shape) if self._format == "dia" else values[:shape[0]]
        self._parts["data"] = values
    lowering.connect(self)
    if self._format in ("csr", "csc") and isinstance(stored, tuple) and len(stored) == 3:
        checks.check(self)


def _pending(form: str, given: dict[str, Any]) -> Any:
    """The given values, if they are not computed yet and SciPy need not see them; else None."""
    stored, dtype = given.get("arg1"), given.get("dtype")
    if type(stored) is not tuple or len(stored) != ARRAYS.get(form):
        return None
    values = stored[0]
    if type(values) is not core.array_class or access.ready(values) or values.dtype.char not in NUMBERS:
        return None
    return values if dtype is None or numpy.dtype(dtype).char in NUMBERS else None


def _class(name: str) -> type:
    """Make our class of this name."""
    real: Any = getattr(scipy.sparse, name)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, real, args, kwargs)

    members = {"__slots__": SLOTS, "_scipys": real, "__init__": named(__init__, real.__init__),
               "__doc__": real.__doc__, "__module__": "diffuse.scipy.sparse", "__qualname__": name}
    ours = SparseType(name, (KINDS[name[:3]], real), members)
    CLASSES[real] = ours
    delegate(ours, real)
    return ours


NAMES = {name: _class(name) for name in [f"{form}_{kind}" for form in KINDS for kind in ("array", "matrix")]}
"""The classes by name."""
