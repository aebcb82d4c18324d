"""Arguments of reductions and scans: the axes, the computing type, and the requirements on an output."""

from __future__ import annotations

import operator as _operator
from functools import lru_cache
from math import prod
from typing import Any

import numpy
from numpy.lib.array_utils import normalize_axis_index

from diffuse.library import FOLDS, ROWS, Point
from diffuse.numpy.arrays import base, core
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.ops import rules

PLAINLY = "an integer is required"
"""What the methods of NumPy's ufuncs say of a truth value as an axis."""


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that an `axis` argument specifies; raises NumPy's error."""
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, tuple):
        found = tuple([normalize_axis_index(one_axis(a, PLAINLY), ndim) for a in axis])
        if len(set(found)) != len(found):
            raise ValueError("duplicate value in 'axis'")
        return found
    number = one_axis(axis, PLAINLY)
    return () if ndim == 0 and number in (0, -1) else (normalize_axis_index(number, ndim),)


def one_axis(axis: Any, error: str = "an integer is required for the axis") -> int:
    """The number of one axis; raises a TypeError with NumPy's words for truth values, too."""
    if isinstance(axis, (bool, numpy.bool_)):
        raise TypeError(error)
    return _operator.index(axis)


@lru_cache(maxsize=1 << 11)
def _accumulator(operator: str, element: numpy.dtype[Any], asked: Any = None, target: Any = None
                 ) -> numpy.dtype[Any]:
    """The element type in which NumPy reduces, given the types of the array, of `dtype=` and of `out=`."""
    function: Any = getattr(numpy, FOLDS[operator])
    types = function.resolve_dtypes((target, element, None), signature=(asked, None, None), casting="unsafe",
                                    reduction=True)
    found: numpy.dtype[Any] = types[0]
    return found


def computing(operator: str, x: Any, dtype: Any, target: Any) -> numpy.dtype[Any] | None:
    """The type in which a fold is computed; None if NumPy has to convert: results for an output of another
    kind are converted piece by piece, and accumulated after that."""
    if not isinstance(x, Array):
        return None
    if target is not None and not (type(target) is core.array_class and target.meta.flags.writeable):
        return None
    given = None
    try:
        if dtype is None and target is None:
            return _accumulator(operator, x.form.dtype)
        asked = None if dtype is None else base.element_type(dtype)
        given = None if target is None else target.dtype
        wanted = _accumulator(operator, x.form.dtype, asked, given)
    except (TypeError, ValueError):  # NumPy raises its own error
        return None
    rule: Any = "same_kind" if operator in ("sum", "prod") else "no"
    if given is not None and not numpy.can_cast(wanted, given, rule):
        return None
    return wanted


def spreads(x: Array, shape: Point) -> bool:
    """Does an array broadcast to exactly this shape?"""
    ours = x.form.shape
    lead = len(shape) - len(ours)
    return lead >= 0 and all([n in (1, m) for n, m in zip(ours, shape[lead:], strict=True)])


def fits(target: Array, x: Array, axes: tuple[int, ...], keepdims: bool) -> bool:
    """Does this array have the shape of the reduction of `x` over `axes`, each element in a place of its own?
    NumPy adds into an output, so that elements that share memory add up to other results."""
    shape = tuple([1 if d in axes else n for d, n in enumerate(x.form.shape) if keepdims or d not in axes])
    return bool(target.form.shape == shape and not target.form.folded)


def in_order(operator: str, x: Array, axes: tuple[int, ...], wanted: numpy.dtype[Any], mask: Any) -> bool:
    """Does the kernels' order of a sum or product give NumPy's result, except for its last bits?

    NumPy multiplies one element after another, and what overflows or vanishes on the way stays so: products
    of other parts would be NaN where NumPy's are 0.  So kernels multiply the rows of a matrix only, as many
    as they take in NumPy's order.  It adds elements of float16 in float32 within rows of memory, but the sums
    of several rows, or of runs that a mask selects, in float16: their total may stay far too small.
    """
    rank, count = x.form.ndim, prod([x.form.shape[axis] for axis in axes])
    if operator == "prod" and wanted.kind in "fc" and count > 2:
        rows = len(axes) == 1 and axes[0] < rank - 1 and x.form.ordered
        return rows and count <= ROWS and wanted.char != "e"
    if wanted.char != "e":
        return True
    whole = len(axes) == rank and (rank == 1 or x.meta.flags.forc)
    last = x.meta.flags.c_contiguous and sorted(axes) == list(range(rank - len(axes), rank))
    return mask is True and (whole or last)


def receives(target: Any, wanted: numpy.dtype[Any], x: Array, axes: tuple[int, ...], keepdims: bool) -> bool:
    """Can a result of type `wanted` be written to an output unconverted?"""
    return (type(target) is core.array_class and target.dtype == wanted and target.meta.flags.writeable
            and fits(target, x, axes, keepdims))


def into(target: Any, result: Any, out: Any) -> Any:
    """Write a result to the array of `out=`, and return that array."""
    # an array: a number that its type cannot hold would be refused
    target[...] = result if isinstance(result, Array) else numpy.asarray(result)
    return out


def number(initial: Any, wanted: numpy.dtype[Any]) -> Any:
    """`initial=` in the type of the fold; None if it is not a number."""
    value = host(initial)[()] if isinstance(initial, Array) and not initial.form.ndim else initial
    if type(value) not in rules.WEAK and type(value) not in rules.STRONG:
        return None
    cell = numpy.empty((), wanted)
    cell[()] = value
    return cell[()]
