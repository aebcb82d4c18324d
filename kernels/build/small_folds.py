"""Sums and products of small arrays, computed at once by compiled code: the bits of `meaning.reduce`.

NumPy's functions take some twenty calls for the tree of a reduction, which is most of what a program over
small arrays would wait for.  A reduction that the program has asked for often enough to pay for it is
compiled as a body of its own, load and reduce over a contiguous array, once per operator, element type, rank
and axes.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from diffuse.ir import Privilege
from diffuse.ir.bounded import Bounded
from diffuse.kernels.body import abi, operations
from diffuse.kernels.body.expr import Argument, Body, Loop, Op, Space
from diffuse.kernels.build import jit, routines
from diffuse.kernels.meaning.quiet import quiet
from diffuse.kernels.meaning.reduce import Array, Fold, combine, rows, stepping
from diffuse.memory import address
from diffuse.settings import config

WORTH = 200
"""Calls that cost about as much time as a compilation."""
TYPES = {"sum": "fdFD", "prod": "fd"}
"""Characters of the element types that have a tree here: the order of integers' steps cannot be seen."""

FEW = 32
"""Elements up to which Python's own arithmetic is done as soon (`interpreted`)."""

SHAPES = 256
"""Shapes that a reduction remembers."""

Key = tuple[str, str, int, tuple[int, ...]]


def body(operator: str, dtype: str, rank: int, axes: Sequence[int]) -> Body:
    """Load and reduce over a contiguous array, to a contiguous array over the other dimensions."""
    kept = [d for d in range(rank) if d not in axes]
    into = "".join("0" if d in axes else "1" if d == kept[-1] else "s" for d in range(rank))
    arguments = (Argument(0, 0, dtype, 0, "s" * (rank - 1) + "1", Privilege.READ),
                 Argument(1, 0, dtype, 0, into, Privilege.WRITE))
    ops = Op("load", dtype, (), 0), Op("reduce", dtype, (0,), (operator, 1))
    return Body((Space(rank, (0 if rank else -1,)),), arguments, (), (Loop(0, tuple(range(rank)), ops),))


class SmallFold(routines.Compiled):
    """A compiled reduction of contiguous arrays of one rank and element type."""

    def __init__(self, source: Body, axes: tuple[int, ...]) -> None:
        # A call keeps Python's lock, so that all calls can share the memory of partials.
        super().__init__(source, ctypes.PYFUNCTYPE)
        self.axes = axes
        self.reduction, = abi.reductions(source)
        self.source = source
        self.shapes: dict[tuple[int, ...], tuple[Any, ...]] = Bounded(SHAPES)

    def __call__(self, array: Array) -> Array:
        shape, dtype = array.shape, array.dtype
        known = self.shapes.get(shape)
        if known is None:
            known = self._lay_out(shape, dtype)
        result, head, strides, tail = known
        out = np.empty(result, dtype)
        source, target = address(array).to_bytes(8, "little"), address(out).to_bytes(8, "little")
        self.kernel(head + source + strides + target + tail, 0)
        return out

    def _lay_out(self, shape: tuple[int, ...], dtype: Any) -> tuple[Any, ...]:
        """Of an array of this shape: the result's shape, and the block around the addresses of both."""
        result = tuple([n for d, n in enumerate(shape) if d not in self.axes])
        steps = iter(np.empty(result, dtype).strides)
        into = [0 if d in self.axes else next(steps) for d in range(len(shape))]
        partials = _partials(abi.partial_bytes(self.source, self.reduction, shape))
        strides = np.empty(shape, dtype).strides
        block = self.pack(1, shape[0], *shape, 0, *strides, 0, *into, partials)
        begin = 8 * (2 + len(shape))
        middle = begin + 8 * (1 + len(shape))
        known = result, block[:begin], block[begin + 8:middle], block[middle + 8:]
        self.shapes[shape] = known
        return known


_memory: list[Array] = [np.empty(1 << 12, np.uint8)]
"""For partials; each twice as large as was needed when the one before was too small."""


def _partials(nbytes: int) -> int:
    """The address of memory for partials."""
    if nbytes > _memory[-1].nbytes:
        _memory.append(np.empty(2 * nbytes, np.uint8))
    return address(_memory[-1])


_built: dict[Key, SmallFold | None] = {}
_asked: Counter[Key] = Counter()


def reduce(operator: str, array: Array, axes: tuple[int, ...], dtype: str) -> Array:
    """A reduction over `axes` of a small array, computed at once in the element type `dtype`; warns never."""
    if array.size > FEW and axes:
        wanted = _dtype(dtype)
        found = fold(operator, array if array.dtype is wanted else array.astype(wanted), axes)
        if found is not None:
            return found
    with quiet():
        return interpreted(operator, array, axes, dtype)


_dtype = cache(np.dtype)


def fold(operator: str, array: Array, axes: tuple[int, ...]) -> Array | None:
    """A reduction over `axes`; None where it is not compiled."""
    if array.dtype.char not in TYPES.get(operator, "") or not array.size:
        return None
    key = operator, array.dtype.char, array.ndim, axes
    found = _built.get(key)
    if found is None and (key in _built or (found := _build(key)) is None):
        return None
    return found(array if array.flags.c_contiguous else np.ascontiguousarray(array))


def _build(key: Key) -> SmallFold | None:
    """The compiled reduction, from the disk if it is there, else when it has been asked for often enough."""
    operator, char, rank, axes = key
    source = body(operator, np.dtype(char).name, rank, axes)
    first = not _asked[key]
    _asked[key] += 1
    if config.compile == "off" or not (first and jit.cached(source)) and _asked[key] < WORTH:
        return None
    try:
        _built[key] = SmallFold(source, axes)
    except Exception:  # this machine has no such code: the tree is interpreted
        _built[key] = None
    return _built[key]


def interpreted(operator: str, array: Array, axes: Sequence[int], dtype: str) -> Array:
    """A reduction over `axes` of a small array by NumPy's functions, with the bits of `meaning.reduce`.

    Where the order of the steps cannot be seen in the result (integers, truth, extremes), NumPy's is taken.
    """
    if array.dtype != dtype:
        array = array.astype(dtype)
    if operator in operations.INDEXED:
        if len(axes) == 1 and array.size:
            return np.asarray((np.argmin if operator == "argmin" else np.argmax)(array, axis=axes[0]))
    elif array.dtype.kind in "iub" or operator in ("any", "all"):
        return np.asarray(stepping(operator, array.dtype).reduce(array, axis=tuple(axes)))
    elif operator in ("min", "max"):
        found = np.asarray(stepping(operator, array.dtype).reduce(array, axis=tuple(axes)))
        if np.all(found):  # only the sign of a zero depends on the order
            return found
    elif array.ndim == 1 and axes:
        if array.size <= 32 and array.dtype == "float64":
            total = _few(operator, array.tolist())
            if total - total == 0:  # finite: no warning is due
                return np.array(total)
        return np.asarray(combine(operator, rows(operator, array)))
    box = tuple((0, n) for n in array.shape)
    fold = Fold(operator, dtype, axes, array.shape, box)
    fold.add(array, box)
    return np.asarray(fold.result())


def _few(operator: str, values: list[float]) -> float:
    """One leaf of at most 32 floats: an element per accumulator, and those without one change nothing."""
    half, n = 16, len(values)
    while half:
        if operator == "sum":
            for i in range(n - half):
                values[i] += values[i + half]
        else:
            for i in range(n - half):
                values[i] *= values[i + half]
        n = min(n, half)
        half //= 2
    return values[0] if values else (-0.0 if operator == "sum" else 1.0)
