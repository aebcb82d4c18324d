"""Elementwise operations: records a call on arrays and numbers as a task, or has NumPy compute it at once if
small.

Decisions that depend only on types, shapes and strides are made once (rules.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

import numpy

from diffuse import library
from diffuse.library import Point, Scalar, floaterrors, provenance
from diffuse.numpy.arrays import access, arithmetic, base, core
from diffuse.numpy.arrays.access import at_hand, host, ready
from diffuse.numpy.arrays.base import view_of
from diffuse.numpy.arrays.core import ARRAYS, Array, hosted, recorded
from diffuse.numpy.arrays.forms import like, memory_order, replica, row_major
from diffuse.numpy.ops import known, moving, single
from diffuse.numpy.ops.known import KNOWN, Known, name_of
from diffuse.numpy.ops.rules import RULES, Rule, cast_for, lowered, order_of, shape_of
from diffuse.numpy.ops.single import OFTEN

eager_errors = False
"""True while floating-point errors raise or call: then NumPy computes everything, at once."""

_tuple = tuple.__new__
# Calling the base's constructor halves the cost of making named tuples on the hot path.


def record(operation: str, signature: tuple[str, ...], shape: Point,
           inputs: tuple[base.Operand | Scalar, ...], outputs: tuple[base.Operand, ...]) -> Any:
    """Record an elementwise task that iterates in the memory order of its output (Fortran order, say), and
    not over last dimensions of one index."""
    found = lowered(shape, outputs[0][1].strides)
    if found is not None:
        shape, axes = found
        inputs = tuple([x if isinstance(x, Scalar) else (x[0], x[1].kept(shape, axes)) for x in inputs])
        outputs = tuple([(storage, part.kept(shape, axes)) for storage, part in outputs])
    return library.record(operation, signature, shape, inputs, outputs)


def spread(x: Array, position: int, name: str, shape: Point) -> Any:
    """Broadcast an input, or pass a 0-d array whose value is known as a scalar."""
    if not x.form.ndim:
        memory = at_hand(x)
        if memory is not None:
            return Scalar(position, name, memory.astype(name).item())
    return base.operand(x, shape)


def binary(function: Any, a: Any, b: Any) -> Any:
    """A two-input operation on arrays and scalars; other types of operands are converted on the slow way."""
    found = arithmetic.binary(function.numpy, a, b)
    return first_binary(function, a, b) if found is None else found


def first_binary(function: Any, a: Any, b: Any) -> Any:
    """A two-input operation on operands that are not small and at hand, and on views not seen before."""
    if function.moving:
        found = moving.done(function, (a, b))
        if found is None:
            found = known.binary(function.numpy, a, b)
        if found is not None:
            return found
    if is_hosts(a) or is_hosts(b):
        found = known.binary(function.numpy, attached(a), attached(b))
        if found is not None:
            return found
    ka, kb = type(a), type(b)
    rule = RULES.get((function.numpy, a.form if ka in ARRAYS else ka, b.form if kb in ARRAYS else kb))
    if rule is None or eager_errors:
        return function.general((a, b))
    form = rule.form
    if rule.waits or not form.size:  # NumPy checks numbers, too, if there are no elements
        return function.at_once((a, b), (), (), {})
    if rule.template is not None and rule.template.alone >= OFTEN:
        found = single.done(rule.template, function.numpy, (a, b), form)
        if found is not None:
            return found
    a, b = access.steady(a) if ka in ARRAYS else a, access.steady(b) if kb in ARRAYS else b
    shape = form.shape
    to_a, to_b = rule.casts
    try:
        first = a_operand(a, 0, rule) if to_a is None else _tuple(Scalar, (0, rule.signature[0], to_a(a)))
        second = a_operand(b, 1, rule) if to_b is None else _tuple(Scalar, (1, rule.signature[1], to_b(b)))
    except (OverflowError, base.Unaddressable):
        return function.at_once((a, b), (), (), {})
    out = recorded(form)
    template = rule.template = record(function.operation, rule.signature, shape, (first, second),
                                      ((out.storage, out.part),))
    moving.note(function, template)
    if type(first) is not Scalar and type(second) is not Scalar:
        KNOWN[function.numpy, a.part.token, b.part.token] = Known(template, form)
    elif to_b is not None and type(first) is not Scalar or to_a is not None and type(second) is not Scalar:
        KNOWN[function.numpy, name_of(a), name_of(b)] = Known(template, form, rule.casts)
    return out if shape else core.scalar_class.of(out)


def is_hosts(x: Any) -> bool:
    """Is an operand a small array that no store holds yet: NumPy's, or a view of a small array?  `attached`
    gives it a store, by whose view calls on it are remembered."""
    if type(x) is core.array_class:
        return x.part is None and x.owner is not None and x.meta.size < core.SMALL
    return type(x) is core.NDARRAY and x.size < core.SMALL


def attached(x: Any) -> Any:
    """The array whose store tasks read for such an operand; other operands as they are."""
    if not is_hosts(x):
        return x
    found = known.read(x) if type(x) is core.NDARRAY else access.steady(x)
    if type(found) is core.array_class and found.part is None:
        base.locate(found)
    return found


def a_operand(x: Any, position: int, rule: Rule) -> Any:
    """An array as an input of an operation that has a rule."""
    part = x.part
    if part is None:
        part = view_of(x)
    shape = rule.form.shape
    return (x.storage, part) if part.shape == shape else spread(x, position, rule.signature[position], shape)


def unary(function: Any, a: Any) -> Any:
    """A one-input operation on an array."""
    found = arithmetic.unary(function.numpy, a)
    return first_unary(function, a) if found is None else found


def first_unary(function: Any, a: Any) -> Any:
    """A one-input operation on a view that it was not called with before."""
    if function.moving:
        found = moving.done(function, (a,))
        if found is None:
            found = known.unary(function.numpy, a)
        if found is not None:
            return found
    rule = RULES.get((function.numpy, a.form)) if type(a) in ARRAYS else None
    if rule is None or eager_errors:
        return function.general((a,))
    form = rule.form
    if rule.waits or not form.size:
        return function.at_once((a,), (), (), {})
    if rule.template is not None and rule.template.alone >= OFTEN:
        found = single.done(rule.template, function.numpy, (a,), form)
        if found is not None:
            return found
    try:
        source = base.operand(a, form.shape)
    except base.Unaddressable:
        return function.at_once((a,), (), (), {})
    out = recorded(form)
    template = rule.template = record(function.operation, rule.signature, form.shape, (source,),
                                      ((out.storage, out.part),))
    moving.note(function, template)
    KNOWN[function.numpy, a.part.token] = Known(template, form)
    return out if form.shape else core.scalar_class.of(out)


def inplace(function: Any, a: Any, b: Any) -> Any:
    """`a op= b`: the same operation with the target as output."""
    if arithmetic.inplace(function.numpy, a, b):
        return a
    writes = a.meta.flags.writeable
    if function.moving and writes and (moving.done(function, (a, b), a) is not None
                                       or known.inplace(function.numpy, a, b)):
        return a
    kb = type(b)
    rule = RULES.get((function.numpy, a.form, b.form if kb in ARRAYS else kb, "in place"))
    if rule is None or eager_errors or not writes:
        return function.general((a, b), out=(a,))
    shape = rule.form.shape
    if (rule.waits or not rule.form.size
            or a.form.size < core.SMALL and ready(a) and (kb not in ARRAYS or at_hand(b) is not None)):
        return function.at_once((a, b), (a,), (a,), {})
    if (rule.template is not None and rule.template.alone >= OFTEN
            and single.written(rule.template, ("into", function.numpy), (a, b), a, None)):
        return a
    b = access.steady(b) if kb in ARRAYS else b
    other: Any
    try:
        mine = base.operand(a, shape)
        if rule.casts[1] is None:
            part = spread(b, 1, rule.signature[1], shape)
            other = part if type(part) is Scalar else apart(part, mine)
        else:
            other = _tuple(Scalar, (1, rule.signature[1], rule.casts[1](b)))
    except (OverflowError, base.Unaddressable):
        return function.at_once((a, b), (a,), (a,), {})
    template = rule.template = record(function.operation, rule.signature, shape, (mine, other), (mine,))
    moving.note(function, template)
    remember_into(("into", function.numpy), (a, b), a, (mine, other), template, rule.casts)
    return a


def remember_into(key: tuple[Any, ...], operands: tuple[Any, ...], out: Any, inputs: Sequence[Any],
                  template: Any, casts: Sequence[Callable[[Any], Any] | None]) -> None:
    """Keep the call that writes (part of) an array as known, unless it depended on a copy of an operand or on
    the value of an array."""
    for x, source, cast in zip(operands, inputs, casts, strict=True):
        if cast is None and (type(source) is Scalar or source[0] is not x.storage):
            return
    known.keep(key, operands, out, template, casts)


def apart(source: base.Operand, target: base.Operand) -> base.Operand:
    """Return `source`, or a copy if writing `target` could overwrite elements before they are read."""
    ours, theirs = source[1], target[1]
    if source[0] is not target[0]:
        return copied(source) if meets(source[0], target[0]) else source
    if ours is theirs:
        return source
    if ours.frame == theirs.frame and ours.dtype == theirs.dtype:
        if ours.shape == theirs.shape and ours == theirs:
            return source
        if ours.frame == source[0].store.shape and library.overlap(source, target) != "overlap":
            return source
    return copied(source)


def meets(one: Any, other: Any) -> bool:
    """May two stores share memory?  Different stores do if the program wrapped one NumPy array twice."""
    if one is other or not (one.exported and other.exported):
        return one is other
    if one.shared or other.shared:
        return one.shared and other.shared and library.aliased(one, other)
    return numpy.may_share_memory(library.fetch(one), library.fetch(other))


def scratch(shape: tuple[int, ...], name: str) -> base.Operand:
    """Make a temporary store."""
    form = row_major(shape, numpy.dtype(name))
    return library.create(shape, name), form.root


def copied(source: base.Operand) -> base.Operand:
    """Copy a view to a temporary store."""
    name, shape = source[1].dtype, source[1].shape
    place = scratch(shape, name)
    record("copy", (name, name), shape, (source,), (place,))
    return place


def assign(target: base.Operand, value: Any) -> Any:
    """Record `target[...] = value` for an array (given as an operand in the target's shape) or a scalar.

    Returns the template if the same can be recorded again.
    """
    name, shape = target[1].dtype, target[1].shape
    if isinstance(value, Scalar):
        return record("copy", (name, name), shape, (value,), (target,))
    if value[0] is target[0] and value[1] is target[1]:
        return None
    source = apart(value, target)
    template = record("copy", (source[1].dtype, name), shape, (source,), (target,))
    return template if source is value else None


def gathered(x: Array) -> Any:
    """A packed copy of an array, made where its store is; None if that would need its elements here."""
    if eager_errors or not base.locate(x):
        return None
    return duplicate(x)


core.slow.gathered = gathered


def duplicate(x: Array, dtype: numpy.dtype[Any] | None = None, order: Any = "K") -> Any:
    """A copy of an array, cast to `dtype`, in the layout of NumPy's copies."""
    if type(order) is not str:
        order = memory_order(order)
    name = "copy", dtype, order
    found = known.call(name, (x,))
    if found is not None:
        return found
    form = replica(x.meta, x.form.dtype if dtype is None else dtype, order)
    if not form.size or (form.size < core.SMALL and ready(x)) or eager_errors:
        return hosted(host(x).astype(form.dtype, order=order))
    warn_complex(x.form.dtype, form.dtype)
    try:
        source = base.operand(x, form.shape)
    except base.Unaddressable:
        return hosted(host(x).astype(form.dtype, order=order))
    out = recorded(form)
    template = record("copy", (x.form.name, form.name), form.shape, (source,), ((out.storage, form.root),))
    warns = x.form.dtype.kind == "c" and form.dtype.kind not in "cb"  # each time
    if form.size >= core.SMALL and not warns:
        KNOWN[name, name_of(x)] = Known(template, form)
    return out


def warn_complex(source: numpy.dtype[Any], target: numpy.dtype[Any]) -> None:
    """Warn if a cast drops imaginary parts."""
    if source.kind == "c" and target.kind not in "cb":
        floaterrors.warn("Casting complex values to real discards the imaginary part",
                         numpy.exceptions.ComplexWarning, provenance.where(1))


def issue(operation: str, signature: tuple[str, ...], operands: tuple[Any, ...], keep: bool = False,
          into: tuple[Any, Any] | None = None) -> Any:
    """Record an operation that is not a ufunc (`where`, `clip`, `real`) on arrays and scalars; returns a new
    array, or the output array that `into` has beside NumPy's function.

    The call is kept as known if its signature follows from the types of the operands.
    """
    shape, types = shape_of(operands), tuple([numpy.dtype(name) for name in signature])
    order = order_of(operands, types, shape, True) if operation == "clip" else "K"  # it is a ufunc to NumPy
    out = recorded(like([x.meta for x in operands if isinstance(x, Array)], shape, types[-1], order)) \
        if into is None else into[1]
    if out.form.size:
        casts = [None if isinstance(x, Array) else cast_for(numpy.dtype(name), type(x))
                 for x, name in zip(operands, signature, strict=False)]
        there = [x if cast is not None or base.locate(x) else hosted(host(x).copy())  # no view describes it
                 for x, cast in zip(operands, casts, strict=True)]
        place = base.operand(out, shape)
        inputs = tuple([apart(base.operand(x, shape), place) if cast is None
                        else Scalar(k, signature[k], cast(x))
                        for k, (x, cast) in enumerate(zip(there, casts, strict=True))])
        keep = keep and all(map(is_, there, operands)) and out.form.size >= core.SMALL
        template = record(operation, signature, shape, inputs, (place,))
        if keep and into is None:
            KNOWN[(operation, *map(name_of, operands))] = Known(template, out.form, casts)
        elif keep and into is not None:
            remember_into(("into", into[0]), operands, out, inputs, template, casts)
    return out


HARMLESS = {"arctanh": 0.5}
"""Replacements of inputs where a mask is false, if they are not 1."""


def filled(mask: base.Operand, x: Any, name: str, shape: tuple[int, ...], operation: str) -> base.Operand:
    """Replace an input by 1, or 0.5, where the mask is false, so that masked lanes raise no floating-point
    errors."""
    place = scratch(shape, name)
    if type(x) is Scalar:
        x = Scalar(1, name, x.value)
    one = Scalar(2, name, True if name == "bool" else 1 if "int" in name else HARMLESS.get(operation, 1.0))
    record("where", ("bool", name, name, name), shape, (mask, x, one), (place,))
    return place
