"""Ufunc objects: accept NumPy's signatures, raise its errors, and record elementwise tasks and reductions."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy

from diffuse.library import Scalar, floaterrors, operations, provenance
from diffuse.numpy.arrays import arithmetic, base, core, masks, scatter, views
from diffuse.numpy.arrays.access import host, ready
from diffuse.numpy.arrays.base import operand
from diffuse.numpy.arrays.core import ARRAYS, Array, recorded
from diffuse.numpy.arrays.forms import NATIVE, like
from diffuse.numpy.arrays.versions import MASKED
from diffuse.numpy.bridge import fallback, overrides
from diffuse.numpy.ops import elementwise, folds, identity, known, moving, native_gates, rules, scans
from diffuse.numpy.ops.operands import adopt, answering, delegate, foreign, lowered, refused, shared, wrap
from diffuse.numpy.small import native

SPLIT = {name: (f"{name}_0", f"{name}_1") for name in ("divmod", "modf", "frexp")}
"""Operations with two results, each computed by an operation of its own."""

SAME = {"abs": "absolute", "conj": "conjugate"}
FOLDS = {op: operator for operator, op in operations.FOLDS.items()}
SCANS = {operations.FOLDS[operator]: scan for operator, scan in operations.SCANS.items()}
_NoValue: Any = numpy._NoValue
EXTREMA = ("maximum", "minimum")
EXTREMA_OF_TWO = (
    "Passing more than 2 positional arguments to np.maximum and np.minimum is deprecated. If you meant to "
    "use the third argument as an output, use the `out` keyword argument instead. If you hoped to work with "
    "more than 2 inputs, combine them into a single array and get the extrema for the relevant axis.")
"""NumPy's message for an unnamed output array of an extremum."""

_NOTHING = {dtype: numpy.empty(0, dtype) for dtype in NATIVE}
"""Empty arrays that replace operands when NumPy is called for its errors."""


if TYPE_CHECKING or native is None:
    Gate = object
else:
    Gate = native.StaticGate


class ufunc(identity.Identity, Gate):
    """A universal function over Diffuse arrays; it delegates everything that it does not compute itself to
    NumPy.

    With the extension, its gate takes calls on small arrays to NumPy, and others to `call`.
    """

    library = "numpy"
    formula = False
    """Is the operation a formula of Diffuse's own, which replaces the library's function?"""
    told_by_types = True
    """Do the types of the operands determine which operation a call records?"""

    def __init__(self, function: Any, operation: str | None = None) -> None:
        self.numpy = function
        self.__name__ = function.__name__
        self.nin, self.nout, self.nargs = function.nin, function.nout, function.nargs
        self.ntypes, self.types, self.identity = function.ntypes, function.types, function.identity
        self.signature = function.signature
        self.told = fallback.lines()
        """The lines of the program that were warned that NumPy computes `reduceat`."""
        self.moving = False
        """Is there a place in the program that calls it on other views in every iteration (moving.py)?"""
        self.operation = operation or SAME.get(self.__name__, self.__name__)
        self.recordable = function.signature is None and all(
            operations.known(name) for name in SPLIT.get(self.operation, (self.operation,)))
        if native is not None:
            native_gates.with_gates(self, function)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            if len(args) == 2 and self.nin == 2 and self.nout == 1:
                a, b = args
                found = arithmetic.binary(self.numpy, a, b)
                return elementwise.first_binary(self, a, b) if found is None else found
            if len(args) == 1 and self.nin == 1 and self.nout == 1:
                found = arithmetic.unary(self.numpy, args[0])
                return elementwise.first_unary(self, args[0]) if found is None else found
            if len(args) == self.nin + 1 and self.nout == 1 and self.__name__ not in EXTREMA:
                *operands, target = args
                if self.again(tuple(operands), target):
                    return target
        elif len(kwargs) == 1 and len(args) == self.nin and self.nout == 1:
            target = kwargs.get("out")
            if self.again(args, target):
                return target
        if len(args) > self.nin and len(args) <= self.nargs and "out" not in kwargs:
            if self.__name__ in EXTREMA:
                floaterrors.warn(EXTREMA_OF_TWO, DeprecationWarning, provenance.where(1))
            out = args[self.nin:] + (None,) * (self.nargs - len(args))
            return self.general(args[:self.nin], out=out, **kwargs)
        if len(args) != self.nin:  # NumPy raises the error
            return fallback.call(self.numpy, args, kwargs)
        out = kwargs.get("out", ())
        if out is Ellipsis or (self.nout > 1 and not isinstance(out, tuple)):  # NumPy knows
            return fallback.call(self.numpy, args, kwargs, silent="foreign")
        if MASKED and kwargs.get("where", True) is not True and "out" not in kwargs and not self.signature:
            floaterrors.warn(MASKED, UserWarning, provenance.where(1))
        out = kwargs.pop("out", None)
        return self.general(args, out=out if out is None or isinstance(out, tuple) else (out,), **kwargs)

    if native is None:
        __call__ = call

    def again(self, operands: tuple[Any, ...], target: Any) -> bool:
        """Write to an output array at once or as it was recorded before; returns False if neither can be."""
        return type(target) is core.array_class and (
            arithmetic.into(self.numpy, operands, target)
            or known.into(("into", self.numpy), operands, target))

    def general(self, args: tuple[Any, ...], out: tuple[Any, ...] | None = None, **options: Any) -> Any:
        """Handle any call: operands of any type, output arrays, and NumPy's keywords."""
        outs = out if out is not None else (None,) * self.nout
        if len(outs) != self.nout:
            raise ValueError("The 'out' tuple must have exactly one entry per ufunc output")
        order = options.get("order")
        gaps = type(order) is str and order in ("A", "a")
        operands = tuple([adopt(x, gaps=gaps) for x in args])
        targets = tuple([adopt(x, writing=True) for x in outs])
        mask = given = options.get("where", True)
        if mask is not True:
            if type(mask) in (list, tuple):
                mask = numpy.array(lowered(mask), bool)
            mask = mask.value() if type(mask) in core.PENDING else mask
            mask = options["where"] = adopt(mask, gaps=gaps)
        known = all(x in ARRAYS or x in rules.WEAK or x in rules.STRONG for x in map(type, operands))
        if (not known or elementwise.eager_errors or self.signature is not None
                or not any(type(x) in ARRAYS for x in (*operands, *targets, mask))
                or any(x is not None and type(x) is not core.array_class for x in targets)
                or (mask is not True and type(mask) not in ARRAYS)):
            plain = known and out is None and mask is True
            if not plain and overrides.answer((*operands, *targets, mask)):  # asked with what was given
                if mask is not True:
                    options["where"] = given
                return self.numpy(*args, **options, **({} if out is None and mask is True else {"out": outs}))
            return self.at_once(_as_given(args, operands), targets, outs, options, wrap if known else shared)
        if out is None and not options:
            return self.plain(operands)
        found = self.full(operands, targets, outs, options)
        return self.at_once(_as_given(args, operands), targets, outs, options) if found is None else found

    def plain(self, operands: tuple[Any, ...]) -> Any:
        """Handle a call without keywords, seen for the first time with these types and shapes."""
        try:
            rule = rules.plan(self, operands)
        except (OverflowError, base.Unaddressable):
            rule = None
        if rule is None or self.nout != 1 or self.nin > 2:
            none = (None,) * self.nout
            found = None if rule is None else self.full(operands, none, none, {})
            return self.at_once(operands, (), (), {}) if found is None else found
        key = [x.form if type(x) in ARRAYS else type(x) for x in operands]
        rules.RULES[self.numpy, *key] = rule
        return elementwise.binary(self, *operands) if self.nin == 2 else elementwise.unary(self, operands[0])

    def at_once(self, operands: tuple[Any, ...], targets: tuple[Any, ...], outs: tuple[Any, ...],
                options: dict[str, Any], show: Any = wrap) -> Any:
        """Call NumPy's own ufunc on the memory of the operands, after waiting for it.  `show` converts a new
        array; the result of an operand of another class may be an array that it keeps."""
        kwargs = {k: lowered(v) if isinstance(v, Array) else v for k, v in options.items()}
        if any(o is not None for o in targets) or "where" in kwargs:  # the warning was given
            given = targets or (None,) * self.nout
            kwargs["out"] = tuple([base.writable(o) if isinstance(o, Array) else o for o in given])
        values = [host(x) if isinstance(x, Array) else x for x in operands]
        try:
            found = self.numpy(*values, **kwargs)
        except ValueError as error:
            if not refused(error):
                raise
            found = self.numpy(*[x if delegate(x) else answering(x) for x in values], **kwargs)
        for target in targets:
            if isinstance(target, Array):
                base.wrote(target)
        if found is NotImplemented:
            return found
        written: Any = kwargs.get("out", ())
        if self.nout == 1 or type(found) is not tuple:
            return _shown(found, written, outs, show)
        return tuple([_shown(result, written, outs, show) for result in found])

    def full(self, operands: tuple[Any, ...], targets: tuple[Any, ...], outs: tuple[Any, ...],
             options: dict[str, Any]) -> Any:
        """Record a call with outputs or keywords; None if NumPy has to compute it at once."""
        if (set(options) - {"where", "dtype", "casting", "order", "subok"} or not self.recordable
                or any(not o.meta.flags.writeable for o in targets if o is not None)):
            return None
        mask, casting = options.get("where", True), options.get("casting", "same_kind")
        if type(casting) is not str or type(options.get("order", "K")) is not str:
            return None  # NumPy raises the error
        if casting == "equiv" and not all(isinstance(x, Array) for x in operands):
            return None  # NumPy 2.4 would crash in `resolve_dtypes`
        try:
            types = rules.resolve(self, operands, targets, options.get("dtype"), casting)
        except (TypeError, ValueError):  # which NumPy finds in an order of its own, among other errors
            return None
        if len(targets) == 1 and targets[0] is operands[0] and self.nin == 2 and not options:
            rule = rules.plan_inplace(self, *operands)
            if rule is not None:
                key = operands[1].form if type(operands[1]) in ARRAYS else type(operands[1])
                rules.RULES[self.numpy, operands[0].form, key, "in place"] = rule
        arrays = [x for x in (*operands, *targets, mask) if isinstance(x, Array)]
        small = (all(x.form.size < core.SMALL or not x.form.size for x in arrays)
                 and rules.broadcast_size([x.form.shape for x in arrays]) < core.SMALL)
        whole = self.operation == "power" and types[0].kind in "iu"  # its errors depend on the values
        small = small and (not self.exact(types) or all(map(ready, arrays)))
        narrowed = any(isinstance(x, Array) and folds.narrows(x, t)  # NumPy may warn
                       for x, t in zip(operands, types, strict=False))
        if (whole or narrowed or any(t not in NATIVE for t in types) or small
                or (mask is not True and mask.form.name != "bool") or rules.beyond(operands)
                or (mask is not True and masks.copies(operands, targets, types[self.nin:]))
                or len(targets) == 2 and (masks.meeting(*targets) or _halfway(targets, arrays))):
            return None
        if options:
            self.check(operands, targets, options)
        try:
            shape = rules.shape_of(operands, targets, None if mask is True else mask)
            return self._record(operands, targets, outs, types, mask, options.get("order", "K"), not options,
                                shape)
        except (OverflowError, TypeError, ValueError, base.Unaddressable):
            return None

    def check(self, operands: tuple[Any, ...], targets: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Raise NumPy's errors for options, and give its warnings for casts, by a call without elements."""
        nothing = [_NOTHING[x.form.dtype] if isinstance(x, Array) else x for x in operands]
        given = {name: option for name, option in options.items() if name != "where"}
        empty = tuple([None if o is None else _NOTHING[o.form.dtype] for o in targets])
        numbers = not any(isinstance(x, Array) for x in (*operands, *targets))  # beside a mask: one element
        with numpy.errstate(all="ignore") if numbers else nullcontext():
            self.numpy(*nothing, **given, out=empty)

    def exact(self, types: tuple[numpy.dtype[Any], ...]) -> bool:
        """Do the kernels for these types have NumPy's bits?"""
        names = tuple([t.name for t in types[:self.nin]])
        return all(operations.exact(name, names) for name in SPLIT.get(self.operation, (self.operation,)))

    def _record(self, operands: tuple[Any, ...], targets: tuple[Any, ...], outs: tuple[Any, ...],
                types: tuple[numpy.dtype[Any], ...], mask: Any, order: str, plain: bool,
                shape: tuple[int, ...]) -> Any:
        casts = [None if isinstance(x, Array) else rules.cast_for(t, type(x))
                 for x, t in zip(operands, types, strict=False)]
        numbers = [None if cast is None else Scalar(k, NATIVE[t], cast(x))
                   for k, (x, t, cast) in enumerate(zip(operands, types, casts, strict=False))]
        mirrors = [x.meta for x in (*operands, mask) if isinstance(x, Array)]
        if order in ("A", "a", "k") or order == "K" and not all([m.flags.c_contiguous for m in mirrors]):
            order = rules.order_of(operands, types, shape, mask, order)
        fresh = [o if o is not None else recorded(like(mirrors, shape, t, order))
                 for o, t in zip(targets, types[self.nin:], strict=True)]
        if 0 not in shape:
            inputs = [elementwise.spread(x, k, NATIVE[types[k]], shape) if n is None else n
                      for k, (x, n) in enumerate(zip(operands, numbers, strict=True))]
            places = [operand(o, shape) for o in fresh if base.unfolded(o.form)]
            signature = tuple([NATIVE[t] for t in types])
            template = self._issue(inputs, places, signature, shape,
                                   None if mask is True else operand(mask, shape))
            if template is not None:
                moving.note(self, template)
            if (plain and mirrors and template is not None and fresh[0] is targets[0]
                    and fresh[0].form.size >= core.SMALL):
                elementwise.remember_into(("into", self.numpy), operands, fresh[0], inputs, template, casts)
        shown = tuple([f if o is None else o for f, o in zip(fresh, outs, strict=True)])
        if not shape:
            shown = tuple(
                [core.scalar_class.of(f) if o is None else o for f, o in zip(fresh, outs, strict=True)]
            )
        return shown if self.nout > 1 else shown[0]

    def _issue(self, inputs: list[Any], places: list[base.Operand], signature: tuple[str, ...],
               shape: tuple[int, ...], mask: base.Operand | None) -> Any:
        """Record one task per output, after copies of inputs that an output would overwrite too early.
        Returns the template if a single task is the whole call."""
        split, given = len(places) > 1, inputs
        for place in places:
            inputs = [x if isinstance(x, Scalar) else elementwise.apart(x, place) for x in inputs]
        if split:  # the first output is written before the second operation reads
            inputs = [
                elementwise.copied(x)
                if not isinstance(x, Scalar) and any(elementwise.meets(x[0], p[0]) for p in places)
                else x
                for x in inputs
            ]
        if mask is not None:
            mask = elementwise.copied(mask) if any(elementwise.meets(mask[0], p[0]) for p in places) else mask
            inputs = [elementwise.filled(mask, x, name, shape, self.operation)
                      for x, name in zip(inputs, signature, strict=False)]
        for n, (name, place) in enumerate(
            zip(SPLIT.get(self.operation, (self.operation,)), places, strict=True)
        ):
            result = signature[self.nin + n]
            types = (*signature[:self.nin], result)
            if mask is None:
                template = elementwise.record(name, types, shape, tuple(inputs), (place,))
                continue
            written = place[1].dtype
            computed = elementwise.scratch(shape, written)
            elementwise.record(name, types, shape, tuple(inputs), (computed,))
            elementwise.record(
                "where", ("bool", written, written, written), shape, (mask, computed, place), (place,)
            )
        same = all(one is other for one, other in zip(given, inputs, strict=True))
        return template if mask is None and not split and same else None

    def reduce(self, array: Any, axis: Any = _NoValue, dtype: Any = _NoValue, out: Any = None,
               keepdims: Any = _NoValue, initial: Any = _NoValue, where: Any = _NoValue) -> Any:
        operator, target = FOLDS.get(self.__name__), alone(out)
        if (operator is None or foreign(array) or type(target) is tuple or out is Ellipsis
                or isinstance(array, numpy.generic) or out is not None and foreign(target)
                or where is not _NoValue and foreign(where)):
            return self._method("reduce", (array,), axis=axis, dtype=dtype, out=out, keepdims=keepdims,
                                initial=initial, where=where)
        axis, where = (0 if axis is _NoValue else axis), (True if where is _NoValue else where)
        dtype = None if dtype is _NoValue else dtype
        return folds.reduce(operator, array, axis, dtype, target, keepdims, initial, where)

    def accumulate(self, array: Any, axis: Any = _NoValue, dtype: Any = _NoValue, out: Any = None) -> Any:
        target, along = alone(out), 0 if axis is _NoValue else axis
        number = isinstance(along, (int, numpy.integer, numpy.bool_))
        if (self.__name__ in SCANS and number and hasattr(array, "ndim") and array.ndim
                and not foreign(array) and type(target) is not tuple and out is not Ellipsis
                and (out is None or not foreign(target))):
            wanted = None if dtype is _NoValue else dtype
            return scans.scan(SCANS[self.__name__], array, along, wanted, target, self.numpy.accumulate)
        return self._method("accumulate", (array,), axis=axis, dtype=dtype, out=out)

    def outer(self, *args: Any, **kwargs: Any) -> Any:
        """The outer product; numbers count as 0-d arrays, of a type of their own."""
        if self.nin != 2 or self.signature or len(args) != 2 or any(map(foreign, args)):
            return self._method("outer", args, **kwargs)
        first, second = [adopt(x if isinstance(x, Array) else numpy.asarray(x)) for x in args]
        if isinstance(first, Array) and isinstance(second, Array):
            spread = first.form.shape + (1,) * second.form.ndim
            return self(views.reshape(first, spread), second, **kwargs)
        if first.ndim and second.ndim:
            return self._method("outer", args, **kwargs)
        return self(first, second, **kwargs)

    def at(self, array: Any, *args: Any) -> Any:
        if len(args) == 2 and type(array) is core.array_class and not overrides.answer(args):
            if self.__name__ in operations.SCATTERED and scatter.few_at(self.numpy.at, array, *args):
                return None
            if scatter.fold_at(self, array, *args):
                return None
            if self.__name__ in operations.SCATTERED:
                name = f"{self.library}.{self.__name__}.at"
                return fallback.call(self.numpy.at, (array, *args), {}, name, "library")
        return self._method("at", (array, *args))

    def reduceat(self, array: Any, indices: Any, axis: Any = _NoValue, dtype: Any = _NoValue,
                 out: Any = None) -> Any:
        found = self._method("reduceat", (array, indices), axis=axis, dtype=dtype, out=out)
        self.told.add(provenance.where(2))
        return found

    def _method(self, name: str, args: tuple[Any, ...], **options: Any) -> Any:
        given = {key: value for key, value in options.items()
                 if value is not _NoValue and (key != "out" or value is not None)}
        method = getattr(self.numpy, name)
        if overrides.answer((*args, options.get("out"), options.get("where"))):
            return method(*args, **given)
        return fallback.call(method, args, given, f"{self.library}.{self.__name__}.{name}")


def _as_given(args: tuple[Any, ...], operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands for a call of NumPy: arrays as they were given, not copies of them for tasks.  The inner
    loops that NumPy chooses by strides differ in the last bits, and it asks whether outputs share memory with
    operands."""
    return tuple([x if type(x) in (numpy.ndarray, core.array_class) else o
                  for x, o in zip(args, operands, strict=True)])


def _halfway(targets: tuple[Any, ...], arrays: list[Array]) -> bool:
    """Does the layout of the new one of two results depend on that of the output given for the other?"""
    return ((targets[0] is None) != (targets[1] is None)
            and not all(x.meta.flags.c_contiguous for x in arrays))


def _shown(result: Any, written: tuple[Any, ...], outs: tuple[Any, ...], show: Any) -> Any:
    """Convert a result of NumPy for the program: one of its outputs, unless a class handled the call."""
    for memory, out in zip(written, outs, strict=False):
        if memory is result and out is not None:
            return out
    return show(result)


def alone(out: Any) -> Any:
    """The output of a ufunc's method, which may be given as a tuple of one; a tuple that NumPy refuses stays
    one."""
    return out[0] if type(out) is tuple and len(out) == 1 and out[0] is not None else out


UFUNCS: dict[str, ufunc] = base.UFUNCS
for _name, _function in sorted(vars(numpy).items()):
    if isinstance(_function, numpy.ufunc):
        _known = UFUNCS.get(_function.__name__)
        UFUNCS[_name] = _known if _known is not None else ufunc(_function)
        UFUNCS.setdefault(_function.__name__, UFUNCS[_name])
