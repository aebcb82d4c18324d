"""Rules of functions that fold or accumulate along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from diffuse.gradients.variable import FUNCTIONS, np, one, plain


def kept(result: Any, shape: tuple[int, ...], axis: Any) -> Any:
    """A folded array, or its gradient, with the folded axes as axes of length 1."""
    axes = range(len(shape)) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
    folded = {a % len(shape) for a in axes} if shape else set()
    return np.reshape(result, tuple(1 if d in folded else n for d, n in enumerate(shape)))


def _sum(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    value = plain(x)
    return one(x, np.sum(value, axis=axis, keepdims=keepdims),
               lambda g: np.broadcast_to(kept(g, value.shape, axis), value.shape))


def _count(value: Any, axis: Any) -> int:
    axes = range(value.ndim) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
    return int(numpy.prod([value.shape[a] for a in axes], dtype=int))


def _mean(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return _sum(x, axis, keepdims=keepdims) * (1.0 / _count(plain(x), axis))


def _prod(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The gradient is the product of the other elements, also where some of them are zero."""
    value = plain(x)
    result = np.prod(value, axis=axis, keepdims=keepdims)

    def back(g: Any) -> Any:
        zero = value == 0.0
        safe = np.where(zero, 1.0, value)
        others = kept(np.prod(safe, axis=axis), value.shape, axis)
        zeros = kept(np.sum(zero, axis=axis), value.shape, axis)
        part = np.where(zeros == 0, others / safe, np.where((zeros == 1) & zero, others, 0.0))
        return kept(g, value.shape, axis) * part

    return one(x, result, back)


def _extreme(name: str) -> Callable[..., Any]:
    def fold(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        value = plain(x)
        result = getattr(np, name)(value, axis=axis, keepdims=keepdims)

        def back(g: Any) -> Any:
            equal = value == kept(result, value.shape, axis)
            share = kept(np.sum(equal, axis=axis), value.shape, axis)
            return np.where(equal, kept(g, value.shape, axis) / share, 0.0)

        return one(x, result, back)

    fold.__doc__ = f"`numpy.{name}`; equal extremes share the gradient."
    return fold


def _var(x: Any, axis: Any = None, ddof: float = 0, *, keepdims: bool = False) -> Any:
    apart = x - _mean(x, axis, keepdims=True)
    return _sum(apart * apart, axis, keepdims=keepdims) * (1.0 / (_count(plain(x), axis) - ddof))


def _std(x: Any, axis: Any = None, ddof: float = 0, *, keepdims: bool = False) -> Any:
    return np.sqrt(_var(x, axis, ddof, keepdims=keepdims))


def _cumsum(x: Any, axis: Any = None) -> Any:
    if axis is None:
        return _cumsum(np.ravel(x), 0)
    return one(x, np.cumsum(plain(x), axis=axis),
               lambda g: np.flip(np.cumsum(np.flip(g, axis), axis=axis), axis))


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord not in (None, 2, "fro") or (ord == 2 and axis is None and plain(x).ndim > 1):
        raise TypeError(f"numpy.linalg.norm with ord={ord!r} has no rule for gradients: the Euclidean one "
                        "has")
    return np.sqrt(_sum(x * x, axis, keepdims=keepdims))


FUNCTIONS |= {"sum": _sum, "mean": _mean, "average": _mean, "prod": _prod, "var": _var, "std": _std,
              "cumsum": _cumsum, "norm": _norm,
              **{alias: _extreme(name) for name in ("max", "min") for alias in (name, f"a{name}")}}
