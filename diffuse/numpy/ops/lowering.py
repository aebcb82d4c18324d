"""Replaces the arrays among the arguments of a call by their memory, for NumPy, and converts NumPy's result
back.

The extension does the same in C (../small/arguments.c and results.c).
"""

from __future__ import annotations

from functools import cache
from types import EllipsisType, NoneType
from typing import Any

import numpy

from diffuse.numpy.arrays import access, base, core
from diffuse.numpy.arrays.core import NUMBERS
from diffuse.numpy.arrays.forms import NATIVE
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops.operands import wrap

NDARRAY = numpy.ndarray

OPTIONS: set[type] = {*NUMBERS, str, bytes, type, NoneType, EllipsisType, type(numpy._NoValue),
                      numpy._CopyMode, *(type(dtype) for dtype in NATIVE)}
"""Types of arguments that NumPy's functions accept unconverted."""

OBJECTS = frozenset(("O", "object", "|O"))
"""Names of the element type that keeps arrays as objects."""

DEEPEST = 4
"""The depth up to which the items of nested sequences are examined."""

FAR = object()
"""Returned instead of an argument if the call has to go to Diffuse."""


def lowered(value: Any, arrays: list[Any], depth: int = 0, look: Any = access.near) -> Any:
    """Replace arrays in an argument by their memory, which is appended to `arrays`.

    Returns FAR if `look` finds no memory of one of them (by default, if it is not small), or if NumPy might
    treat an array as an element of type object.
    """
    kind = type(value)
    if kind is NDARRAY:
        if value.size >= core.SMALL or value.dtype not in NATIVE:
            return FAR
        arrays.append(value)
        return value
    if kind is core.array_class:
        memory = look(value)
        if memory is None:
            return FAR
        arrays.append(value)
        return memory
    if kind in OPTIONS:
        return FAR if value is object or kind is str and value in OBJECTS else value
    if (kind is tuple or kind is list) and depth < DEEPEST and len(value) < core.SMALL:
        items = []
        same = True
        for item in value:
            plain = lowered(item, arrays, depth + 1, look)
            if plain is FAR:
                return FAR
            if plain is not item:
                same = False
            items.append(plain)
        return value if same else items if kind is list else tuple(items)
    if kind in core.PENDING:
        memory = look(value)
        return FAR if memory is None else memory[()]
    if kind is slice and type(value.start) in OPTIONS and type(value.stop) in OPTIONS:
        return value
    return FAR


def named(options: dict[str, Any], arrays: list[Any]) -> Any:
    """Lower keyword arguments; FAR if one of them is FAR, or if there is an output array."""
    found = {}
    for key, value in options.items():
        low = lowered(value, arrays)
        if low is FAR or key == "out":
            return FAR
        found[key] = low
    return found


def raised(found: Any, arrays: list[Any]) -> Any:
    """Convert a result of NumPy, which may be a view of the memory of an argument, for the program."""
    if type(found) is NDARRAY:
        whole = found.base
        for x in arrays:
            if type(x) is NDARRAY:
                if found is x or whole is not None and (whole is x or whole is x.base):
                    return found
                continue
            memory = x.memory
            if found is memory:
                return x
            if whole is not None and memory is not None and (whole is memory or whole is memory.base):
                return core.viewing(x, found) if x.meta is memory else fallback.looking_into(x, memory, found)
        if whole is None:
            return core.given(found)
        for x in arrays:
            if type(x) is NDARRAY:
                if found.size and numpy.may_share_memory(x, found):
                    return found
            elif x.memory is not None and found.size and numpy.may_share_memory(x.memory, found):
                return fallback.looking_into(x, x.memory, found)
        return found if found.size < core.TINY else wrap(found)
    if isinstance(found, tuple):
        return fallback.rebuilt(found, [raised(each, arrays) for each in found])
    if type(found) is list:
        return [raised(each, arrays) for each in found]
    if isinstance(found, NDARRAY) and found.size:
        _looked_into(found, arrays)
    return found


def _looked_into(found: numpy.ndarray[Any, Any], arrays: list[Any]) -> None:
    """Note whose memory the program now holds by NumPy's array of a derived class: a masked array or a
    matrix, say."""
    for x in arrays:
        if type(x) is NDARRAY or x.memory is None or not numpy.may_share_memory(x.memory, found):
            continue
        if not access.lend(x, found if x.owner is None else x.meta):
            base.shown(x)


@cache
def before_out(function: Any) -> int:
    """The number of positional arguments of a function before its output array, or before the first option to
    overwrite an argument.  It is at least one: callers only pass calls with more arguments, as reading a
    signature is slow."""
    from inspect import Parameter, signature

    name = getattr(function, "__name__", "")
    try:
        by_position = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        names = [name for name, x in signature(function).parameters.items() if x.kind in by_position]
    except (ValueError, TypeError):
        names = []
    writes = [place for place, given in enumerate(names) if given == "out" or given.startswith("overwrite")]
    return writes[0] if writes else 2 if name == "dot" else 99
