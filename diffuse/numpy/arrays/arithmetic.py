"""Python's operators, and NumPy's ufuncs, on small arrays: by NumPy, at once, on the memory of the arrays.

Arrays that are not small, or not at hand, go to the functions of `core.slow`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any, TypeVar

import numpy

from diffuse.library import Bounded
from diffuse.numpy.arrays import core
from diffuse.numpy.arrays.access import near_to_write, number_or_near
from diffuse.numpy.arrays.core import NDARRAY, Array, given, slow
from diffuse.numpy.small import native

MOVING: set[Any] = set()
"""NumPy's ufuncs that some line of the program calls on other views each time (ops/moving.py), which is
therefore tried first."""
GRANTS: dict[tuple[Any, ...], tuple[Any, ...]] = Bounded(1 << 10)
"""For ufuncs in `MOVING`, what the extension may decide without Python code: how many calls on the same
views, and for which operand types; an empty tuple if all calls are recorded.  The key is NumPy's ufunc, and
the program's instruction as the identity of its code and the offset there."""


def spreads(left: Any, right: Any) -> bool:
    """Does the result of two small arrays exceed the size of small arrays?"""
    if type(left) is not NDARRAY or type(right) is not NDARRAY or left.shape == right.shape:
        return False
    if left.size * right.size < core.SMALL:
        return False
    try:
        return bool(numpy.broadcast(left, right).size >= core.SMALL)
    except ValueError:  # NumPy's function raises the error
        return False


def binary(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Call NumPy's function on two operands that are small and at hand, or record the operation again if it
    was recorded on these views before; None if neither."""
    if type(a) is not core.array_class or a.meta.size < core.SMALL:
        left = number_or_near(a)
        if left is not None:
            right = number_or_near(b)
            if right is not None and (type(right) is not NDARRAY or not spreads(left, right)):
                found = function(left, right)
                return given(found) if type(found) is NDARRAY else found
    return None if function in MOVING else slow.known(function, a, b)


def product(a: Any, b: Any) -> Any:
    """Compute a matrix product by NumPy; None unless both operands and the result are small."""
    left = number_or_near(a)
    if left is None:
        return None
    right = number_or_near(b)
    if right is None:
        return None
    if type(left) is NDARRAY and type(right) is NDARRAY and left.size * right.size >= core.SMALL:
        rows, columns = left.shape[-2:-1], right.shape[-1:] if right.ndim > 1 else ()
        try:
            stack = numpy.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        except ValueError:  # NumPy's function raises the error
            stack = ()
        if prod(stack) * prod(rows) * prod(columns) >= core.SMALL:
            return None
    found = numpy.matmul(left, right)
    return given(found) if type(found) is NDARRAY else found


UFUNCS: set[Any] = {found for found in vars(numpy).values()
                    if isinstance(found, numpy.ufunc) and found.nout == 1 and found.signature is None}
"""NumPy's elementwise ufuncs with one result."""


def called(function: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Compute a ufunc that NumPy's arrays or scalars called with Diffuse arrays among the operands.

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
        return function(*values, out=out) if type(out) is NDARRAY and out.size < core.SMALL else None
    found = function(*values)
    return given(found) if type(found) is NDARRAY else found


def unary(function: Callable[[Any], Any], a: Any) -> Any:
    """Call NumPy's function on one operand, under the conditions of `binary`."""
    if type(a) is not core.array_class or a.meta.size < core.SMALL:
        memory = number_or_near(a)
        if memory is not None:
            found = function(memory)
            return given(found) if type(found) is NDARRAY else found
    return None if function in MOVING else slow.known_unary(function, a)


def inplace(function: Callable[[Any, Any, Any], Any], a: Any, b: Any) -> bool:
    """Compute `a op= b` by NumPy's ufunc if both are small and at hand and no other library has a copy of
    `a`, or record it again if it was recorded on these views before; False if neither."""
    memory = near_to_write(a)
    if memory is not None:
        right = number_or_near(b)
        if right is not None:
            function(memory, right, memory)
            return True
    return False if function in MOVING else slow.known_inplace(function, a, b)


def into(function: Any, operands: tuple[Any, ...], target: Any) -> bool:
    """Call NumPy's ufunc with an output array if all arrays are small and at hand; else return False."""
    memory = near_to_write(target)
    if memory is None:
        return False
    values = []
    for x in operands:
        value = number_or_near(x)
        if value is None:
            return False
        values.append(value)
    function(*values, out=memory)
    return True


Method = Callable[[Any, Any], Any]
Named = TypeVar("Named", bound=Callable[..., Any])


def named(method: Named, name: str) -> Named:
    """Give a method the name of an operator of Python's, as in `__add__`."""
    method.__name__, method.__qualname__ = f"__{name}__", f"Operators.__{name}__"
    return method


def both(function: numpy.ufunc, name: str) -> tuple[Method, Method]:
    """The methods for `self op other` and `other op self`."""
    def forward(self: Any, other: Any) -> Any:
        found = binary(function, self, other)
        return slow.forward(function.__name__, self, other) if found is None else found

    def reflected(self: Any, other: Any) -> Any:
        found = binary(function, other, self)
        return slow.reflected(function.__name__, self, other) if found is None else found

    return named(forward, name), named(reflected, "r" + name)


def equality(function: numpy.ufunc, name: str) -> Method:
    """The method for `==` or `!=`."""
    def equal(self: Any, other: Any) -> Any:
        found = binary(function, self, other)
        return slow.equality(function.__name__, self, other) if found is None else found

    return named(equal, name)


def alone(function: numpy.ufunc, name: str) -> Callable[[Any], Any]:
    """The method for an operator of one operand."""
    def unaided(self: Any) -> Any:
        found = unary(function, self)
        return slow.alone(function.__name__, self) if found is None else found

    return named(unaided, name)


class Operators(Array):
    """Arithmetic, comparison and bitwise operators."""

    __slots__ = ()

    __add__, __radd__ = both(numpy.add, "add")
    __sub__, __rsub__ = both(numpy.subtract, "sub")
    __mul__, __rmul__ = both(numpy.multiply, "mul")
    __truediv__, __rtruediv__ = both(numpy.divide, "truediv")
    __floordiv__, __rfloordiv__ = both(numpy.floor_divide, "floordiv")
    __mod__, __rmod__ = both(numpy.remainder, "mod")
    __lshift__, __rlshift__ = both(numpy.left_shift, "lshift")
    __rshift__, __rrshift__ = both(numpy.right_shift, "rshift")
    __and__, __rand__ = both(numpy.bitwise_and, "and")
    __or__, __ror__ = both(numpy.bitwise_or, "or")
    __xor__, __rxor__ = both(numpy.bitwise_xor, "xor")
    __lt__, __le__ = both(numpy.less, "lt")[0], both(numpy.less_equal, "le")[0]
    __gt__, __ge__ = both(numpy.greater, "gt")[0], both(numpy.greater_equal, "ge")[0]
    __eq__, __ne__ = equality(numpy.equal, "eq"), equality(numpy.not_equal, "ne")
    __neg__, __pos__ = alone(numpy.negative, "neg"), alone(numpy.positive, "pos")
    __abs__, __invert__ = alone(numpy.absolute, "abs"), alone(numpy.invert, "invert")

    def __matmul__(self, other: Any) -> Any:
        found = product(self, other)
        return slow.forward("matmul", self, other) if found is None else found

    def __rmatmul__(self, other: Any) -> Any:
        found = product(other, self)
        return slow.reflected("matmul", self, other) if found is None else found

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            return NotImplemented
        found = binary(operator.pow, self, other)
        return slow.power(self, other) if found is None else found

    def __rpow__(self, other: Any, modulo: Any = None) -> Any:
        found = binary(operator.pow, other, self)
        return slow.reflected("power", self, other) if found is None else found


if native is not None:
    globals()["Operators"] = native.Operators
