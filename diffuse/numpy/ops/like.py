"""Creation of arrays like others: of their shape, element type and layout in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from diffuse.library import Bounded
from diffuse.numpy.arrays import core
from diffuse.numpy.arrays.base import check_subok, element_type
from diffuse.numpy.arrays.core import Array
from diffuse.numpy.arrays.forms import Form, computable, memory_order, replica, resized
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops.conversion import asanyarray, elsewhere
from diffuse.numpy.ops.creation import constant, extents_of, fresh, holding, number_of
from diffuse.numpy.ops.operands import foreign


def _like(prototype: Any, dtype: Any, order: Any, shape: Any, device: Any) -> Any:
    """The form of a new array like another; None for types without kernels and other libraries' arrays."""
    if foreign(prototype):
        return None
    source = asanyarray(prototype)
    kind = source.dtype if dtype is None else element_type(dtype)
    order = memory_order(order)
    elsewhere(device, None)
    if not isinstance(source, Array) or not computable(kind):
        return None
    if shape is None:
        return replica(source.meta, kind, order)
    return resized(source.meta, extents_of(shape), kind, order)


def empty_like(prototype: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *,
               device: Any = None) -> Any:
    check_subok(subok)
    target = _like(prototype, dtype, order, shape, device)
    if target is None:
        return fallback.asked(numpy.empty_like, prototype, dtype=dtype, order=order, subok=subok, shape=shape,
                              device=device)
    return fresh(target)


def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
               device: Any = None) -> Any:
    return _filled_like(numpy.zeros_like, 0, a, dtype, order, subok, shape, device)


def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
              device: Any = None) -> Any:
    return _filled_like(numpy.ones_like, 1, a, dtype, order, subok, shape, device)


LIKE: dict[tuple[int, Form], tuple[Form, Any]] = Bounded(1 << 10)
"""What `zeros_like` and `ones_like` make, by 0 or 1 and the form of their argument: the form of the result
and the number that fills it, in its element type."""


def _filled_like(function: Callable[..., Any], value: int, a: Any, dtype: Any, order: Any, subok: bool,
                 shape: Any, device: Any) -> Any:
    usual = (dtype is None and type(order) is str and order == "K" and subok is True and shape is None
             and device is None and type(a) is core.array_class)
    known = LIKE.get((value, a.form)) if usual else None
    if known is not None:
        return constant(*known)
    check_subok(subok)
    target = _like(a, dtype, order, shape, device)
    if target is None:
        return fallback.asked(function, a, dtype=dtype, order=order, subok=subok, shape=shape, device=device)
    number = number_of(value, target.dtype)
    if usual:
        LIKE[value, a.form] = target, number
    return constant(target, number)


def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
              shape: Any = None, *, device: Any = None) -> Any:
    if foreign(a):
        return fallback.asked(numpy.full_like, a, fill_value, dtype=dtype, order=order, subok=subok,
                              shape=shape, device=device)
    return holding(empty_like(a, dtype, order, subok, shape, device=device), fill_value)
