"""Products of vectors and matrices: NumPy's BLAS, called in stream order so that recording goes on meanwhile.

Products of two vectors are reductions and fuse; matrix products are opaque tasks over whole arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy

from diffuse import library
from diffuse.numpy.arrays import access, base, core, soon
from diffuse.numpy.arrays.core import Array, recorded
from diffuse.numpy.arrays.forms import NATIVE, Form, Mirror, model, outermost_first, packed, row_major
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import at_once, elementwise, folds
from diffuse.numpy.ops.conversion import asanyarray, asarray
from diffuse.numpy.ops.functions import small
from diffuse.numpy.ops.manipulation import asking, asks
from diffuse.numpy.ops.operands import foreign
from diffuse.numpy.ops.ufuncs import UFUNCS, ufunc

MOST = 3 << 20
"""The most bytes of a product that NumPy computes at once if its operands are at hand."""


LITTLE = MOST // 16
"""The most elements of such a product, whatever their type."""


def _plain(x: Any, y: Any) -> bool:
    """Should the product of two operands be recorded as a task?"""
    arrays = type(x) is core.array_class and type(y) is core.array_class
    return (arrays and not elementwise.eager_errors and x.ndim > 0 < y.ndim and x.size > 0 < y.size
            and not small(x, y))


def _vectors(x: Any, y: Any) -> bool:
    """Are these two large vectors of one element type, which is the most frequent case?"""
    if type(x) is not core.array_class or type(y) is not core.array_class:
        return False
    form = x.form
    return (form is y.form and form.ndim == 1 and form.size >= (core.SMALL or 1)
            and form.dtype.kind in "fiu" and not elementwise.eager_errors)


class Function(NamedTuple):
    """One of NumPy's functions that compute products.  Their bits differ where they copy their operands in
    different cases, and each has a name of its own in warnings."""

    vectors: str
    """The operation that is the product of two vectors."""
    matrices: str
    """The operation that is any other product; NumPy's warnings have its last part."""
    of: Callable[[Any, Any], Any]
    """Computes the product of two NumPy arrays."""
    into: Callable[[Any, Any, Any], None]
    """Computes it into a NumPy array."""


def product(x: Any, y: Any, function: Function) -> Any:
    """The product of two arrays of at least one dimension, whose extents are those of a matrix product; None
    if NumPy has to raise an error."""
    if x.form is y.form and _vectors(x, y):
        return folds.product(x, y, function.vectors)
    rows, columns = x.shape[:-1], y.shape[-1:] if y.ndim > 1 else ()
    inner = y.shape[-2] if y.ndim > 1 else y.shape[0]
    if x.shape[-1] != inner:
        return None
    dtype = numpy.result_type(x.dtype, y.dtype)
    if dtype not in NATIVE:
        return None
    if x.ndim == 1 and y.ndim == 1 and dtype.kind in "fiu" and x.size >= core.SMALL:
        return folds.product(x, y, function.vectors)
    try:
        batch = numpy.broadcast_shapes(rows[:-1], y.shape[:-2])
    except ValueError:
        return None
    form = _laid_out(x.meta, y.meta, (*batch, *rows[-1:], *columns), dtype)
    if form.size * form.itemsize <= MOST:
        found = _at_once(x, y, function)
        if found is not None:
            return found
    if form.ndim and not library.current().host_sees:
        computed = fallback.on_gpu("numpy.matmul", (x, y), {})
        if computed is not None:
            return computed[0]
    out = recorded(form)
    _submit(x, y, out, function)
    return out if out.ndim else core.scalar_class.of(out)


def _laid_out(x: Mirror, y: Mirror, shape: tuple[int, ...], dtype: numpy.dtype[Any]) -> Form:
    """The form of a product: matrices in C order, in stacks laid out as those of the operands."""
    if len(shape) - (x.ndim > 1) - (y.ndim > 1) < 2 or x.flags.c_contiguous and y.flags.c_contiguous:
        return row_major(shape, dtype)
    first: Any = ..., slice(1), slice(1)
    small = [model(a[first] if a.ndim > 1 else a[:1]) for a in (x, y)]
    return packed(shape, outermost_first(numpy.matmul(*small)), dtype)


def _at_once(x: Any, y: Any, function: Function) -> Any:
    """Compute the product of two arrays at hand by NumPy; None for others.  Recording NumPy's call gains
    nothing if it has no task to wait for."""
    if not core.SMALL or not library.current().host_sees:
        return None
    one = access.at_hand(x) if type(x) is core.array_class else x
    other = None if one is None else access.at_hand(y) if type(y) is core.array_class else y
    if one is None or other is None:
        return None
    soon.looked()
    found = function.of(one, other)
    return core.hosted(found) if type(found) is numpy.ndarray else found


def _light(one: Any, other: Any) -> bool:
    """Is the product of two matrices, of a matrix and a vector, or of stacks of matrices small?"""
    if one.ndim + other.ndim < 3:
        return False
    rows = one.shape[-2] if one.ndim > 1 else 1
    columns = other.shape[-1] if other.ndim > 1 else 1
    stack = max(prod(one.shape[:-2]), prod(other.shape[:-2]))
    if one.ndim > 2 and other.ndim > 2 and one.shape[:-2] != other.shape[:-2]:
        return False
    return bool(stack * rows * columns * max(one.itemsize, other.itemsize) <= MOST)


def _description(x: Any) -> Any:
    """An array with the shape and type of an operand whose product NumPy may compute at once: a Diffuse
    array, or a small NumPy array; None for others."""
    if type(x) is core.array_class:
        return x.meta
    return x if type(x) is numpy.ndarray and x.size < core.SMALL and x.dtype in NATIVE else None


def _matrix_first(a: Any, b: Any) -> bool:
    """Is it the product of a large matrix with a matrix or vector that fits, as most calls of `dot` are?"""
    if type(a) is not core.array_class or type(b) is not core.array_class and type(b) is not numpy.ndarray:
        return False
    one, other = a.meta, b.meta if type(b) is core.array_class else b
    return bool(one.ndim == 2 and 0 < other.ndim <= 2 and one.size >= max(core.SMALL, 1)
                and one.shape[1] == other.shape[0] and other.size > 0 and one.dtype in NATIVE
                and other.dtype in NATIVE and not elementwise.eager_errors)


def _operand(x: Any) -> Any:
    """Convert an operand of a product to a Diffuse array.  A task reads a snapshot of a small NumPy array, as
    sharing its memory would make every product wait.  The snapshot of a packed array has the same layout, so
    that BLAS gives the same bits."""
    if type(x) is numpy.ndarray and x.size < core.SMALL and x.dtype in NATIVE and x.flags.forc:
        return access.snapshot(x)
    return asanyarray(x)


def _submit(x: Any, y: Any, out: Any, function: Function) -> None:
    operands = base.argument(x), base.argument(y)
    run = function.into
    engine = library.current()
    if out.ndim and (engine.runtime.ranks > 1 or engine.window.region is not None):
        from diffuse.numpy.ops.blocks import in_blocks  # not where there is one rank

        run = in_blocks(x, y, run)
    library.call(function.matrices, run, operands, (base.argument(out),))


def _matmul(x: Any, y: Any) -> Any:
    found = _of_stacks(x, y)
    return numpy.matmul(x, y) if found is None else found


def _matmul_into(x: Any, y: Any, out: Any) -> None:
    if out.ndim:
        if _of_stacks(x, y, out) is None:
            numpy.matmul(x, y, out=out)
    else:
        out[...] = numpy.matmul(x, y)


def _dot_into(x: Any, y: Any, out: Any) -> None:
    if out.ndim and out.flags.c_contiguous and out.dtype == numpy.result_type(x, y):
        numpy.dot(x, y, out=out)
    else:
        out[...] = numpy.dot(x, y)


def _inner(x: Any, y: Any) -> Any:
    return numpy.inner(y, x)


def _inner_into(x: Any, y: Any, out: Any) -> None:
    out[...] = numpy.inner(y, x)


MATMUL = Function("dot:matmul", "matmul", _matmul, _matmul_into)
DOT = Function("dot", "numpy.dot", numpy.dot, _dot_into)
INNER = Function("dot", "numpy.dot", _inner, _inner_into)
"""The inner product of a vector, given as the second operand, and the rows of a matrix."""


def _of_stacks(x: Any, y: Any, out: Any = None) -> Any:
    """The product of stacks of small matrices; None where NumPy has to compute it."""
    if x.ndim + y.ndim < 5:
        return None
    from diffuse.numpy.ops import stacks  # not in programs that have none

    return stacks.product(x, y, out)


class Matmul(ufunc):
    """`numpy.matmul`, whose plain calls on large arrays are recorded."""

    def general(self, args: tuple[Any, ...], out: tuple[Any, ...] | None = None, **options: Any) -> Any:
        if len(args) == 2 and out is None and not options:
            x, y = args
            one, other = _description(x), _description(y)
            if one is not None and other is not None:
                found = None
                if one is not x and other is not y and one.ndim == 1 and one.size >= core.SMALL:
                    found = at_once.dot(x, y) if one.dtype.char in "fd" else None
                elif _light(one, other):
                    found = _at_once(x, y, MATMUL)
                if found is not None:
                    return found
            if not isinstance(x, Array) or not isinstance(y, Array):
                if foreign(x) or foreign(y):  # it may handle the call itself
                    return super().general(args)
                x, y = _operand(x), _operand(y)
            if _vectors(x, y) or _plain(x, y):
                try:
                    found = product(x, y, MATMUL)
                except base.Unaddressable:
                    found = None
                if found is not None:
                    return found
        return super().general(args, out, **options)


UFUNCS["matmul"] = Matmul(numpy.matmul)


def _recorded(x: Any, y: Any, function: Function) -> Any:
    """The product of two arrays, recorded unless it is done at once; None if NumPy has to compute it."""
    found = at_once.dot(x, y) if x.form.ndim == 1 == y.form.ndim and x.form.dtype.char in "fd" else None
    if found is not None:
        return found
    try:
        return product(x, y, function)
    except base.Unaddressable:
        return None


def dot(a: Any, b: Any, out: Any = None) -> Any:
    if out is None and (_vectors(a, b) or _matrix_first(a, b)):
        rows, columns = a.meta.shape[:-1], b.shape[1:]
        few = rows and rows[0] * (columns[0] if columns else 1) <= LITTLE
        found = _at_once(a, b, DOT) if few else None
        if found is None:
            found = _recorded(_operand(a), _operand(b), DOT)
        if found is not None:
            return found
    if asks(a) or asks(b):
        return fallback.asked(numpy.dot, a, b, out)
    x, y = (_operand(a), _operand(b)) if out is None else (asanyarray(a), asanyarray(b))
    if any([type(given) in (list, tuple) and not found.size for given, found in ((a, x), (b, y))]):
        x, y = a, b  # a sequence without elements has no type to NumPy: the result has the other operand's
    elif out is None and isinstance(x, Array) and isinstance(y, Array):
        if x.form.ndim == 0 or y.form.ndim == 0:
            dtype = numpy.result_type(x.form.dtype, y.form.dtype)
            if dtype.char in "fdFD" and max(x.form.ndim, y.form.ndim) <= 2:  # BLAS adds products to zeros
                return fallback.silently(numpy.dot, x, y)
            if dtype in NATIVE:  # NumPy casts first, and a copy may be laid out in another way
                x, y = [a if a.form.dtype == dtype else elementwise.duplicate(a, dtype) for a in (x, y)]
            return UFUNCS["multiply"](x, y)
        if (_plain(x, y) and y.form.ndim <= 2 and (x.form.ndim <= 2 or y.form.ndim == 1)
                and x.form.shape[-1] == y.form.shape[0]):
            found = _recorded(x, y, DOT)
            if found is not None:
                return found
    elif type(x) is numpy.ndarray or type(y) is numpy.ndarray:
        x, y = a, b  # beside objects NumPy keeps a number as it is
    return fallback.silently(numpy.dot, x, y, *(() if out is None else (out,)))


@asking(numpy.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    x, y = asanyarray(a), asanyarray(b)
    kinds = {x.dtype.kind, y.dtype.kind}
    if not _plain(x, y) or not kinds <= {*"fiuc"} or x.size != y.size or x.size < core.SMALL:
        return fallback.silently(numpy.vdot, a, b)
    if x.dtype.kind in "fiu" and x.dtype.char != "e":
        return folds.product(x.ravel(), y.ravel(), "vdot")
    with numpy.errstate(all="ignore"):  # NumPy's has no warnings; changing the modes forwards pending work
        if "c" in kinds:
            return UFUNCS["multiply"](UFUNCS["conjugate"](x.ravel()), y.ravel()).sum()
        return folds.product(x.ravel(), y.ravel())


@asking(numpy.inner)
def inner(a: Any, b: Any, /) -> Any:
    x, y = asanyarray(a), asanyarray(b)
    if _plain(x, y) and x.ndim == 1 and y.ndim <= 2 and x.shape == y.shape[-1:]:
        found = _recorded(x, y, DOT) if y.ndim == 1 else _recorded(y, x, INNER)
        if found is not None:
            return found
    return fallback.silently(numpy.inner, a, b)


@asking(numpy.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    x, y = asarray(a).ravel(), asarray(b).ravel()
    if type(out) is tuple:
        raise TypeError("return arrays must be of ArrayType")
    if out is Ellipsis:  # NumPy passes it on by its position
        raise TypeError("out=... is only allowed as a keyword argument.")
    options = {} if out is None else {"out": out}
    return UFUNCS["multiply"](x[:, None], y[None, :], **options)


