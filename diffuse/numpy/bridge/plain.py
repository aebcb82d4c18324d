"""Arrays for code that knows NumPy's only: `to_numpy`, and the way back for what such code returns.

The arrays share their memory with Diffuse's.  The engine sees, by reference counts, for how long somebody
holds one (arrays/lending.py); so long it runs operations on that memory at once.
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
    """NumPy's array for an array of Diffuse's: see `diffuse.to_numpy`."""
    if type(copy) is not bool:
        raise TypeError(f"copy={copy!r}: expected True (memory of its own) or False (the array's memory)")
    return mapped(x, copied if copy else plain)


def plain(x: Any) -> Any:
    """NumPy's array over the memory of an array, SciPy's copy of a sparse one, the number for a scalar; all
    else as it is."""
    kind = type(x)
    if kind is core.array_class:
        return x.__array__()
    if kind is core.scalar_class:
        return host(x)[()]
    return x.to_scipy().copy() if sparse(kind) else x


def sparse(kind: type) -> bool:
    """Is it a class of sparse arrays of Diffuse's?"""
    return hasattr(kind, "to_scipy") and kind.__module__.startswith("diffuse.")


def copied(x: Any) -> Any:
    """What `plain` gives, with memory of its own."""
    if type(x) is core.array_class:
        return x.__array__(copy=True)
    return x.copy() if isinstance(x, numpy.ndarray) else plain(x)


def mapped(x: Any, leaf: Leaf) -> Any:
    """`x` with `leaf` done to everything in its lists, tuples and dicts, at any depth.  One of these in which
    nothing changes stays itself; the others are copied."""
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
    """The arrays of one call to code that knows NumPy's only: an array that went in comes back as itself."""

    __slots__ = ("_pairs",)

    def __init__(self) -> None:
        self._pairs: list[tuple[Any, Any]] = []

    def lowered(self, x: Any) -> Any:
        """What `plain` gives; remembers which array it stands for."""
        found = plain(x)
        if type(found) is numpy.ndarray:
            self._pairs.append((found, x))
        return found

    def raised(self, x: Any) -> Any:
        """What the program gets: the array that went in, Diffuse's array over the same memory for another of
        NumPy's, and else `x`.  Arrays that Diffuse does not compute with stay NumPy's, as small ones do."""
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
