"""Converts arrays for code that supports only NumPy's (`to_numpy`), and converts its results back.

The arrays share their memory with Diffuse's.  The engine sees by reference counts how long one of them is
held (arrays/lending.py); for that time it runs operations on that memory at once.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy as shallow
from operator import is_
from typing import Any

import numpy
from numpy.lib.array_utils import byte_bounds

from diffuse.numpy.arrays import core
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.forms import NATIVE
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops.operands import shared

Leaf = Callable[[Any], Any]


def to_numpy(x: Any, copy: bool = False) -> Any:
    """Convert a Diffuse array to NumPy's: see `diffuse.to_numpy`."""
    if type(copy) is not bool:
        raise TypeError(f"copy={copy!r}: expected True (memory of its own) or False (the array's memory)")
    return mapped(x, copied if copy else plain)


def plain(x: Any) -> Any:
    """NumPy's array over the memory of an array, SciPy's copy of a sparse one, the number for a scalar;
    anything else as it is."""
    kind = type(x)
    if kind is core.array_class:
        return x.__array__()
    if kind in core.PENDING:
        return host(x)[()]
    return x.to_scipy().copy() if sparse(kind) else x


def sparse(kind: type) -> bool:
    """Is it a class of Diffuse's sparse arrays?"""
    return hasattr(kind, "to_scipy") and kind.__module__.startswith("diffuse.")


def copied(x: Any) -> Any:
    """The result of `plain`, with memory of its own."""
    if type(x) is core.array_class:
        return x.__array__(copy=True)
    return x.copy() if isinstance(x, numpy.ndarray) else plain(x)


def mapped(x: Any, leaf: Leaf) -> Any:
    """Apply `leaf` to everything in the lists, tuples and dicts of `x`, at any depth.  Those in which nothing
    changes are returned themselves; the others are copied."""
    if isinstance(x, (list, tuple)):
        items = [mapped(value, leaf) for value in x]
        if all(map(is_, items, x)):
            return x
        if isinstance(x, tuple):
            return fallback.rebuilt(x, items)
        found: Any = items if type(x) is list else shallow(x)
        found[:] = items
        return found
    if isinstance(x, dict):
        named = {key: mapped(value, leaf) for key, value in x.items()}
        if all(map(is_, named.values(), x.values())):
            return x
        changed = shallow(x)
        changed.update(named)
        return changed
    return leaf(x)


class Crossing:
    """Converts the arrays of one call to code that supports only NumPy's: an argument that comes back is
    itself again."""

    __slots__ = ("_pairs",)

    def __init__(self) -> None:
        self._pairs: list[tuple[Any, Any]] = []

    def lowered(self, x: Any) -> Any:
        """Convert by `plain`, and remember which array the result stands for."""
        found = plain(x)
        if type(found) is numpy.ndarray:
            self._pairs.append((found, x))
        return found

    def raised(self, x: Any) -> Any:
        """Convert back: to the array that went in, to Diffuse's array over the same memory for other NumPy
        arrays, and else to `x`.  Arrays that Diffuse does not compute with stay NumPy's, as small ones do."""
        for theirs, ours in self._pairs:
            if theirs is x:
                return ours
        if type(x) is not numpy.ndarray or x.size < core.TINY or x.dtype not in NATIVE:
            return x
        low, high = byte_bounds(x)
        for theirs, ours in self._pairs:
            first, last = byte_bounds(theirs)
            if first <= low and high <= last and theirs is not ours:
                return fallback.looking_into(ours, theirs, x)
        return shared(x)
