"""Reductions over any axes (`sum`, `max`, `argmin` ...): recorded as tasks, or computed at once if at
hand (at_once.py)."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import Any

import numpy

from diffuse import library
from diffuse.library import FOLDS, Point, operations, quiet, small_folds, view
from diffuse.numpy.arrays import access, base, core, views
from diffuse.numpy.arrays.access import host, ready
from diffuse.numpy.arrays.base import UFUNCS, operand
from diffuse.numpy.arrays.core import Array, hosted, recorded, viewing
from diffuse.numpy.arrays.forms import NATIVE, Form, like, outermost_first, packed
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import elementwise, rules
from diffuse.numpy.ops.arguments import (
    axes_of,
    computing,
    fits,
    in_order,
    into,
    number,
    one_axis,
    receives,
    spreads,
)
from diffuse.numpy.ops.at_once import (
    ALL,
    FLAT,
    NUMPYS,
    along,
    few_rows,
    glance,
    immediate,
    memory_order,
    short,
    short_rows,
    total,
)
from diffuse.numpy.ops.conversion import asarray
from diffuse.numpy.ops.operands import adopt, answers, wrap

_NoValue = numpy._NoValue
TRUTH, EXTREMES = operations.TRUTH, operations.EXTREMES
FUNCTIONS = {"sum": numpy.add, "prod": numpy.multiply}
_IDENTITY: dict[str, Any] = {"sum": 0, "prod": 1, "any": False, "all": True, "bitor": 0, "bitxor": 0,
                             "parity": False}
def numpys(operator: str, x: Array) -> bool:
    """Does NumPy compute this reduction?  It computes those of small arrays at hand, and sums and products of
    small inexact arrays, whose bits depend on NumPy's order, which kernels do not have."""
    return x.form.size < core.SMALL and (ready(x) or operator in FUNCTIONS and x.form.name[0] in "fc")


def reduce(operator: str, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
           initial: Any = _NoValue, where: Any = True) -> Any:
    """Compute one of the folds, with all of NumPy's arguments."""
    if ((axis is None or type(axis) is int) and dtype is None and out is None and where is True
            and initial is _NoValue and (keepdims is False or keepdims is _NoValue)
            and type(a) is core.array_class and a.meta.size >= core.SMALL):
        memory = immediate(a, operator != "prod")
        if memory is not None:
            found = total(operator, memory) if axis is None else along(operator, memory, axis)
        elif axis is not None:
            found = None
        else:
            found = glance(operator, a) if operator in ("any", "all") else None
        if found is not None:
            return found
    if answers(a, out):
        return fallback.asked(getattr(numpy, operator), a, axis=axis, dtype=dtype, out=out, initial=initial,
                              keepdims=keepdims, where=_NoValue if where is True else where)
    if out is None and where is True and (type(a) in rules.WEAK or type(a) in rules.STRONG):
        return _by_numpy(operator, a, axis, dtype, out, keepdims, initial, where)  # a number: nothing waits
    x = asarray(a)
    target, mask = adopt(out, writing=True), adopt(where)
    keep = keepdims is True
    if isinstance(dtype, base.FAMILIES):  # NumPy 2.4 would crash where it writes to an array of objects
        dtype = base.element_type(dtype) if base.element_type(dtype) in NATIVE else dtype
    wanted = computing(operator, x, dtype, target)
    odd = keepdims is not keep and keepdims is not _NoValue
    if wanted is None or odd or numpys(operator, x) or not _plain(operator, x, wanted, mask, initial):
        return _by_numpy(operator, x, axis, dtype, out, keepdims, initial, where)
    axes = axes_of(axis, x.form.ndim)
    if (target is not None and not fits(target, x, axes, keep)
            or operator in FUNCTIONS and not in_order(operator, x, axes, wanted, mask)):
        return _by_numpy(operator, x, axis, dtype, out, keepdims, initial, where)
    first = initial if initial is _NoValue else number(initial, wanted)
    if first is None or operator == "sum" and first == 0 and "-" in str(first):  # kernels start from 0.0
        return _by_numpy(operator, x, axis, dtype, out, keepdims, initial, where)
    if mask is not True:
        bits = operator == "bitand"  # all of them set: a number of each type
        filler = operations.identity(operator, wanted.name) if bits else _IDENTITY.get(operator, first)
        x = _masked(x, mask, filler, wanted)
    elif wanted == numpy.float16 != x.form.dtype:
        x = elementwise.duplicate(x, wanted)  # each element is rounded before it is added
    result = fold(operator, x, axes, wanted, keep)
    if first is not _NoValue:
        kept = {"out": result} if keep and type(result) is core.array_class else {}  # and its layout
        result = UFUNCS[FOLDS[operator]](result, first, **kept)
    return result if target is None else into(target, result, out)


def narrows(x: Array, wanted: numpy.dtype[Any]) -> bool:
    """Does a reduction in the type `wanted` convert elements to a narrower type: floats to integers, or any
    to float16?  NumPy then warns of elements that are no integers, or too large."""
    return (x.form.name[0] in "fc" and wanted.kind in "iu"
            or wanted.char == "e" and x.form.name not in ("float16", "bool", "int8", "uint8"))


def _plain(operator: str, x: Array, wanted: numpy.dtype[Any], mask: Any, initial: Any) -> bool:
    """Does Diffuse implement this fold of an array?  Otherwise NumPy computes it, warns or raises."""
    if wanted not in NATIVE or not x.form.size or elementwise.eager_errors or narrows(x, wanted):
        return False
    if mask is not True:
        if not (isinstance(mask, Array) and mask.form.name == "bool" and spreads(mask, x.form.shape)):
            return False
        if operator in EXTREMES and initial is _NoValue:
            return False
    if operator in EXTREMES and wanted.kind == "c":
        return False
    if x.form.name[0] == "c":
        return operator not in EXTREMES and wanted.kind == ("b" if operator in TRUTH else "c")
    return operator not in TRUTH or wanted == numpy.bool_


def _masked(x: Array, mask: Array, filler: Any, wanted: numpy.dtype[Any]) -> Any:
    """The elements to reduce: the identity wherever the mask is false."""
    name = wanted.name if wanted.name != "bool" else x.form.name
    return elementwise.issue("where", ("bool", name, name, name), (mask, x, numpy.dtype(name).type(filler)))


def _by_numpy(operator: str, a: Any, axis: Any, dtype: Any, out: Any, keepdims: Any, initial: Any,
              where: Any) -> Any:
    """NumPy's own reduction on the memory: for empty arrays, errors, and types without kernels."""
    options = {"keepdims": False if keepdims is _NoValue else keepdims}
    if where is not True:
        options["where"] = where
    if initial is not _NoValue:
        options["initial"] = initial
    function = getattr(numpy, FOLDS[operator]).reduce
    return fallback.call(function, (a, axis, dtype, out), options, silent="inspection")


def fold(operator: str, x: Array, axes: tuple[int, ...], wanted: numpy.dtype[Any], keepdims: bool = False
         ) -> Any:
    """Reduce a non-empty array over `axes`, accumulating in the element type `wanted`."""
    if not axes:
        return _unreduced(operator, x, wanted)
    if len(axes) == x.form.ndim and not keepdims:
        x = _arranged(x)
        axes = tuple(range(x.form.ndim))
    name, source = NATIVE[wanted], None if x.form.ordered else x.form
    computing = "float32" if name == "float16" and operator not in EXTREMES else name
    taken = x.form.name if operator in TRUTH else computing
    memory = immediate(x, operator != "prod")
    if memory is not None:
        found = _at_once(operator, memory, axes, wanted, computing, keepdims)
        if source is None or not isinstance(found, Array):
            return found
        return _laid(found, _result(x.form.shape, axes, wanted, keepdims, source)[0])
    return _recorded(operator, (x,), axes, (taken, computing), wanted, keepdims, source)


def _laid(found: Array, form: Form) -> Array:
    """Return a small array in the layout of a form."""
    if found.form is form:
        return found
    memory = numpy.ndarray(form.shape, form.dtype, numpy.empty(form.size, form.dtype), 0, form.strides)
    memory[...] = host(found)
    laid: Array = hosted(memory)
    return laid


def _arranged(x: Array) -> Array:
    """Order the dimensions for a full reduction as they lie in memory, with short rows flattened."""
    if x.form.ndim < 2:
        return x
    order = memory_order(x.form.strides)
    if order is not None:
        x = viewing(x, x.meta.transpose(order))
    return views.reshape(x, -1) if x.form.ordered and x.form.shape[-1] < FLAT else x


def _unreduced(operator: str, x: Array, wanted: numpy.dtype[Any]) -> Any:
    """Reduce over no axes: convert the elements, which a sum adds to zero."""
    found = elementwise.duplicate(x, wanted)
    if operator == "sum" and wanted.kind in "fc":
        UFUNCS["add"](found, 0.0, out=found)
    if found.form.ndim:
        form = like([x.meta], x.form.shape, wanted) if x.form.folded else found.form
        if found.form is form:
            return found
        laid = core.recorded(form)
        laid[...] = found
        return laid
    # elements that are not aligned were copied at once, into memory that is no store's own
    return host(found)[()] if ready(found) or found.memory is not None else core.scalar_class.of(found)


def _at_once(operator: str, memory: Any, axes: tuple[int, ...], wanted: numpy.dtype[Any], computing: str,
             keepdims: bool) -> Any:
    """Reduce the memory of an array over `axes`."""
    if operator in TRUTH:
        found: Any = NUMPYS[operator](memory, axes)
    elif computing[0] in "fc" and operator in ("sum", "prod"):
        found = few_rows(operator, memory, axes, computing)
        if found is None and short(operator, axes, memory, computing):
            found = short_rows(memory)
        if found is None:
            found = small_folds.reduce(operator, memory, axes, computing)
        if found.dtype != wanted:
            with quiet():
                found = found.astype(wanted)
        if 0 in numpy.isfinite(found).tobytes():  # once more by NumPy, for its warnings
            getattr(numpy, operator)(memory, axis=axes, dtype=wanted)
    else:
        found = NUMPYS[operator](memory, axes, wanted)
    if keepdims:
        shape = [1 if d in axes else n for d, n in enumerate(memory.shape)]
        found = numpy.asarray(found, wanted).reshape(shape)
    if isinstance(found, numpy.ndarray) and found.ndim:
        return hosted(found if found.flags.forc else found.copy())
    return numpy.asarray(found)[()] if not keepdims else hosted(numpy.asarray(found))


def spread(x: Array, centre: Any, axes: tuple[int, ...], wanted: numpy.dtype[Any], keepdims: bool) -> Any:
    """Compute at once the sum of the squared distances of real elements from their means; None if a task has
    to be recorded, or if NumPy has to warn."""
    one = len(axes) == 1 and x.form.ndim == 2 and not keepdims  # of which the layout has no influence
    if wanted.name not in ("float32", "float64") or not (x.form.ordered or one or len(axes) == x.form.ndim):
        return None
    if len(axes) == x.form.ndim and not keepdims:
        x = _arranged(x)
        centre = views.reshape(centre, ())
        axes = ALL[x.form.ndim]
    memory, middle = immediate(x), access.at_hand(centre)
    if memory is None or middle is None:
        return None
    found = small_folds.of_two("spread", memory.astype(wanted, copy=False),
                               numpy.broadcast_to(middle, memory.shape), axes)
    if 0 in numpy.isfinite(found).tobytes():
        return None
    if keepdims:
        found = found.reshape([1 if d in axes else n for d, n in enumerate(memory.shape)])
    return hosted(found) if found.ndim else found[()]


def _recorded(operation: str, inputs: tuple[Array, ...], axes: tuple[int, ...], signature: tuple[str, ...],
              wanted: numpy.dtype[Any], keepdims: bool, source: Form | None = None) -> Any:
    """Record a fold of arrays of one shape; the output's view follows only the kept dimensions.

    The result has the layout of NumPy's for an operand of the form `source`, or C order if that is None.
    """
    shape = inputs[0].form.shape
    if (len(axes) == len(shape) > 1 and not keepdims and shape[-1] < FLAT
            and all([x.form.ordered for x in inputs])):
        inputs = tuple([views.reshape(x, -1) for x in inputs])
        shape, axes, source = inputs[0].form.shape, (0,), None
    try:
        operands = tuple([operand(x, shape) for x in inputs])
    except base.Unaddressable:
        copies = tuple([wrap(host(x).copy("K")) for x in inputs])
        return _recorded(operation, copies, axes, signature, wanted, keepdims, source)
    form, part = _result(shape, axes, wanted, keepdims, source)
    out = recorded(form)
    operator = "sum" if operation.partition(":")[0] in ("dot", "vdot") else operation
    library.record(operation, signature, shape, operands, ((out.storage, part),), operator=operator)
    return out if form.shape or keepdims else core.scalar_class.of(out)


@lru_cache(maxsize=1 << 10)
def _result(shape: Point, axes: tuple[int, ...], wanted: numpy.dtype[Any], keepdims: bool,
            source: Form | None) -> tuple[Form, view.View]:
    """The form of the result of a fold of `shape` over `axes`, and the view by which its task writes it."""
    left = [d for d in range(len(shape)) if keepdims or d not in axes]
    order = left if source is None else outermost_first(like([source.mirror], shape, wanted).mirror)
    form = packed(tuple([1 if d in axes else shape[d] for d in left]),
                  tuple([left.index(d) for d in order if d in left]), wanted)
    kept = tuple([d for d in range(len(shape)) if d not in axes])
    strides = tuple([form.strides[d] for d in kept]) if keepdims else form.strides
    part = view.of(form.frame.shape, form.name, form.name, form.itemsize, 0, strides,
                   tuple([shape[d] for d in kept]))
    return form, part.kept(shape, kept)


def product(a: Array, b: Array, operation: str = "dot") -> Any:
    """The sum of products of two arrays of one shape: `dot`, `dot:matmul`, whose warnings name that function,
    or `vdot`, which never warns."""
    wanted = numpy.result_type(a.form.dtype, b.form.dtype)
    name = NATIVE[wanted] if wanted != numpy.float16 else "float32"
    if a.form.ndim == 1:
        one, other = immediate(a), immediate(b)
        if one is not None and other is not None:
            if name[0] != "f":
                return numpy.dot(one, other)
            found = small_folds.of_two("dot", one.astype(name, copy=False), other.astype(name, copy=False),
                                       (0,))[()]
            if operation == "vdot" or isfinite(found):  # otherwise recorded, for its warnings
                return found if found.dtype is wanted else found.astype(wanted)
    return _recorded(operation, (a, b), tuple(range(a.form.ndim)), (name, name, name), wanted, False)


def extreme(operation: str, a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NoValue) -> Any:
    """`argmin` and `argmax`."""
    function = getattr(numpy, operation)
    if (axis is None and out is None and keepdims in (False, _NoValue) and type(a) is core.array_class
            and not elementwise.eager_errors):
        memory = immediate(a)
        if memory is not None:
            return function(memory)
    if answers(a, out):
        return fallback.asked(function, a, axis=axis, out=out, keepdims=keepdims)
    x = asarray(a)
    keep: Any = False if keepdims is _NoValue else keepdims
    target = adopt(out, writing=True)
    if (not isinstance(x, Array) or x.form.size == 0 or x.form.name[0] == "c" or x.form.ndim == 0
            or immediate(x) is not None or numpys(operation, x) or elementwise.eager_errors
            or type(keep) is not bool):
        if out is None and isinstance(x, Array):
            return wrap(function(host(x), axis, keepdims=keep))
        return fallback.call(function, (x, axis, out), {"keepdims": keep}, silent="inspection")
    axes = axes_of(axis if axis is None else one_axis(axis), x.form.ndim)
    if target is not None and not receives(target, numpy.dtype(numpy.intp), x, axes, keep):
        return fallback.call(function, (x, axis, out), {"keepdims": keep}, silent="inspection")
    result = _recorded(operation, (x,), axes, (x.form.name, "int64"), numpy.dtype(numpy.int64), keep)
    return result if target is None else into(target, result, out)
