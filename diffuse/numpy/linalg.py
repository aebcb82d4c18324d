"""`numpy.linalg` on Diffuse arrays: LAPACK through NumPy; norms of vectors and products as recorded
operations."""

from __future__ import annotations

from math import sqrt as _sqrt
from types import SimpleNamespace as _SimpleNamespace
from typing import Any

import numpy as _numpy
import numpy.linalg as _real

from diffuse.numpy.arrays import core as _core
from diffuse.numpy.bridge import fallback as _fallback
from diffuse.numpy.bridge import threaded as _threaded
from diffuse.numpy.bridge.namespace import fill as _fill
from diffuse.numpy.ops.calculus import cross as _cross
from diffuse.numpy.ops.conversion import asanyarray as _asanyarray
from diffuse.numpy.ops.manipulation import asking as _asking
from diffuse.numpy.ops.manipulation import asks as _asks
from diffuse.numpy.ops.manipulation import diagonal as _diagonal
from diffuse.numpy.ops.manipulation import is_array as _is_array
from diffuse.numpy.ops.manipulation import matrix_transpose as _matrix_transpose
from diffuse.numpy.ops.products import dot as _dot
from diffuse.numpy.ops.products import outer as _outer
from diffuse.numpy.ops.ufuncs import UFUNCS as _UFUNCS
from diffuse.numpy.small import native as _native


def _line(axis: Any, ndim: int) -> tuple[Any] | None:
    """The one axis of vectors whose norm is wanted; None for matrices, or if it is no axis."""
    if isinstance(axis, tuple) or axis is None:
        given = (0,) if axis is None and ndim == 1 else axis
        return given if given is not None and len(given) == 1 else None
    try:
        return (int(axis),)
    except (TypeError, ValueError, OverflowError):
        return None


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if _native is not None and ord is None and axis is None and not keepdims:
        square = _native.dot(x, x)
        if square is not None:
            return type(square)(_sqrt(square)) if type(square) is _numpy.float64 else _numpy.sqrt(square)
    if _asks(x):
        return _fallback.asked(_real.norm, x, ord, axis, keepdims)
    vector = _asanyarray(x)
    if (ord is None and axis is None and not keepdims and type(vector) is _core.array_class
            and vector.meta.flags.c_contiguous and vector.dtype.kind == "f"
            and vector.size >= _core.SMALL > 0):
        flat = vector if vector.meta.ndim == 1 else vector.ravel()
        square = _dot(flat, flat)
        return _numpy.sqrt(square) if isinstance(square, _numpy.generic) else _UFUNCS["sqrt"](square)
    if not _is_array(vector) or vector.dtype.kind not in "fc" or not vector.size or not vector.ndim:
        return _fallback.silently(_real.norm, x, ord, axis, keepdims)
    if vector.size < _core.SMALL:  # the bits of small arrays are NumPy's
        return _fallback.silently(_real.norm, x, ord, axis, keepdims)
    if axis is None and (ord is None or ord == 2 and vector.ndim == 1):
        flat = vector.ravel(order="K")
        if flat.dtype.kind == "c":
            total = (flat.real**2 + flat.imag**2).sum()
        else:
            total = _dot(flat, flat)
        root = _UFUNCS["sqrt"](total)
        return _asanyarray(root).reshape((1,) * vector.ndim) if keepdims else root
    along = _line(axis, vector.ndim)
    if along is None:
        return _fallback.silently(_real.norm, x, ord, axis, keepdims)
    if ord is None or ord == 2:
        squares = vector * vector if vector.dtype.kind == "f" else vector.real**2 + vector.imag**2
        return _UFUNCS["sqrt"](squares.sum(along, keepdims=keepdims))
    if ord == _numpy.inf:
        return abs(vector).max(along, keepdims=keepdims)
    if ord == -_numpy.inf:
        return abs(vector).min(along, keepdims=keepdims)
    if ord == 1:
        return abs(vector).sum(along, keepdims=keepdims)
    return _fallback.silently(_real.norm, x, ord, axis, keepdims)


@_asking(_numpy.linalg.matmul)
def matmul(x1: Any, x2: Any, /) -> Any:
    return _UFUNCS["matmul"](x1, x2)


@_asking(_numpy.linalg.outer)
def outer(x1: Any, x2: Any, /) -> Any:
    x, y = _asanyarray(x1), _asanyarray(x2)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are x1.ndim={x.ndim} and "
                         f"x2.ndim={y.ndim}.")
    return _outer(x, y)


@_asking(_numpy.linalg.cross)
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    x, y = _asanyarray(x1), _asanyarray(x2)
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ValueError("Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
                         f"{x.shape[axis]} and {y.shape[axis]} dimensional instead.")
    return _cross(x, y, axis=axis)


@_asking(_numpy.linalg.diagonal)
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return _diagonal(x, offset, -2, -1)


def matrix_transpose(x: Any, /) -> Any:
    return _matrix_transpose(x)


@_asking(_numpy.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    a = _asanyarray(x)
    if axis is None and _is_array(a) and not keepdims:
        return norm(a.ravel(), ord)
    return _fallback.silently(_real.vector_norm, x, axis=axis, keepdims=keepdims, ord=ord)


_STACKS = """solve inv cholesky qr eigvals eigvalsh eig eigh svd svdvals slogdet det pinv matrix_rank cond
    tensorsolve tensorinv matrix_power"""
_module: Any = _real._linalg
_stacked = {name: _threaded.Stacked(value) for name, value in vars(_module._umath_linalg).items()
            if isinstance(value, _numpy.ufunc)}
_scope = _threaded.over(_module, _umath_linalg=_SimpleNamespace(**vars(_module._umath_linalg) | _stacked))
for _name in _STACKS.split():
    globals()[_name] = _threaded.offered(_scope[_name], getattr(_real, _name), "linalg")
_fill(globals(), _real)
