"""Python's operators on arrays and pending numbers: `a + b` calls the ufunc that NumPy would call.

An operand of another library to which NumPy would defer handles the operator here, too: with the array itself
if it supports that, else with NumPy's array over the same memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy
from numpy._core import _exceptions as _core_exceptions

from diffuse.numpy.arrays import arithmetic, core
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.core import ARRAYS, Array
from diffuse.numpy.bridge import overrides
from diffuse.numpy.ops import (
    elementwise,
    products,  # noqa: F401 (registers its `matmul` as the ufunc)
)
from diffuse.numpy.ops.elementwise import inplace, unary
from diffuse.numpy.ops.operands import PLAIN, adopt, wrap
from diffuse.numpy.ops.powers import raised
from diffuse.numpy.ops.ufuncs import UFUNCS, ufunc
from diffuse.numpy.small import native

SYMBOLS = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv",
           "floor_divide": "floordiv", "remainder": "mod", "power": "pow", "matmul": "matmul",
           "left_shift": "lshift", "right_shift": "rshift", "bitwise_and": "and", "bitwise_or": "or",
           "bitwise_xor": "xor", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
           "equal": "eq", "not_equal": "ne"}
"""Python's names of operators, by ufunc."""

MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
"""For each comparison, the equivalent one with exchanged operands."""


SCALARS = -1000000.0
"""The priority of NumPy's scalars, which is that of operands that name none."""


def defers(other: Any, inplace: bool = False) -> bool:
    """Does an operand of another library handle the operator itself?  (NumPy's rule.)  Not an operator
    `inplace`, if it has `__array_ufunc__`."""
    kind = type(other)
    if kind in PLAIN or kind in ARRAYS:
        return False
    protocol = getattr(kind, "__array_ufunc__", numpy._NoValue)
    if protocol is not numpy._NoValue:
        return protocol is None and not inplace
    return not issubclass(kind, Array) and _priority(other) > 0.0


def _priority(other: Any) -> float:
    """Return an operand's `__array_priority__`, or the priority of NumPy's scalars if it is missing or cannot
    be converted to a number."""
    try:
        return float(getattr(other, "__array_priority__", SCALARS))
    except Exception:  # NumPy, too, passes over what this raises
        return SCALARS


def answers(other: Any) -> bool:
    """Does an operand of a type that is not PLAIN handle operators?  NumPy's subclasses (`numpy.matrix`) do:
    Python calls the derived class first."""
    return isinstance(other, numpy.ndarray) or defers(other)


def answered(name: str, self: Any, other: Any, turned: bool = False) -> Any:
    """Evaluate `self op other` (`turned`: `other op self`) by the other library's operand."""
    symbol = SYMBOLS[name]
    if not isinstance(other, numpy.ndarray):
        theirs = symbol if turned else MIRRORED.get(symbol, "r" + symbol)
        method = getattr(type(other), f"__{theirs}__", None)
        if overrides.knows_ours(method):
            return NotImplemented
        # 0-d arrays as NumPy's: SciPy's matrices accept no others as scalars
        found = NotImplemented if method is None else method(other, self if self.ndim else host(self))
        if found is not NotImplemented:
            return found
    memory: Any = host(self)
    plain = memory if type(self) is core.array_class else memory[()]
    function = getattr(operator, f"__{symbol}__")
    return wrap(function(other, plain) if turned else function(plain, other))


def as_number(self: Any, other: Any) -> bool:
    """Is it a pending number beside an operand of a type that no ufunc knows?  Python's operator on its value
    decides then, as on a number of NumPy's."""
    return type(self) in core.PENDING and type(other) not in ARRAYS and type(other) not in PLAIN


def forward(name: str, self: Any, other: Any) -> Any:
    """`self op other`, for the ufunc of this name."""
    if as_number(self, other):
        return getattr(operator, f"__{SYMBOLS[name]}__")(host(self)[()], other)
    if type(other) in ARRAYS or type(other) in PLAIN or not answers(other):
        if name == "matmul":  # which is no elementwise operation: no views to look up
            return UFUNCS[name].general((self, other))
        return elementwise.first_binary(UFUNCS[name], self, other)
    return answered(name, self, other)


def reflected(name: str, self: Any, other: Any) -> Any:
    """`other op self`."""
    if as_number(self, other):
        return getattr(operator, f"__{SYMBOLS[name]}__")(other, host(self)[()])
    if type(other) in PLAIN or not answers(other):
        return elementwise.first_binary(UFUNCS[name], other, self)
    return answered(name, self, other, turned=True)


def update(name: str, self: Any, other: Any) -> Any:
    """`self op= other`, for the ufunc of this name."""
    if defers(other, True):
        return NotImplemented
    simpler = simpler_power(self, other) if name == "power" else None
    return inplace(UFUNCS[name], self, other) if simpler is None else simpler(self, out=self)


def simpler_power(base_array: Any, exponent: Any) -> ufunc | None:
    """The unary ufunc that computes `**` with this exponent, or None for `power`."""
    if type(exponent) is int and exponent == 2:
        return UFUNCS["square"]
    if base_array.form.dtype.kind in "fc":
        if type(exponent) is int and exponent == -1:
            return UFUNCS["reciprocal"]
        if type(exponent) is float and exponent == 0.5:
            return UFUNCS["sqrt"]
    return raised(base_array, exponent)


def equality(name: str, self: Any, other: Any) -> Any:
    """`==` and `!=`, which also compare operands that no ufunc compares."""
    try:
        return forward(name, self, other)
    except (numpy.exceptions.DTypePromotionError, _core_exceptions._UFuncNoLoopError):
        mine: Any = host(self) if self.form.ndim else host(self)[()]
        found = getattr(mine, "__eq__" if name == "equal" else "__ne__")(other)
        return adopt(found)


def power(self: Any, other: Any) -> Any:
    """`self ** other`."""
    if as_number(self, other):
        return host(self)[()] ** other
    if type(other) not in ARRAYS and type(other) not in PLAIN and answers(other):
        return answered("power", self, other)
    if type(self) in core.PENDING and self.form.dtype.kind == "b":
        return host(self)[()] ** other  # NumPy's rule for truth values is another one than that of arrays
    simpler = simpler_power(self, other)
    function = UFUNCS["power"]
    return elementwise.binary(function, self, other) if simpler is None else unary(simpler, self)


def alone(name: str, self: Any) -> Any:
    """Unary operators such as `-self`."""
    return elementwise.first_unary(UFUNCS[name], self)


core.slow.forward, core.slow.reflected, core.slow.equality = forward, reflected, equality
core.slow.alone, core.slow.power, core.slow.update = alone, power, update


@cache
def _interop() -> Any:
    """The module of NumPy's protocols, which imports all others."""
    from diffuse.numpy.bridge import interop

    return interop


REFLECTED: dict[Any, Callable[[Any, Any], Any]] = {
    numpy.add: arithmetic.Operators.__radd__, numpy.subtract: arithmetic.Operators.__rsub__,
    numpy.multiply: arithmetic.Operators.__rmul__, numpy.divide: arithmetic.Operators.__rtruediv__}
"""For NumPy's ufuncs, the functions that compute `number op array`, also for NumPy's arrays."""


class Protocols:
    """`divmod`, and NumPy's protocols for operands of other libraries."""

    __slots__ = ()

    __array_priority__ = 0.0

    def __divmod__(self: Any, other: Any) -> Any:
        if as_number(self, other):
            return divmod(host(self)[()], other)
        return NotImplemented if defers(other) else UFUNCS["divmod"](self, other)

    def __rdivmod__(self: Any, other: Any) -> Any:
        if as_number(self, other):
            return divmod(other, host(self)[()])
        return NotImplemented if defers(other) else UFUNCS["divmod"](other, self)

    def __array_ufunc__(self, ufunc: numpy.ufunc, method: str, /, *inputs: Any, **kwargs: Any) -> Any:
        """Compute one of NumPy's ufuncs that NumPy's arrays or scalars, or a library, called."""
        if method == "__call__":
            first: Any = type(inputs[0])
            if not kwargs and len(inputs) == 2 and (first is core.NDARRAY or first in core.NUMBERS):
                reflected = REFLECTED.get(ufunc)  # Python's operator on NumPy's array or number and ours
                if reflected is not None:
                    return reflected(inputs[1], inputs[0])
            if ufunc is numpy.matmul and not kwargs:
                found = arithmetic.product(*inputs)
            else:
                found = arithmetic.called(ufunc, inputs, kwargs)
            if found is not None:
                return found
        return _interop().array_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _interop().array_function(func, types, args, kwargs)


core.slow.array_ufunc = Protocols.__array_ufunc__
if native is not None:
    setattr(Protocols, "__array_ufunc__", native.Array.__array_ufunc__)
