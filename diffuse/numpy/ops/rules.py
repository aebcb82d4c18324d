"""Rules of elementwise operations: everything that a call depends on except stores and values, that is types,
shapes and layouts.

Each decision is made once for operands of the same forms and kept in a `Rule`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy

from diffuse.library import Point, Recurring
from diffuse.numpy.arrays import core
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.arrays.forms import NATIVE, Form, like
from diffuse.numpy.ops.known import KNOWN
from diffuse.settings import watch

WEAK: dict[type, type] = {float: float, int: int, complex: complex}
STRONG: dict[type, numpy.dtype[Any]] = {bool: numpy.dtype(bool)}
STRONG.update({dtype.type: dtype for dtype in NATIVE})
"""The types of numbers that are passed by value: `WEAK` ones take the type of the arrays, `STRONG` ones keep
theirs."""
NUMBERS = frozenset((*WEAK, *STRONG))
"""Both as a set, in which the class of a pending number is not, though it equals one of them."""


def _by_value(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key of `RULES` with what determines a form in place of the form."""
    return tuple([(x.shape, x.strides, x.name) if isinstance(x, Form) else x for x in key])


RULES: dict[tuple[Any, ...], Rule] = Recurring(1 << 12, _by_value)
"""The rules, by NumPy's function and the forms or types of the operands."""
WIDE = 64
"""The least extent of a dimension that is cut before a last dimension is, on up to 16 processors."""
BUFFER = 8192
"""The number of elements in the buffer through which NumPy converts operands."""
_POINT = numpy.zeros(())
"""Replaces a scalar operand where NumPy is called for its error message."""


class Rule:
    """The decisions for equal calls: the result's form, the element types, the conversions of scalars."""

    __slots__ = ("form", "signature", "waits", "casts", "turned", "template")

    def __init__(self, form: Form, signature: tuple[str, ...], waits: bool,
                 casts: tuple[Callable[[Any], Any] | None, ...]) -> None:
        self.form = form
        self.signature = signature
        self.waits = waits
        """Does NumPy compute it, because small arrays have NumPy's bits and no kernel has them?"""
        self.casts = casts
        """For each operand given by value the conversion to its computing type, else None."""
        self.turned = lowered(form.shape, form.strides) is not None
        self.template: Any = None
        """The template of the last task that was recorded by this rule."""


def forget(_: Any) -> None:
    """Forget all rules and known calls, because the size below which arrays count as small has changed."""
    RULES.clear()
    KNOWN.clear()


watch("small", forget)


@lru_cache(maxsize=1 << 10)
def turned(shape: Point, strides: Point) -> tuple[Point, Point] | None:
    """The iteration space permuted to memory order, and the permutation; None for the identity."""
    long = [d for d, n in enumerate(shape) if n > 1]
    order = sorted(long, key=lambda d: -abs(strides[d]))
    if order == long:
        return None
    order = [d for d, n in enumerate(shape) if n <= 1] + order
    return tuple([shape[d] for d in order]), tuple([order.index(d) for d in range(len(shape))])


def lowered(shape: Point, strides: Point) -> tuple[Point, Point] | None:
    """The iteration space permuted to memory order, without last dimensions of one index, and the dimension
    of it that each remaining dimension becomes; None if nothing changes.

    Such dimensions stay where a dimension that is cut would become the last one: it would be cut elsewhere
    than in tasks whose last dimension is longer, so that they could not fuse.
    """
    kept = len(shape)
    while kept > 2 and shape[kept - 1] == 1:
        kept -= 1
    if kept == len(shape) or max(shape[:kept - 1]) < WIDE:
        return turned(shape, strides)
    return turned(shape[:kept], strides[:kept]) or (shape[:kept], tuple(range(kept)))


def cast_for(dtype: numpy.dtype[Any], kind: type) -> Callable[[Any], Any]:
    """The conversion of a Python or NumPy scalar of type `kind` to a Python value of `dtype`."""
    if dtype == numpy.float64 and kind in (float, int):
        return float
    if dtype == numpy.complex128 and kind in (float, int, complex):
        return complex
    if kind in STRONG and STRONG[kind] == dtype:
        return bool if kind is bool else lambda value: value.item()
    if kind is int and dtype.kind == "b":
        return truth
    if kind in WEAK:
        return lambda value: dtype.type(value).item()
    return lambda value: value.astype(dtype).item() if kind is not bool else dtype.type(value).item()


def order_of(operands: tuple[Any, ...], types: tuple[numpy.dtype[Any], ...], shape: Point, mask: Any,
             order: str = "K") -> str:
    """The memory order of a ufunc's results for `order="A"` or `order="K"`; "K" if it is that in which an
    iterator visits the operands.

    Without a mask NumPy first copies short operands that it has to convert, up to a long one, and computes
    one result of arrays of one shape without an iterator.
    """
    arrays = [(x.meta, t) for x, t in zip(operands, types, strict=False) if isinstance(x, Array)]
    plain, alike, flags = mask is True, True, []
    for x, t in arrays:
        copied = plain and (x.dtype != t or not x.flags.aligned)
        plain = plain and (not copied or x.ndim < 2 and x.size <= BUFFER)
        alike = alike and x.shape in ((), shape)
        flags.append((True, True) if copied and plain else (x.flags.c_contiguous, x.flags.f_contiguous))
    if mask is not True:
        flags.append((mask.meta.flags.c_contiguous, mask.meta.flags.f_contiguous))
    direct = plain and alike and len(types) - len(operands) == 1
    if direct and all([c for c, _ in flags]):
        return "C"
    columns = all([f for _, f in flags])
    if order in ("K", "k"):
        return "F" if columns and direct else "K"
    return "F" if columns else "C"


def truth(value: int) -> bool:
    """Is an integer nonzero?  NumPy raises for those beyond all integer types."""
    return bool(numpy.int64(value))


def beyond(operands: tuple[Any, ...]) -> bool:
    """Are all operands numbers, and one of them an integer beyond all element types?  NumPy treats it as an
    object."""
    return (not any([isinstance(x, Array) for x in operands])
            and any([type(x) is int and not -1 << 63 <= x < 1 << 64 for x in operands]))


def type_of(x: Any) -> Any:
    """The operand's type for type resolution: an element type, or Python's float, int or complex."""
    if isinstance(x, Array):
        return x.form.dtype
    kind = type(x)
    return x.dtype if kind is numpy.ndarray else WEAK.get(kind) or STRONG[kind]


def resolve(function: Any, operands: tuple[Any, ...], outs: tuple[Any, ...], dtype: Any = None,
            casting: str = "same_kind", signature: Any = None) -> tuple[numpy.dtype[Any], ...]:
    """The types in which NumPy computes; raises NumPy's exception."""
    types = tuple([type_of(x) for x in operands]) + tuple([None if o is None else o.form.dtype for o in outs])
    if isinstance(dtype, Array):
        raise TypeError("Cannot construct a dtype from an array")
    if dtype is not None:
        signature = (None,) * function.nin + (dtype,) * function.nout
    options = {"casting": casting} if signature is None else {"casting": casting, "signature": signature}
    found: tuple[numpy.dtype[Any], ...] = function.numpy.resolve_dtypes(types, **options)
    return found


def broadcast_size(shapes: Sequence[tuple[int, ...]]) -> int:
    """The number of elements of arrays broadcast together; 0 if the shapes do not fit, which NumPy
    reports."""
    try:
        return prod(numpy.broadcast_shapes(*shapes))
    except ValueError:
        return 0


def shape_of(operands: tuple[Any, ...], outs: tuple[Any, ...] = (), where: Any = None) -> tuple[int, ...]:
    """The broadcast shape; errors are NumPy's own, raised by its iterator on the mirrors."""
    shapes = [x.form.shape for x in operands if isinstance(x, Array)]
    extra = [where.form.shape] if isinstance(where, Array) else []
    first = shapes[0] if shapes else ()
    if (
        all(s == first for s in shapes)
        and not extra
        and all(o is None or o.form.shape == first for o in outs)
    ):
        return first
    mirrors = [x.meta if isinstance(x, Array) else _POINT for x in operands] + [where.meta for _ in extra]
    targets = [o.meta for o in outs if o is not None]
    flags: list[Any] = [["readonly"]] * len(mirrors) + [["writeonly", "no_broadcast"]] * len(targets)
    numpy.nditer([*mirrors, *targets], ["zerosize_ok", "multi_index"], flags)
    return numpy.broadcast_shapes(*[m.shape for m in mirrors], *[t.shape for t in targets])


def plan(function: Any, operands: tuple[Any, ...]) -> Rule | None:
    """Make the rule of a call without options; None if NumPy must compute it, as for types without
    kernels."""
    types = resolve(function, operands, (None,) * function.nout)
    if any(t not in NATIVE for t in types) or not function.recordable:
        return None
    arrays = [x for x in operands if isinstance(x, Array)]
    if any([not x.form.size for x in arrays]):
        return None
    casts = _casts(function, operands, types)
    if casts is None:
        return None
    for x, t, convert in zip(operands, types, casts, strict=False):
        # a number out of range: an error, which precedes that of a wrong shape; of floats there are only
        # warnings, which come when they are converted for the task
        if convert is not None and type(x) not in (float, complex):
            (float if type(x) is int and t.kind in "fc" else convert)(x)
    shape = shape_of(operands)
    form = like([x.meta for x in arrays], shape, types[function.nin],
                order_of(operands, types, shape, True))
    sizes = [x.form.size for x in arrays]
    largest = max(form.size, max(sizes, default=0))
    names = tuple([NATIVE[t] for t in types])
    waits = largest < core.SMALL and not function.exact(types)
    return Rule(form, names, waits, casts)


def _casts(function: Any, operands: tuple[Any, ...], types: tuple[numpy.dtype[Any], ...]
           ) -> tuple[Callable[[Any], Any] | None, ...] | None:
    """The conversion to its computing type for each operand passed by value; None if NumPy must compute."""
    casts = tuple([None if isinstance(x, Array) else cast_for(t, type(x))
                   for x, t in zip(operands, types, strict=False)])
    if function.operation != "power" or types[0].kind not in "iu":
        return casts
    if casts[1] is None:  # negative exponents are an error that depends on the values
        return None
    return casts[0], lambda value: exponent(value, types[1])


def exponent(value: Any, dtype: numpy.dtype[Any]) -> Any:
    """Convert an integer exponent passed by value, or raise NumPy's error."""
    found = cast_for(dtype, type(value))(value)
    if value < 0 and dtype.kind == "i":
        raise ValueError("Integers to negative integer powers are not allowed.")
    return found


def plan_inplace(function: Any, a: Any, b: Any) -> Rule | None:
    """Make the rule of `a op= b`; None if NumPy must compute it, or `a` would have to be broadcast."""
    types = resolve(function, (a, b), (a,))
    if any(t not in NATIVE for t in types) or not function.recordable or function.nout != 1 or a.form.folded:
        return None
    if shape_of((a, b), (a,)) != a.form.shape or not a.form.size:
        return None
    casts = _casts(function, (a, b), types)
    if casts is None:
        return None
    size = max(a.form.size, b.form.size if isinstance(b, Array) else 0)
    names = tuple([NATIVE[t] for t in types])
    waits = size < core.SMALL and not function.exact(types)
    return Rule(a.form, names, waits, casts)
