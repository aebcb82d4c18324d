"""NumPy's reductions by name: `sum`, `max`, `mean`, `argmin`, `cumsum` ... as functions of any array-like."""

from __future__ import annotations

import builtins
from typing import Any

import numpy

from diffuse.numpy.arrays import access, core
from diffuse.numpy.arrays.access import ready
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import elementwise, folds, moments, scans
from diffuse.numpy.ops.conversion import asarray
from diffuse.numpy.ops.manipulation import asking
from diffuse.numpy.ops.operands import answers
from diffuse.numpy.ops.ufuncs import UFUNCS

_NoValue = numpy._NoValue
MANY = 1 << 18
"""The number of elements from which on threads count them in less time, as starting one takes some 50 us."""
BLOCK = 1 << 16
"""The number of elements that are compared at once: their mask stays in cache."""


def sum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _NoValue,
        initial: Any = _NoValue, where: Any = True) -> Any:
    return folds.reduce("sum", a, axis, dtype, out, keepdims, initial, where)


def prod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _NoValue,
         initial: Any = _NoValue, where: Any = True) -> Any:
    return folds.reduce("prod", a, axis, dtype, out, keepdims, initial, where)


def min(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NoValue, initial: Any = _NoValue,
        where: Any = True) -> Any:
    return folds.reduce("min", a, axis, None, out, keepdims, initial, where)


def max(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NoValue, initial: Any = _NoValue,
        where: Any = True) -> Any:
    return folds.reduce("max", a, axis, None, out, keepdims, initial, where)


def any(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NoValue, *, where: Any = True) -> Any:
    return folds.reduce("any", a, axis, _truth(a, out), out, keepdims, _NoValue, where)


def all(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NoValue, *, where: Any = True) -> Any:
    return folds.reduce("all", a, axis, _truth(a, out), out, keepdims, _NoValue, where)


def _truth(a: Any, out: Any) -> Any:
    """The type of `any` and `all`, if it has to be given: for objects it would be object.  Arrays of other
    libraries determine their own."""
    return None if builtins.isinstance(a, Array) or answers(a, out) else numpy.bool_


amin, amax = min, max


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NoValue) -> Any:
    """The largest element minus the smallest."""
    if answers(a, out):
        return fallback.asked(numpy.ptp, a, axis, out, keepdims=keepdims)
    high = folds.reduce("max", a, axis, None, out, keepdims)
    low = folds.reduce("min", a, axis, None, None, keepdims)
    if out is None and isinstance(high, numpy.generic) and isinstance(low, numpy.generic):
        return numpy.subtract(high, low)
    return UFUNCS["subtract"](high, low, out=out)


def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = _NoValue) -> Any:
    return folds.extreme("argmin", a, axis, out, keepdims)


def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = _NoValue) -> Any:
    return folds.extreme("argmax", a, axis, out, keepdims)


def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _NoValue, *,
         where: Any = True) -> Any:
    return moments.mean_of(a, axis, dtype, out, keepdims, where)


def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
        keepdims: Any = _NoValue, *, where: Any = True, mean: Any = _NoValue,
        correction: Any = _NoValue) -> Any:
    return moments.variance("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
        keepdims: Any = _NoValue, *, where: Any = True, mean: Any = _NoValue,
        correction: Any = _NoValue) -> Any:
    return moments.variance("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


@asking(numpy.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The number of true elements."""
    if axis is None and keepdims is False and type(a) is core.array_class:
        memory = access.at_hand(a)
        if memory is not None:
            return _counted(memory)
    x = asarray(a)
    if (type(keepdims) is not bool or not builtins.isinstance(x, Array) or x.form.size == 0
            or axis is None and ready(x)):
        return fallback.call(numpy.count_nonzero, (a, axis), {"keepdims": keepdims}, silent="inspection")
    truth = x if x.form.name == "bool" else elementwise.duplicate(x, numpy.dtype(bool))
    return folds.reduce("sum", truth, axis, numpy.intp, None, keepdims)


def _counted(memory: Any) -> Any:
    """The number of true elements of a NumPy array; of many floats each thread compares a part with zero.
    NumPy looks at floats one by one, and keeps Python's lock meanwhile."""
    if memory.size < MANY or memory.dtype.kind != "f" or not memory.flags.forc:
        return numpy.count_nonzero(memory)
    from diffuse.numpy.order import team

    flat = memory.ravel("K")

    def one(low: int, high: int) -> Any:
        mask, count = numpy.empty(BLOCK, numpy.bool), numpy.count_nonzero(flat[:0])
        for start in range(low, high, BLOCK):
            part = flat[start:builtins.min(high, start + BLOCK)]
            count += numpy.count_nonzero(numpy.not_equal(part, 0, out=mask[:part.size]))
        return count

    return builtins.sum(team.on_parts(flat.size, one))


def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return scans.scan("cumsum", a, axis, dtype, out)


def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return scans.scan("cumprod", a, axis, dtype, out)
