"""Conversion: from sequences, NumPy arrays and other libraries' objects to Diffuse arrays, and copies."""

from __future__ import annotations

from typing import Any

import numpy
from numpy.lib.stride_tricks import as_strided

from diffuse.numpy.arrays import core
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.base import element_type, exported
from diffuse.numpy.arrays.core import Array, viewing
from diffuse.numpy.arrays.forms import Mirror, computable, copying, memory_order
from diffuse.numpy.bridge import exposed, fallback
from diffuse.numpy.ops import elementwise
from diffuse.numpy.ops.operands import PLAIN, Answer, answering, foreign, lowered, refused, shared, wrap

NUMBERS = frozenset((bool, int, float, complex))


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: bool | None = None, device: Any = None,
            like: Any = None) -> Any:
    """NumPy's asarray: Diffuse arrays as they are, NumPy arrays shared, everything else converted."""
    if (device is not None or like is not None) and elsewhere(device, like):
        return fallback.asked(numpy.asarray, a, dtype=dtype, order=order, copy=copy, like=like)
    if type(a) is core.array_class and dtype is None and order is None and copy is None:
        return a
    if copy is not None:
        copy = copying(copy)
    if isinstance(a, Array):
        return _converted(a, dtype, order, copy)
    if type(a) is numpy.ndarray and not copy:
        found = numpy.asarray(a, dtype, order, copy=copy)
        return shared(found) if numpy.may_share_memory(found, a) else wrap(found)
    if exposed.shares(a):
        return asarray(exposed.adopt(a), dtype, order, copy=copy)
    found, given = _asked(a, dtype, copy=copy, order=order or "K")
    if given is not None:
        return given
    if copy:
        return _copied(a, found)
    return wrap(found) if type(a) in PLAIN else _lent(found)


def _copied(value: Any, array: Any) -> Any:
    """An array over NumPy's copy of a value.  It is no copy if the value's `__array__` returns its own memory
    all the same, as that of NumPy's iterators (`x.flat`) does."""
    return wrap(array) if type(value) in PLAIN else shared(array)


def _lent(array: Any) -> Any:
    """An array over memory that other code holds; a NumPy array if it has few elements."""
    return array if type(array) is numpy.ndarray and array.size < core.TINY else shared(array)


def _asked(value: Any, dtype: Any, **options: Any) -> tuple[Any, Any]:
    """NumPy's array of any object; and the Diffuse array, if the object's `__array__` returned one."""
    ours: dict[int, tuple[Mirror, Array]] = {}
    plain = value if type(value) in (list, tuple) and not _contains(value) else _plain(value, ours)
    try:
        found = numpy.array(plain, dtype, **options)
    except ValueError as error:
        if not refused(error):
            raise
        answer = answering(plain)
        found = numpy.array(answer, dtype, **options)
        same = type(answer) is Answer and found is answer.memory and type(answer.given) is core.array_class
        return found, answer.given if same else None
    if isinstance(dtype, Array):
        element_type(dtype)  # raises
    if ours and found.dtype == object:
        flat = found.ravel("K")  # a view: the array is fresh
        for k in [k for k in range(flat.size) if id(flat[k]) in ours]:
            flat[k] = ours[id(flat[k])][1]
    return found, None


def _plain(value: Any, ours: dict[int, tuple[Mirror, Array]]) -> Any:
    """Convert as `lowered`; `ours` maps NumPy's arrays to Diffuse's, because an element that is an array has
    to be the program's own."""
    if type(value) in (list, tuple):
        return type(value)([_plain(v, ours) for v in value])
    memory = lowered(value)
    if type(value) is core.array_class:
        ours[id(memory)] = memory, value
    return memory


def elsewhere(device: Any, like: Any) -> bool:
    """Does the call request an array of another library?  Requests for another device raise NumPy's error."""
    if device not in (None, "cpu"):
        numpy.empty(0, device=device)
    if type(like) in core.PENDING:
        number: Any = 0.0
        numpy.empty(0, like=number)  # raises: no number is like an array
    return like is not None and not isinstance(like, Array) and type(like) is not numpy.ndarray


def _converted(a: Array, dtype: Any, order: Any, copy: bool | None) -> Any:
    target = a.form.dtype if dtype is None else element_type(dtype)
    order = memory_order(order)
    if not computable(target):  # of an element, objects would be Python's number
        given = exported(a) if type(a) is core.array_class else host(a)[()]
        return numpy.array(given, dtype, copy=copy, order=order)
    flags = a.meta.flags
    fits = order in ("K", "A") or (flags.c_contiguous if order == "C" else flags.f_contiguous)
    if not copy and target == a.form.dtype and fits:
        return a if type(a) is core.array_class else viewing(a, a.meta.view())
    if copy is False:
        numpy.asarray([], copy=False)  # raises NumPy's error
    return elementwise.duplicate(a, target, "K" if order == "A" and target != a.form.dtype else order)


def asanyarray(a: Any, dtype: Any = None, order: Any = None, **options: Any) -> Any:
    """Convert as `asarray`; NumPy's subclasses (`numpy.matrix`, masked arrays) stay what they are."""
    if type(a) is core.array_class and dtype is None and order is None and not options:
        return a
    if options.get("like") is not None and elsewhere(None, options["like"]):
        return fallback.asked(numpy.asanyarray, a, dtype=dtype, order=order, **options)
    if isinstance(a, numpy.ndarray) and type(a) is not numpy.ndarray:
        return numpy.asanyarray(a, dtype, order, **options)
    return asarray(a, dtype, order, **options)


def array(object: Any, dtype: Any = None, *, copy: bool | None = True, order: Any = "K", subok: bool = False,
          ndmin: int = 0, ndmax: int = 64, like: Any = None) -> Any:
    """NumPy's array: a copy unless told otherwise."""
    if (type(ndmin) is not int or type(ndmax) is not int or type(subok) is not bool
            or order is not None and type(order) is not str):
        numpy.array(0, subok=subok, ndmin=ndmin, ndmax=ndmax, order=order)  # raises
    if copy is not True and copy is not None:
        copy = copying(copy)
    if like is not None and elsewhere(None, like):
        most = {} if ndmax == 64 else {"ndmax": ndmax}
        return fallback.asked(numpy.array, object, dtype, copy=copy, order=order, subok=subok, ndmin=ndmin,
                              like=like, **most)
    if exposed.shares(object):
        object = exposed.adopt(object)
    depth: dict[str, Any] = {} if ndmax == 64 and ndmin <= 64 else {"ndmin": ndmin, "ndmax": ndmax}
    if isinstance(object, Array):
        if depth:  # may be an error
            _asked(host(object), dtype, copy=copy, order=order, **depth)
        x = _converted(object, dtype, order, copy)
    elif copy or subok or depth:
        found, given = _asked(object, dtype, copy=copy, order=order, subok=subok, **depth)
        if copy:
            x = _copied(object, found)
        else:
            x = wrap(found) if type(object) in (list, tuple) else _lent(found)
        if given is not None:
            x = given
        elif type(found) is numpy.ndarray and found.size < core.TINY:
            x = found
    elif type(object) is numpy.ndarray and object.size < core.TINY:
        x = numpy.asarray(object, dtype, order, copy=copy)
    else:
        x = asarray(object, dtype, order, copy=copy)
    if ndmin > x.ndim and type(x) is numpy.ndarray:
        return numpy.array(x, copy=None, ndmin=ndmin)
    if ndmin > x.ndim and isinstance(x, Array):
        x = viewing(x, _raised(x.meta, ndmin, order))
    return x


def _raised(x: Mirror, rank: int, order: Any) -> Mirror:
    """A view with additional leading dimensions, and the strides that NumPy gives these."""
    pitch = x.itemsize if order == "F" or x.flags.fnc or not x.ndim else x.strides[0] * x.shape[0]
    more = rank - x.ndim
    return as_strided(x, (1,) * more + x.shape, (pitch,) * more + x.strides)


def _contains(value: Any, depth: int = 64) -> bool:
    """Is there a Diffuse array in a nested sequence?  Recursion into lists that contain themselves ends where
    NumPy's does."""
    if NUMBERS.issuperset(map(type, value)):
        return False
    kinds = dict(zip(map(type, value), value, strict=True))  # one element of each type will do
    if any([isinstance(v, Array) or exposed.shares(v) for v in kinds.values()]):
        return True
    nested = depth > 0 and (list in kinds or tuple in kinds)
    return nested and any([_contains(v, depth - 1) for v in value if type(v) is list or type(v) is tuple])


def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    if like is not None and elsewhere(None, like):
        return fallback.asked(numpy.ascontiguousarray, a, dtype=dtype, like=like)
    x = asarray(a, dtype, "C")
    return x if x.ndim else x.reshape(1)


def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    if like is not None and elsewhere(None, like):
        return fallback.asked(numpy.asfortranarray, a, dtype=dtype, like=like)
    x = asarray(a, dtype, "F")
    return x if x.ndim else x.reshape(1)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    tensors = exposed.tensors()
    if tensors is not None and device is None and tensors.on_gpu(x):
        return tensors.adopt(x, copy)
    return fallback.call(numpy.from_dlpack, (x,), {"device": device, "copy": copy}, silent="source")


def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    if foreign(a):
        return fallback.asked(numpy.copy, a, order=order, subok=subok)
    if type(subok) is not bool:
        numpy.copy(0, subok=lowered(subok))  # raises
    return array(a, order=order, copy=True)
