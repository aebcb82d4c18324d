"""One op, or one reduction, on whole arrays, with the bits of the compiled kernels.

Where NumPy's own function could differ in the last place (see `operations.exact`) the op is compiled
as a body of its own, load, op, store over contiguous arrays, once per op and element types; the interpreter
calls it on its blocks and the array library on arrays too small to be worth recording.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from diffuse.ir import Privilege
from diffuse.kernels.body import operations
from diffuse.kernels.body.expr import Argument, Body, Builder, Loop, Op, Output, Space
from diffuse.kernels.meaning import functions
from diffuse.kernels.meaning.reduce import Array, Fold, combine, rows, stepping
from diffuse.memory import address
from diffuse.observe.floaterrors import KINDS, STATUS


def body(name: str, dtypes: Sequence[str], result: str) -> Body:
    """Load, operation, store over contiguous arrays of rank 1."""
    count = len(dtypes)
    arguments = [Argument(k, 0, d, 0, "1", Privilege.READ) for k, d in enumerate(dtypes)]
    arguments.append(Argument(count, 0, result, 0, "1", Privilege.WRITE))
    loads = tuple([Op("load", d, (), k) for k, d in enumerate(dtypes)])
    builder = Builder(loads, (Output(result, count, 1),), (*dtypes, result))
    operations.find(name).write(builder)
    return Body((Space(1, (0,)),), tuple(arguments), (), (Loop(0, (0,), tuple(builder.ops)),))


class Routine:
    """A compiled operation: `routine(*inputs, out=...)`, of the compiled element types and any shapes."""

    def __init__(self, name: str, dtypes: tuple[str, ...], result: str) -> None:
        from diffuse.kernels.body import abi
        from diffuse.kernels.build import jit

        source = body(name, dtypes, result)
        self.native = jit.compile(source)
        self.pack = abi.layout(source).pack
        self.kernel = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64)(self.native.address)
        self.strides = [np.dtype(d).itemsize for d in (*dtypes, result)]

    def __call__(self, *inputs: Array, out: Array) -> None:
        shape, n = out.shape, out.size
        words = [1, n, n]
        for array, stride in zip((*inputs, out), self.strides, strict=True):
            if array.shape != shape or not array.flags.c_contiguous:
                self._gather(inputs, out)
                return
            words += (address(array), stride)
        self.kernel(self.pack(*words), 0)

    def _gather(self, inputs: tuple[Array, ...], out: Array) -> None:
        """The same with contiguous copies of what is not contiguous or to be broadcast."""
        if not out.flags.c_contiguous:
            target = np.empty(out.shape, out.dtype)
            self._gather(inputs, target)
            np.copyto(out, target)
            return
        whole = [a if a.shape == out.shape and a.flags.c_contiguous
                 else np.broadcast_to(a, out.shape).copy() for a in inputs]
        self(*whole, out=out)


_built: dict[tuple[str, tuple[str, ...], str], Any] = {}


def routine(name: str, dtypes: tuple[str, ...], result: str) -> Any:
    """The compiled op, or NumPy's function if it cannot be compiled here: `function(*inputs, out=...)`."""
    found = _built.get((name, dtypes, result))
    if found is None:
        found = _built[name, dtypes, result] = _build(name, dtypes, result)
    return found


def ready(name: str, dtypes: tuple[str, ...], result: str) -> bool:
    """Does `routine` return at once, from memory or from the disk?  A compilation takes some 30 ms."""
    from diffuse.kernels.build import jit

    return (name, dtypes, result) in _built or jit.cached(body(name, dtypes, result))


def _build(name: str, dtypes: tuple[str, ...], result: str) -> Any:
    try:
        return Routine(name, dtypes, result)
    except Exception as error:
        if operations.find(name).body is not None:  # not NumPy's
            raise
        warnings.warn(f"{name} on {', '.join(dtypes)} is computed by NumPy and may differ in the last place "
                      f"from compiled code: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=2)
        return functions.function(name)


@cache
def _choice(name: str, *dtypes: Any) -> tuple[Any, tuple[Any, ...], Any]:
    """(function, element types of its inputs, of its result) of an op on arrays of these element types."""
    if name == "where":
        result = np.result_type(*dtypes[1:])
        types: tuple[Any, ...] = (np.dtype(bool), result, result)
    elif name in functions.BY_HAND and name != "clip":
        types, result = dtypes, np.dtype(operations.result(name, tuple(t.name for t in dtypes)))
    else:
        stem, _, part = name.rpartition("_")
        ufunc = functions.ufunc(stem if part.isdigit() else name)
        resolved = ufunc.resolve_dtypes((*dtypes, *[None] * ufunc.nout))
        types = tuple(resolved[:ufunc.nin])
        result = resolved[ufunc.nin + (int(part) if part.isdigit() else 0)]
    names = tuple(t.name for t in types)
    if operations.exact(name, names):
        return functions.function(name), types, result
    return routine(name, names, result.name), types, result


def apply(name: str, *arrays: Array, out: Array | None = None) -> Array:
    """One op on whole arrays, computed at once; types resolve as NumPy's ufunc of that name resolves them."""
    shape, dtype = arrays[0].shape, arrays[0].dtype
    if len(arrays) == 1:
        function, types, result = _choice(name, dtype)
        if types[0] is not dtype:
            arrays = (arrays[0].astype(types[0], copy=False),)
    else:
        dtypes = tuple([a.dtype for a in arrays])
        function, types, result = _choice(name, *dtypes)
        for a in arrays:
            if a.shape != shape:
                shape = np.broadcast_shapes(*[a.shape for a in arrays])
                break
        if types != dtypes:
            arrays = tuple(a.astype(t, copy=False) for a, t in zip(arrays, types, strict=True))
    if out is None:
        out = np.empty(shape, result)
    elif out.dtype != result or out.shape != shape:
        function(*arrays, out=(whole := np.empty(shape, result)))
        np.copyto(out, whole, casting="same_kind")
        return out
    function(*arrays, out=out)
    return out


def reduce(operator: str, array: Array, axes: Sequence[int], dtype: str) -> Array:
    """A reduction over `axes` of a small array, computed at once; the bits of the tree in `meaning.reduce`.

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


class Flags:
    """The floating point status of this thread, for the kinds of error that NumPy reports."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(ctypes.util.find_library("m"))
        self.kinds = {KINDS[flag].words: bit for flag, bit in STATUS.items()}
        self.all = sum(STATUS.values())

    def clear(self) -> None:
        self.library.feclearexcept(self.all)

    def raised(self) -> list[str]:
        status = self.library.fetestexcept(self.all)
        return [kind for kind, bit in self.kinds.items() if status & bit]


flags = cache(Flags)
