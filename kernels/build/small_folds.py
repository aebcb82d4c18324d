"""Reduces small arrays at once by compiled code, with the bits of `meaning.reduce`.

Recording, planning and launching a reduction takes longer than adding up some 100,000 elements that are in
cache.  Where a reduction is to be computed at once, its body (load and reduce) is compiled for arrays of one
rank and element type, and called by the program's thread; until the compile server has delivered it, NumPy's
functions compute the same tree.
"""

from __future__ import annotations

import ctypes
from array import array as packed
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from diffuse.bounded import Recurring
from diffuse.ir import Privilege
from diffuse.ir.loops import SEGMENT
from diffuse.kernels.body import abi, operations
from diffuse.kernels.body.expr import Argument, Body, Builder, Loop, Op, Output, Space
from diffuse.kernels.build.compiler import compiler
from diffuse.kernels.meaning.quiet import quiet
from diffuse.kernels.meaning.reduce import Array, PointFold, combine, rows, stepping
from diffuse.memory import address

TYPES = {"sum": "fdFD", "prod": "fd", "dot": "fd", "squares": "fd", "spread": "fd"}
"""Reductions computed by a tree here, with the characters of their element types.  Integers are not included,
as their result does not depend on the order.  "dot" is the sum of the products of two arrays, "squares" that
of an array with itself, which is read once, and "spread" that of the squares of the differences of two."""

FEW = 32
"""The most elements for which Python's own arithmetic is as fast (`interpreted`)."""

CALL = ctypes.PYFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64)
"""Calls keep Python's lock, so that all of them can share the memory of partials."""
SHAPES = 1 << 12
"""The most shapes and strides for which calls are cached."""

Key = tuple[str, str, tuple[int, ...], tuple[str, ...]]


def body(operator: str, dtype: str, axes: Sequence[int], classes: tuple[str, ...]) -> Body:
    """A body that loads arrays with these stride classes (`expr.Argument`), and reduces them over `axes` to a
    contiguous array over the other dimensions."""
    rank, count = len(classes[0]), len(classes)
    kept = [d for d in range(rank) if d not in axes]
    into = "".join("0" if d in axes else "1" if d == kept[-1] else "s" for d in range(rank))
    arguments = [Argument(k, 0, dtype, 0, letters, Privilege.READ) for k, letters in enumerate(classes)]
    arguments.append(Argument(count, 0, dtype, 0, into, Privilege.WRITE))
    loads = tuple([Op("load", dtype, (), k) for k in range(count)])
    builder = Builder(loads, (Output(dtype, count, rank),), (dtype,) * (count + 1))
    value = builder.input(0)
    if operator == "dot":
        value = builder.emit("multiply", dtype, value, builder.input(1))
    elif operator == "squares":
        value = builder.emit("multiply", dtype, value, value)
    elif operator == "spread":
        value = builder.emit("subtract", dtype, value, builder.input(1))
        value = builder.emit("multiply", dtype, value, value)
    builder.reduce(value, operator if operator == "prod" else "sum")
    loop = Loop(0, tuple(range(rank)), tuple(builder.ops))
    return Body((Space(rank, (0,)),), tuple(arguments), (), (loop,))


def classes_of(array: Array) -> str:
    """The stride class of each dimension of an array; the last one may be contiguous (1) or a broadcast
    element (0)."""
    last = array.strides[-1]
    return "s" * (array.ndim - 1) + ("1" if last == array.itemsize else "s" if last else "0")


class SmallFold:
    """A reduction of arrays of one rank and element type, compiled in the background."""

    def __init__(self, source: Body, axes: tuple[int, ...]) -> None:
        self.kernel = compiler.kernel(source)
        self.axes = axes
        self.reduction, = abi.reductions(source)
        self.source = source
        *places, target = abi.words(source).arguments
        self.places, self.target = tuple(places), target
        """The positions of the arrays' addresses, and that of the result's, among the words of 8 bytes of a
        block of arguments."""
        self.dtype = np.dtype(source.arguments[0].dtype)
        self.odd = self.dtype.alignment - 1
        """The low bits that are clear in the address of an aligned array."""
        self.run: Any = None
        """Its machine code as a function, once a call was laid out."""

    def ready(self) -> bool:
        """Has the machine code arrived?"""
        compiler.request(self.kernel)
        return self.kernel.native is not None

    def laid_out(self, arrays: Sequence[Array]) -> LaidOut:
        """Lay out the call for arrays of this shape and these strides."""
        shape = arrays[0].shape
        result = tuple([n for d, n in enumerate(shape) if d not in self.axes])
        steps = iter(np.empty(result, self.dtype).strides)
        into = [0 if d in self.axes else next(steps) for d in range(len(shape))]
        words = [1, shape[0], *shape]
        for array in arrays:
            words += (0, *array.strides)
        words += (0, *into, _partials(abi.partial_bytes(self.source, self.reduction, shape)))
        if self.run is None:
            self.run = CALL(self.kernel.native.address)
        return LaidOut(self, result, packed("q", self.kernel.layout.pack(*words)))


class LaidOut(NamedTuple):
    """A call of a compiled reduction with all its arguments but the addresses."""

    fold: SmallFold
    shape: tuple[int, ...]
    """The shape of the result."""
    words: packed[int]


_memory: list[Array] = [np.empty(1 << 12, np.uint8)]
"""Memory for partials, replaced by one twice as large as needed when it is too small."""


def _partials(nbytes: int) -> int:
    """The address of memory for partials."""
    if nbytes > _memory[-1].nbytes:
        _memory.append(np.empty(2 * nbytes, np.uint8))
    return address(_memory[-1])


_folds: dict[Key, SmallFold] = {}
_laid_out: dict[tuple[Any, ...], LaidOut] = Recurring(SHAPES)


def reduce(operator: str, array: Array, axes: tuple[int, ...], dtype: str) -> Array:
    """Reduce `axes` of an array at once, in the element type `dtype`, without warnings."""
    if array.size > FEW and axes:
        wanted = _dtype(dtype)
        found = fold(operator, axes, array if array.dtype is wanted else array.astype(wanted))
        if found is not None:
            return found
    with quiet():
        return interpreted(operator, array, axes, dtype)


def of_two(operator: str, one: Array, other: Array, axes: tuple[int, ...]) -> Array:
    """Compute a "dot" or "spread" over `axes` of two arrays of one shape and element type at once, without
    warnings."""
    found = fold(operator, axes, one, other)
    if found is not None:
        return found
    with quiet():
        terms = one * other if operator == "dot" else np.square(one - other)
        return interpreted("sum", terms, axes, one.dtype.name)


_dtype = cache(np.dtype)


def fold(operator: str, axes: tuple[int, ...], *arrays: Array) -> Array | None:
    """Reduce `axes` of arrays of one shape and element type by compiled code; None if there is none."""
    known = _layout(operator, axes, arrays)
    if known is None:
        return None
    found, shape, words = known
    out = np.empty(shape, found.dtype)
    words, odd = words[:], found.odd
    for one, place in zip(arrays, found.places, strict=True):
        words[place] = start = address(one)
        if start & odd:
            return fold_copies(operator, axes, arrays)
    words[found.target] = address(out)
    found.run(words.tobytes(), 0)
    return out


def laid_out(operator: str, axis: int, *arrays: Array
             ) -> tuple[int, int, int, bytes, int, int, int, Any] | None:
    """Lay out the reduction along an axis for the C extension (numpy/small/folds.c); None if there is no
    compiled code.

    Returns the address of the code, that of what follows on several points, the elements of which their tiles
    are multiples, the block of arguments for one point, the positions of the arrays' addresses and of the
    result's among the words of 8 bytes of that block, and the object that keeps the code.
    """
    known = _layout(operator, (axis,), arrays)
    if known is None:
        return None
    found = known.fold
    code, places = found.kernel.native, found.places
    return (code.address, code.finish, SEGMENT, known.words.tobytes(), places[0], places[-1], found.target,
            found.kernel)


def _layout(operator: str, axes: tuple[int, ...], arrays: Sequence[Array]) -> LaidOut | None:
    """Find or make the layout of the call for arrays of these shapes; None if there is no compiled code."""
    first = arrays[0]
    key = (operator, axes, first.dtype.char, first.shape, *[array.strides for array in arrays])
    known = _laid_out.get(key)
    if known is None:
        found = _fold(operator, axes, arrays)
        if found is not None:
            known = _laid_out[key] = found.laid_out(arrays)
    return known


def fold_copies(operator: str, axes: tuple[int, ...], arrays: Sequence[Array]) -> Array | None:
    """Reduce aligned copies of the arrays; otherwise as `fold`."""
    return fold(operator, axes, *[array.copy() for array in arrays])


def _fold(operator: str, axes: tuple[int, ...], arrays: Sequence[Array]) -> SmallFold | None:
    """The compiled reduction of such arrays, if it has arrived; the first call requests it."""
    first = arrays[0]
    if first.dtype.char not in TYPES.get(operator, "") or not first.size:
        return None
    key = operator, first.dtype.char, axes, tuple([classes_of(array) for array in arrays])
    found = _folds.get(key)
    if found is None:
        found = _folds[key] = SmallFold(body(operator, first.dtype.name, axes, key[-1]), axes)
    return found if found.ready() else None


def interpreted(operator: str, array: Array, axes: Sequence[int], dtype: str) -> Array:
    """Reduce `axes` of a small array by NumPy's functions, with the bits of `meaning.reduce`.

    Where the order of the steps does not affect the result (integers, truth, extremes), NumPy's order is
    used.
    """
    if array.dtype != dtype:
        array = array.astype(dtype)
    if operator in operations.INDEXED:
        if len(axes) == 1 and array.size:
            return np.asarray((np.argmin if operator == "argmin" else np.argmax)(array, axis=axes[0]))
    elif array.dtype.kind in "iub" or operator in operations.TRUTH:
        return np.asarray(stepping(operator, array.dtype).reduce(array, axis=tuple(axes)))
    elif operator in operations.EXTREMES:
        found = np.asarray(getattr(np, operations.FOLDS[operator]).reduce(array, axis=tuple(axes)))
        if np.all(found):  # only the sign of a zero depends on the order
            return found
    elif array.ndim == 1 and axes:
        if array.size <= 32 and array.dtype == "float64":
            total = _few(operator, array.tolist())
            if total - total == 0:  # finite: no warning is due
                return np.array(total)
        return np.asarray(combine(operator, rows(operator, array)))
    box = tuple((0, n) for n in array.shape)
    fold = PointFold(operator, dtype, axes, array.shape, box)
    fold.add(array, box)
    return np.asarray(fold.result())


def _few(operator: str, values: list[float]) -> float:
    """Fold one leaf of at most 32 floats: at most one element per accumulator, and empty accumulators change
    nothing."""
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
    if operator == "sum":  # which starts from zero
        return values[0] + 0.0 if values else 0.0
    return values[0] if values else 1.0
