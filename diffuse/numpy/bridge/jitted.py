"""Diffuse arrays as arguments of functions that Numba compiled (`@njit`, `@jit`, jitclasses).

To Numba a Diffuse array has the type of NumPy's array with its element type and layout, so that the same
compiled function is used.  The code that unboxes an argument in C requests NumPy's array over the same memory
if the argument is not one.  Functions return NumPy's arrays.
"""

from __future__ import annotations

from typing import Any

import numpy
from numba.core import cgutils, codegen, types
from numba.core.boxing import unbox_array
from numba.core.pythonapi import NativeValue, _unboxers
from numba.core.typing.typeof import typeof_impl
from numba.np import numpy_support

from diffuse.numpy.arrays import core
from diffuse.numpy.bridge.plain import plain

numbas = typeof_impl.dispatch(numpy.ndarray)
"""Numba's function for NumPy's arrays, in whose place `type_of` comes where both classes have one hash."""


def type_of(x: Any, context: Any) -> Any:
    """The type of an array, or of a 0-d result, which Numba converts as it does NumPy's scalars."""
    if isinstance(x, numpy.ndarray):
        return numbas(x, context)
    if type(x) is not core.array_class:
        return numpy_support.from_dtype(x.dtype)
    meta = x.meta
    layout: Any = "C" if meta.flags.c_contiguous else "F" if meta.flags.f_contiguous else "A"
    return types.Array(numpy_support.from_dtype(meta.dtype), meta.ndim, layout, not meta.flags.writeable)


def unboxed(kind: types.Array, x: Any, c: Any) -> Any:
    """Generate the code that unboxes an argument to Numba's array; calls `plain` on it if it is not NumPy's
    array.  An exception raised there propagates."""
    if not c.context.enable_nrt:
        return unbox_array(kind, x, c)
    builder, made = c.builder, c.context.make_array(kind)(c.context, c.builder)
    place = builder.bitcast(made._getpointer(), c.pyapi.voidptr)
    refused = cgutils.alloca_once_value(builder, c.pyapi.nrt_adapt_ndarray_from_python(x, place))
    with builder.if_then(cgutils.is_not_null(builder, builder.load(refused)), likely=False):
        function = c.pyapi.unserialize(c.pyapi.serialize_object(plain))
        theirs = c.pyapi.call_function_objargs(function, (x,))
        with builder.if_then(cgutils.is_not_null(builder, theirs)):
            builder.store(c.pyapi.nrt_adapt_ndarray_from_python(theirs, place), refused)
        c.pyapi.decref(theirs)
        c.pyapi.decref(function)
    itemsize = made.itemsize.type(numpy_support.as_dtype(kind.dtype).itemsize)
    failed = builder.or_(cgutils.is_not_null(builder, builder.load(refused)),
                         builder.icmp_unsigned("!=", made.itemsize, itemsize))
    silent = builder.and_(failed, cgutils.is_null(builder, c.pyapi.err_occurred()))
    with builder.if_then(silent, likely=False):
        c.pyapi.err_set_string("PyExc_TypeError", "expected an array of NumPy's or of Diffuse's with the "
                               f"element type {kind.dtype}; see what was passed")
    return NativeValue(made._getvalue(), is_error=failed)


def register() -> None:
    """Tell Numba about Diffuse arrays.  Functions that it compiled earlier and keeps on disk (`cache=True`)
    do not support them, so what it compiles from now on has other names there."""
    for kind in core.ARRAYS:
        typeof_impl.register(kind)(type_of)
    _unboxers.functions[types.Array] = unboxed
    names = codegen.CPUCodegen.magic_tuple
    codegen.CPUCodegen.magic_tuple = lambda self: (*names(self), "diffuse")
