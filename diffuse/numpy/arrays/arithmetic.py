"""Python's operators, and NumPy's ufuncs, on small arrays: by NumPy, at once, on the memory of the arrays.

Arrays that are not small, or not at hand, go to the functions of `core.slow`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

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


if native is not None:
    globals()["Operators"] = native.Operators
