"""Creation: makes Diffuse arrays from shapes and ranges."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy

from diffuse import library
from diffuse.library import Scalar, again_into, provenance, quiet, trace
from diffuse.numpy.arrays import core
from diffuse.numpy.arrays.access import DOUBTED, host, made_at_once
from diffuse.numpy.arrays.base import element_type
from diffuse.numpy.arrays.core import Array, hosted, recorded, viewing
from diffuse.numpy.arrays.forms import (
    NATIVE,
    RESERVE,
    Form,
    Mirror,
    column_major,
    computable,
    row_major,
)
from diffuse.numpy.arrays.indices import know
from diffuse.numpy.arrays.lending import root
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import elementwise, single
from diffuse.numpy.ops.conversion import asanyarray, asarray, elsewhere
from diffuse.numpy.ops.known import DEPTH, KNOWN, Known
from diffuse.numpy.ops.operands import adopt, lowered, shared, wrap
from diffuse.numpy.small import native

NOTHING = numpy.dtype([])
"""An element type without bytes: an array of it has a shape, and takes no memory."""

BEGUN = 2
"""NumPy makes zeros of up to so many times the size of small arrays where no task uses them next."""


def extents_of(shape: Any) -> tuple[int, ...]:
    """Check a shape argument, with NumPy's errors and warnings."""
    found: tuple[int, ...] = numpy.empty(lowered(shape), NOTHING).shape
    return found


def _form(shape: tuple[int, ...], dtype: numpy.dtype[Any], order: Any) -> Any:
    if type(order) is not str or order not in ("C", "F", "c", "f"):
        numpy.empty((), order=order)
        order = "C"
    if order in ("F", "f"):
        return column_major(shape, dtype)
    return row_major(shape, dtype)


def _filled(shape: Any, value: Any, dtype: Any, order: Any, instead: Callable[..., Any]) -> Any:
    kind = element_type(float if dtype is None else dtype)
    if not computable(kind):
        return instead(lowered(shape), dtype=dtype, order=order)
    return constant(_form(extents_of(shape), kind, order), value)


def constant(target: Any, value: Any) -> Any:
    """A new array filled with one value (a Python number of the array's type)."""
    if target.size < max(core.SMALL, 1):
        memory = _memory(target)
        memory.fill(value)
        if target.name == "float64" and target.ordered and len(SMALL_FORMS) < 1024:
            SMALL_FORMS[target.shape] = target
        return hosted(memory)
    key = "constant", target
    known = KNOWN.get(key)
    found = None if known is None or native is None else native.filled(known, value)
    if found is not None:
        return found
    x = recorded(target)
    if known is not None:
        again_into(known.template, (), x.storage, (value,), DEPTH - 1)
        return x
    template = elementwise.record("copy", (target.name, target.name), target.shape,
                                  (Scalar(0, target.name, value),), ((x.storage, x.part),))
    KNOWN[key] = Known(template, target)
    return x


def _memory(target: Form) -> Mirror:
    """Allocate memory for a form, not initialised."""
    return numpy.empty(target.shape, target.dtype) if target.ordered else numpy.empty_like(target.mirror)


def number_of(value: int, dtype: numpy.dtype[Any]) -> Any:
    return dtype.type(value).item()


def empty(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None) -> Any:
    if (device is not None or like is not None) and elsewhere(device, like):
        return fallback.asked(numpy.empty, shape, dtype, order, like=like)
    if not core.SEES:  # otherwise the extension's gate need not check whether NumPy's memory would do
        core.see(library.current().host_sees)
    usual = (dtype is None or dtype is float) and type(order) is str and order == "C"
    if usual and type(shape) is int and shape >= max(core.SMALL, 1):
        return recorded(row_major((shape,), FLOAT))
    kind = element_type(dtype)
    if not computable(kind):
        return numpy.empty(lowered(shape), dtype, order)
    return fresh(_form(extents_of(shape), kind, order))


def fresh(target: Form) -> Any:
    """A new array whose elements are not written yet."""
    if target.size < max(core.SMALL, 1):
        return hosted(_memory(target))
    return recorded(target)


FLOAT = numpy.dtype(float)
INT = frozenset({int})
SMALL_FORMS: dict[tuple[int, ...], Form] = {}
"""Cached forms of small arrays of zeros, by shape."""


def zeros(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None) -> Any:
    if (device is not None or like is not None) and elsewhere(device, like):
        return fallback.asked(numpy.zeros, shape, dtype, order, like=like)
    usual = (dtype is None or dtype is float) and type(order) is str and order == "C"
    if usual and (type(shape) is int or type(shape) is tuple):
        extents = shape if type(shape) is tuple else (shape,)
        known = SMALL_FORMS.get(extents)
        if known is not None and known.size < core.SMALL and INT.issuperset(map(type, extents)):
            return hosted(numpy.zeros(extents), known)
        found = _begun(extents) if core.SEES and INT.issuperset(map(type, extents)) else None
        if found is not None:
            return found
    kind = element_type(dtype)
    return _filled(shape, number_of(0, kind) if kind in NATIVE else 0, dtype, order, numpy.zeros)


def _begun(shape: tuple[int, ...]) -> Any:
    """NumPy's zeros of a shape that is not much larger than small ones; None where a task has to write them.

    NumPy makes them while no task is held or runs, at lines of the program whose zeros no task used next: a
    program that goes on with small parts of them would wait for the fill alone.
    """
    size = prod(shape)
    if not core.SMALL <= size < BEGUN * core.SMALL or not library.current().idle:
        return None
    place = single.place(_begun, provenance.where())
    if place.alone >= DOUBTED:
        return None
    trace.counters["single"] += 1
    return made_at_once(numpy.zeros(shape), place)


def ones(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None) -> Any:
    if (device is not None or like is not None) and elsewhere(device, like):
        return fallback.asked(numpy.ones, shape, dtype, order, like=like)
    kind = element_type(dtype)
    return _filled(shape, number_of(1, kind) if kind in NATIVE else 1, dtype, order, numpy.ones)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *, device: Any = None,
         like: Any = None) -> Any:
    if (device is not None or like is not None) and elsewhere(device, like):
        return fallback.asked(numpy.full, shape, fill_value, dtype, order, like=like)
    value = adopt(fill_value)
    if dtype is None:
        dtype = (value.form.dtype if isinstance(value, Array)
                 else FLOAT if type(value) is float else asarray(fill_value).dtype)
    return holding(empty(shape, dtype, order), fill_value)


def _cast(value: Any, dtype: numpy.dtype[Any]) -> Any:
    """Cast a number, date or text as NumPy does to fill an array: NaN and dates become integers, unlike in an
    assignment."""
    if dtype is FLOAT and type(value) is float:
        return value
    if type(value) in (list, tuple, range):  # an array of a type of its own first, whose cast raises nothing
        return asanyarray(value)
    if not isinstance(value, (int, float, complex, str, bytes, numpy.generic)) or dtype not in NATIVE:
        return value
    cell = numpy.empty((), dtype)
    numpy.copyto(cell, value, "unsafe")
    return cell[()]


def holding(x: Any, value: Any) -> Any:
    """Fill a new array with a value, cast as NumPy does that, and return it."""
    if x.dtype in NATIVE and x.size:
        x[...] = _cast(value, x.dtype)
    else:
        fallback.silently(numpy.copyto, x, value, "unsafe")
    return x


def arange(*args: Any, dtype: Any = None, device: Any = None, like: Any = None, **named: Any) -> Any:
    """NumPy's arange: its length and its first two values determine it; the rest is start + i * delta."""
    if (device is not None or like is not None) and elsewhere(device, like):
        return fallback.asked(numpy.arange, *args, dtype=dtype, like=like, **named)
    if named or len(args) > 3:  # raises if a name is wrong, given twice or missing
        options = {"dtype": dtype, **dict.fromkeys(named, 1)}
        fallback.call(numpy.arange, (*[1 for _ in args[:3]], *args[3:]), options, silent="inspection")
    bounds: list[Any] = [host(a) if isinstance(a, Array) else a for a in args]
    named = {k: host(v) if isinstance(v, Array) else v for k, v in named.items()}
    if len(bounds) == 4:
        dtype = bounds.pop()
    given: list[Any] = [v[()] if isinstance(v, numpy.ndarray) else v for v in _range(bounds, named)]
    begin, end, step = given
    real = (int, float, numpy.integer, numpy.floating)
    if (end is None or any(v is None for v in bounds[:2])
            or not all(isinstance(v, real) for v in (begin, end, step))
            or any(isinstance(v, numpy.timedelta64) for v in (begin, end, step))):
        return wrap(numpy.arange(*bounds, dtype=dtype, **named))
    if not step:
        return numpy.arange(*bounds, dtype=dtype, **named)  # raises
    kind = numpy.arange(*[type(v)(1) for v in (begin, end, step)], dtype=dtype).dtype
    length = (
        -(-(end - begin) // step)
        if isinstance(begin, int) and isinstance(end, int) and isinstance(step, int)
        else float(numpy.ceil((end - begin) / step))
    )
    if not max(core.SMALL, 2) <= length < RESERVE.size or not computable(kind) or kind.kind == "b":
        return wrap(numpy.arange(*bounds, dtype=dtype, **named))
    first, second = (numpy.asarray(v).astype(kind)[()] for v in (begin, begin + step))
    with quiet():
        delta = (second - first).item()
    if kind.name == "float16" or kind.kind == "c":
        return wrap(numpy.arange(*bounds, dtype=dtype, **named))
    x = recorded(row_major((int(length),), kind))
    name = kind.name
    library.record("arange", (name, name, name), x.form.shape,
                  (Scalar(0, name, first.item()), Scalar(1, name, delta)), ((x.storage, x.part),))
    last = first.item() + (x.form.size - 1) * delta
    if name == "int64" and abs(last) < 1 << 62:
        know(x, min(first.item(), last), max(first.item(), last))
    return x


def _range(args: list[Any], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    """start, stop and step as `arange` reads its arguments; stop is None if NumPy should raise an error."""
    begin, end, step = (args + [None] * 3)[:3]
    begin, end, step = named.get("start", begin), named.get("stop", end), named.get("step", step)
    if end is None:
        begin, end = None, begin
    return (0 if begin is None else begin), end, (1 if step is None else step)


def linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False,
             dtype: Any = None, axis: int = 0, *, device: Any = None) -> Any:
    """NumPy's linspace: i * step + start in floating point, the last value exact."""
    elsewhere(device, None)
    values = [host(v)[()] if isinstance(v, Array) and v.form.ndim == 0 else v for v in (start, stop)]
    count = operator.index(num)
    plain = {int, float, numpy.float64}.issuperset(map(type, values))
    huge = any(type(v) is int and not -(1 << 63) <= v < 1 << 63 for v in values)  # an object to NumPy
    if (not plain or huge or count < max(core.SMALL, 3) or axis not in (0, -1)
            or (dtype is not None and element_type(dtype) != numpy.float64)):
        if plain and not retstep:
            ramp: Any = numpy.linspace
            return wrap(ramp(*values, num, endpoint, dtype=dtype, axis=axis))
        return fallback.asked(numpy.linspace, *values, num, endpoint, retstep, dtype, axis)
    first, last = (float(v) for v in values)
    parts = count - 1 if endpoint else count
    delta = last - first
    step = delta / parts
    ramp = arange(0, count, dtype=float)
    x = ramp * step + first if step != 0 else ramp / parts * delta + first
    if endpoint:  # in the same pass, where a write to the element would be a task of its own
        x = elementwise.issue("where", ("bool", *["float64"] * 3), (ramp == parts, numpy.float64(last), x))
    return (x, numpy.float64(step)) if retstep else x


def eye(N: int, M: Any = None, k: int = 0, dtype: Any = float, order: Any = "C", *, device: Any = None,
        like: Any = None) -> Any:
    if (device is not None or like is not None) and elsewhere(device, like):
        return fallback.asked(numpy.eye, N, M, k, dtype, order, like=like)
    rows, columns = extents_of((N, N if M is None else M))
    x = zeros((rows, columns), dtype, order)
    if k >= columns:
        return x
    k = operator.index(k)
    if isinstance(x, Array) and -rows < k < columns:
        diagonal = x.meta.diagonal(k)
        diagonal.flags.writeable = True
        viewing(x, diagonal)[...] = 1
    elif not isinstance(x, Array):
        return numpy.eye(rows, columns, k, dtype, order)
    return x


def identity(n: int, dtype: Any = None, *, like: Any = None) -> Any:
    if like is not None and elsewhere(None, like):
        return fallback.asked(numpy.identity, n, dtype=dtype, like=like)
    return eye(n, dtype=float if dtype is None else dtype)


def frombuffer(buffer: Any, dtype: Any = None, count: int = -1, offset: int = 0, *, like: Any = None) -> Any:
    if like is not None and elsewhere(None, like):
        return fallback.asked(numpy.frombuffer, buffer, dtype, count, offset, like=like)
    return shared(numpy.frombuffer(buffer, dtype, count, offset))


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, like: Any = None,
                 **kwargs: Any) -> Any:
    if like is not None and elsewhere(None, like):
        return fallback.asked(numpy.fromfunction, function, shape, dtype=dtype, like=like, **kwargs)
    found = indices(shape, dtype)
    return function(*[found[k] for k in range(len(found))], **kwargs)


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    shape = extents_of(tuple(dimensions))
    grids = [arange(n, dtype=dtype).reshape((1,) * d + (n,) + (1,) * (len(shape) - d - 1))
             for d, n in enumerate(shape)]
    if sparse:
        return tuple(grids)
    x = empty((len(shape), *shape), dtype)
    for d, grid in enumerate(grids):
        x[d] = grid
    return x


def stored(memory: Mirror) -> Any:
    """Make an array from a pickle.  Bytes in the stream become the array's own memory; other buffers are the
    program's."""
    own = isinstance(root(memory), (numpy.ndarray, bytes, bytearray))
    return wrap(memory) if own else shared(memory)


def blank() -> Any:
    """Make an array without elements, which `__setstate__` fills from a pickle."""
    return core.hosted(numpy.empty(0))


def assembled(make: Callable[..., Any], arguments: tuple[Any, ...], state: Any) -> Any:
    """Make an array from a pickle that has its elements in the stream itself."""
    memory = make(*arguments)
    memory.__setstate__(state)
    return wrap(memory)
