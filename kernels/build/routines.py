"""One op, or one reduction, on whole arrays, with the bits of the compiled kernels.

Where NumPy's own function could differ in the last place (see `operations.exact`) the op is compiled
as a body of its own, load, op, store over contiguous arrays, once per op and element types; the interpreter
calls it on its blocks and the array library on arrays too small to be worth recording.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from diffuse.interrupts import of_handler
from diffuse.ir import Privilege
from diffuse.kernels.body import abi, operations
from diffuse.kernels.body.expr import Argument, Body, Builder, Loop, Op, Output, Space
from diffuse.kernels.build import jit
from diffuse.kernels.meaning.reduce import Array
from diffuse.memory import address
from diffuse.observe import notices
from diffuse.observe.floaterrors import KINDS, STATUS
from diffuse.service.client import Unavailable


def body(name: str, dtypes: Sequence[str], result: str) -> Body:
    """The body of a routine: load, operation, store over contiguous arrays of rank 1."""
    count = len(dtypes)
    arguments = [Argument(k, 0, d, 0, "1", Privilege.READ) for k, d in enumerate(dtypes)]
    arguments.append(Argument(count, 0, result, 0, "1", Privilege.WRITE))
    loads = tuple([Op("load", d, (), k) for k, d in enumerate(dtypes)])
    builder = Builder(loads, (Output(result, count, 1),), (*dtypes, result))
    operations.find(name).write(builder)
    return Body((Space(1, (0,)),), tuple(arguments), (), (Loop(0, (0,), tuple(builder.ops)),))


class Compiled:
    """A body of one loop as machine code for NumPy arrays: `kernel(pack(*words), 0)` runs it."""

    def __init__(self, source: Body, function: Any = ctypes.CFUNCTYPE) -> None:
        self.native = jit.compile(source)
        self.pack = abi.layout(source).pack
        self.kernel = function(None, ctypes.c_char_p, ctypes.c_int64)(self.native.address)


class Routine(Compiled):
    """A compiled operation: `routine(*inputs, out=...)`, of the compiled element types and any shapes."""

    def __init__(self, name: str, dtypes: tuple[str, ...], result: str) -> None:
        super().__init__(body(name, dtypes, result))
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
        """Call the kernel on contiguous copies of the operands that are not contiguous or need
        broadcasting."""
        if not out.flags.c_contiguous:
            target = np.empty(out.shape, out.dtype)
            self._gather(inputs, target)
            np.copyto(out, target)
            return
        whole = [a if a.shape == out.shape and a.flags.c_contiguous
                 else np.broadcast_to(a, out.shape).copy() for a in inputs]
        self(*whole, out=out)


class Interpreted:
    """An operation that NumPy lacks, run by the interpreter if it cannot be compiled."""

    def __init__(self, source: Body) -> None:
        # by name, as the interpreter imports this module
        self.point = import_module("diffuse.kernels.meaning.interpret").point
        self.source = source

    def __call__(self, *inputs: Array, out: Array) -> None:
        arrays = [np.ascontiguousarray(np.broadcast_to(a, out.shape)) for a in inputs]
        target = np.empty(out.shape, out.dtype)
        n = out.size
        words = [word for a in (*arrays, target) for word in (address(a), a.itemsize)]
        self.point(self.source, [1, n, n, *words], 0)
        np.copyto(out, target)


_built: dict[tuple[str, tuple[str, ...], str], Any] = {}


def routine(name: str, dtypes: tuple[str, ...], result: str) -> Any:
    """The compiled op, or NumPy's function if it cannot be compiled here: `function(*inputs, out=...)`."""
    found = _built.get((name, dtypes, result))
    if found is None:
        found = _built[name, dtypes, result] = _build(name, dtypes, result)
    return found


def ready(name: str, dtypes: tuple[str, ...], result: str) -> bool:
    """Does `routine` return at once, from memory or from disk?  A compilation takes some 30 ms."""
    return (name, dtypes, result) in _built or jit.cached(body(name, dtypes, result))


def _build(name: str, dtypes: tuple[str, ...], result: str) -> Any:
    try:
        return Routine(name, dtypes, result)
    except Exception as error:
        if of_handler(error):
            raise
        if not isinstance(error, Unavailable):  # a warning was given before
            notices.give(f"{name} on {', '.join(dtypes)} is computed by NumPy and may differ in the last "
                         f"place from compiled code: {type(error).__name__}: {error}")
        if operations.find(name).body is None:
            from diffuse.kernels.meaning import functions

            return functions.function(name)
        return Interpreted(body(name, dtypes, result))


class Flags:
    """The floating-point status of this thread, for the kinds of error that NumPy reports."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libm.so.6")  # glibc's name for it; `find_library` runs programs
        self.kinds = {KINDS[flag].words: bit for flag, bit in STATUS.items()}
        self.all = sum(STATUS.values())

    def clear(self) -> None:
        self.library.feclearexcept(self.all)

    def raised(self) -> list[str]:
        status = self.library.fetestexcept(self.all)
        return [kind for kind, bit in self.kinds.items() if status & bit]


flags = cache(Flags)
